// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/toolserver/toolserver/internal/admission"
	"github.com/toolserver/toolserver/internal/tools"
)

// inputRequest is a request that has an input, in one form at most.
type inputRequest interface {
	GetInput() *structpb.Struct
	GetInputJson() []byte
}

// inputOf returns the input of a request as JSON text.
func inputOf(request inputRequest) admission.Input {
	input := request.GetInput()
	if input == nil {
		return admission.Input{JSON: request.GetInputJson()}
	}
	w := structWriter{}
	w.object(input)
	if len(w.problems) > 0 {
		standIn, _ := proto.MarshalOptions{Deterministic: true}.Marshal(input)
		return admission.Input{JSON: standIn, Problem: &tools.InputError{Problems: w.problems}}
	}
	return admission.Input{JSON: w.out}
}

// structWriter writes a Struct as JSON text, keys sorted, so that the same
// input always gives the same text. protojson is not used: it varies its
// output on purpose and writes large integers as if they were exact.
type structWriter struct {
	out      []byte
	path     []string // where it is
	problems []tools.Problem
}

func (w *structWriter) object(s *structpb.Struct) {
	w.out = append(w.out, '{')
	for i, key := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.text(key)
		w.out = append(w.out, ':')
		if !w.value(s.Fields[key], key) {
			return
		}
	}
	w.out = append(w.out, '}')
}

func (w *structWriter) list(l *structpb.ListValue) {
	w.out = append(w.out, '[')
	for i, item := range l.GetValues() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if !w.value(item, strconv.Itoa(i)) {
			return
		}
	}
	w.out = append(w.out, ']')
}

// maxStructProblems is how many problems of a Struct are told at most.
const maxStructProblems = 20

// value writes a value that is at step below where the writer is. It reports
// whether to go on.
func (w *structWriter) value(v *structpb.Value, step string) bool {
	w.path = append(w.path, step)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	switch {
	case len(w.path) > tools.MaxDepth:
		w.problem(fmt.Sprintf("is nested too deeply: at most %d levels", tools.MaxDepth))
		return false
	case len(w.out) > tools.MaxInputBytes:
		w.problem(fmt.Sprintf("the input is too large: at most %d bytes", tools.MaxInputBytes))
		return false
	}
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		w.text(kind.StringValue)
	case *structpb.Value_NumberValue:
		w.number(kind.NumberValue)
	case *structpb.Value_BoolValue:
		w.out = strconv.AppendBool(w.out, kind.BoolValue)
	case *structpb.Value_StructValue:
		w.object(kind.StructValue)
	case *structpb.Value_ListValue:
		w.list(kind.ListValue)
	default: // null, or a value that was never set
		w.out = append(w.out, "null"...)
	}
	return len(w.problems) < maxStructProblems
}

func (w *structWriter) text(s string) {
	quoted, err := json.Marshal(s)
	if err != nil { // strings always marshal
		panic(err)
	}
	w.out = append(w.out, quoted...)
}

// number writes integers without exponent or fraction. Those beyond 2^53 are
// refused: a Struct may have rounded them on the way.
func (w *structWriter) number(f float64) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		w.problem("is not a finite number")
	case f == math.Trunc(f) && math.Abs(f) > 1<<53:
		w.problem(fmt.Sprintf("%.0f is beyond 2^53, where a Struct rounds integers: send it in input_json", f))
	case f == math.Trunc(f):
		w.out = strconv.AppendInt(w.out, int64(f), 10)
	default:
		w.out = strconv.AppendFloat(w.out, f, 'g', -1, 64)
	}
}

// problem notes a problem with the value where the writer is. Keys are cut: they
// come from outside.
func (w *structWriter) problem(message string) {
	if len(w.problems) == maxStructProblems {
		return
	}
	var pointer strings.Builder
	for _, step := range w.path {
		step = strings.NewReplacer("~", "~0", "/", "~1").Replace(step[:min(len(step), 60)])
		pointer.WriteString("/" + strings.ToValidUTF8(step, "\uFFFD"))
	}
	w.problems = append(w.problems, tools.Problem{Pointer: pointer.String(), Message: message})
}
