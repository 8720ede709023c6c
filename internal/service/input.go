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

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// toolInput is the input of a call as JSON text. problem says why a Struct has
// no such text.
type toolInput struct {
	json    []byte
	problem *tools.InputError
}

// inputOf returns the input of a request, which has it in one form at most.
func inputOf(request *pb.ExecuteToolRequest) toolInput {
	if request.Input == nil {
		return toolInput{json: request.InputJson}
	}
	w := structWriter{}
	w.object(request.Input, "")
	if len(w.problems) > 0 {
		return toolInput{json: w.out, problem: &tools.InputError{Problems: w.problems}}
	}
	return toolInput{json: w.out}
}

// structWriter writes a Struct as JSON text, keys sorted, so that the same
// input always gives the same text. protojson is not used: it varies its
// output on purpose and writes large integers as if they were exact.
type structWriter struct {
	out      []byte
	problems []tools.Problem
	depth    int
}

func (w *structWriter) object(s *structpb.Struct, pointer string) {
	if !w.enter(pointer) {
		return
	}
	w.out = append(w.out, '{')
	for i, key := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.text(key)
		w.out = append(w.out, ':')
		w.value(s.Fields[key], pointer+"/"+key)
	}
	w.out = append(w.out, '}')
	w.depth--
}

func (w *structWriter) list(l *structpb.ListValue, pointer string) {
	if !w.enter(pointer) {
		return
	}
	w.out = append(w.out, '[')
	for i, item := range l.GetValues() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.value(item, pointer+"/"+strconv.Itoa(i))
	}
	w.out = append(w.out, ']')
	w.depth--
}

// enter goes one level down, unless that is too deep.
func (w *structWriter) enter(pointer string) bool {
	if w.depth == tools.MaxDepth {
		w.problem(pointer, fmt.Sprintf("is nested too deeply: at most %d levels", tools.MaxDepth))
		return false
	}
	w.depth++
	return true
}

func (w *structWriter) value(v *structpb.Value, pointer string) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		w.text(kind.StringValue)
	case *structpb.Value_NumberValue:
		w.number(kind.NumberValue, pointer)
	case *structpb.Value_BoolValue:
		w.out = strconv.AppendBool(w.out, kind.BoolValue)
	case *structpb.Value_StructValue:
		w.object(kind.StructValue, pointer)
	case *structpb.Value_ListValue:
		w.list(kind.ListValue, pointer)
	default: // null, or a value that was never set
		w.out = append(w.out, "null"...)
	}
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
func (w *structWriter) number(f float64, pointer string) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		w.problem(pointer, "is not a finite number")
	case f == math.Trunc(f) && math.Abs(f) > 1<<53:
		w.problem(pointer, fmt.Sprintf("%.0f is beyond 2^53, where a Struct rounds integers: send it in input_json", f))
	case f == math.Trunc(f):
		w.out = strconv.AppendInt(w.out, int64(f), 10)
	default:
		w.out = strconv.AppendFloat(w.out, f, 'g', -1, 64)
	}
}

func (w *structWriter) problem(pointer, message string) {
	w.problems = append(w.problems, tools.Problem{Pointer: pointer, Message: message})
}
