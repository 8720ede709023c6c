// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/recording"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// recorded finds what answers a call.
type recorded struct {
	all    []*recording.Call
	byID   map[string]*recording.Call
	byTool map[string][]*recording.Call // that can be answered with, in order
	exact  map[asked][]*recording.Call  // by the one form of the input
	loose  map[asked][]*recording.Call  // by that without what is as if it were not there

	mu    sync.Mutex
	turns memory[sessionInput, int]  // how often was it asked
	given memory[givenID, givenCall] // what was answered to a call id
}

// asked is a tool and an input.
type asked struct{ tool, input string }

// sessionInput is what is asked in one session.
type sessionInput struct {
	session session.Ref
	asked   asked
}

type givenID struct {
	session session.Ref
	callID  string
}

type givenCall struct {
	asked asked
	call  *recording.Call
}

// maxRemembered is how many answers are remembered, for calls that come again.
const maxRemembered = 100_000

func newRecorded(r *recording.Recording) *recorded {
	all := &recorded{
		all: r.Calls, byID: make(map[string]*recording.Call), byTool: make(map[string][]*recording.Call),
		exact: make(map[asked][]*recording.Call), loose: make(map[asked][]*recording.Call),
	}
	for _, call := range r.Calls {
		x := call.Execution
		all.byID[x.GetExecutionId()] = call
		if !call.Whole() || x.GetInputJson() == "" {
			continue
		}
		all.byTool[x.GetTool()] = append(all.byTool[x.GetTool()], call)
		input := tools.Canonical([]byte(x.GetInputJson()))
		exact, loose := asked{x.GetTool(), string(input)}, asked{x.GetTool(), withoutDefaults(input)}
		all.exact[exact] = append(all.exact[exact], call)
		all.loose[loose] = append(all.loose[loose], call)
	}
	return all
}

// withoutDefaults returns an input without the keys whose values mostly mean what it means
// that they are not there.
func withoutDefaults(input []byte) string {
	value, err := tools.DecodeJSON(input)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return string(input)
	}
	for key, value := range object {
		v := reflect.ValueOf(value)
		if value == nil || value == json.Number("0") || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
			delete(object, key)
		}
	}
	return string(tools.AppendJSON(nil, object))
}

// answer returns what answers a call: what was recorded of the same one, each in its turn
// in a session, and then the last again. A call id that comes again is the same call.
func (r *recorded) answer(in session.Ref, callID, tool string, input []byte) (*recording.Call, error) {
	input = tools.Canonical(input)
	what := asked{tool, string(input)}
	list := r.exact[what]
	if list == nil {
		list = r.loose[asked{tool, withoutDefaults(input)}]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, known := r.given.values[givenID{in, callID}]; known && callID != "" {
		if before.asked != what {
			return nil, status.Errorf(codes.AlreadyExists, "call id %q was used for another call of this session: %s with %s", callID, before.asked.tool, output.Short(before.asked.input, 200))
		}
		return before.call, nil
	}
	if list == nil {
		return nil, r.unknown(what)
	}
	n := r.turns.values[sessionInput{in, what}]
	call := list[min(n, len(list)-1)]
	r.turns.put(sessionInput{in, what}, n+1)
	if callID != "" {
		r.given.put(givenID{in, callID}, givenCall{what, call})
	}
	return call, nil
}

// answered returns what was answered to a call id; nil where nothing was.
func (r *recorded) answered(in session.Ref, callID string) *recording.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given.values[givenID{in, callID}].call
}

// maxShown is how many recorded inputs an error shows.
const maxShown = 5

// unknown says that a call is not in the recording, and what is.
func (r *recorded) unknown(what asked) error {
	calls := r.byTool[what.tool]
	if len(calls) == 0 {
		var names []string
		for name := range r.byTool {
			names = append(names, name)
		}
		slices.Sort(names)
		return status.Errorf(codes.NotFound, "no call of %s is in the recording: it has calls of %s%s.", output.ValidText(what.tool), strings.Join(names[:min(len(names), 50)], ", "), nearest.Hint(nearest.Names(what.tool, names)))
	}
	var inputs []string
	for _, call := range calls {
		inputs = append(inputs, call.Execution.GetInputJson())
	}
	slices.Sort(inputs)
	inputs = slices.Compact(inputs)
	slices.SortStableFunc(inputs, func(a, b string) int { return cmp.Compare(alike(b, what.input), alike(a, what.input)) })
	for i := range inputs[:min(len(inputs), maxShown)] {
		inputs[i] = output.Short(inputs[i], 200)
	}
	text, more := strings.Join(inputs[:min(len(inputs), maxShown)], ", "), ""
	if n := len(inputs) - maxShown; n > 0 {
		more = fmt.Sprintf(" and %d others", n)
	}
	return status.Errorf(codes.NotFound, "this call is not in the recording: %s with %s. Of %s it has the inputs %s%s.", what.tool, output.Short(what.input, 200), what.tool, text, more)
}

// alike is how much two inputs have in common: keys with the same values first, then how
// long they are the same.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	one, two := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &two) == nil {
		for key, value := range one {
			if other, ok := two[key]; ok && string(other) == string(value) {
				n += 1 << 20
			}
		}
	}
	return n
}

// memory remembers so many things, the newest.
type memory[K comparable, V any] struct {
	values map[K]V
	order  []K // the oldest first
}

func (m *memory[K, V]) put(key K, value V) {
	if m.values == nil {
		m.values = make(map[K]V)
	}
	if _, known := m.values[key]; !known {
		m.order = append(m.order, key)
	}
	m.values[key] = value
	if len(m.order) > maxRemembered {
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
}

// OfferRecorded has a registry offer the tools of a recording, as far as it takes them. Those
// whose calls were recorded without a description have none.
func OfferRecorded(registry *tools.Registry, r *recording.Recording) error {
	described := make(map[string]bool)
	bySource := make(map[string][]tools.Tool)
	offer := func(tool *pb.Tool) {
		described[tool.GetName()] = true
		source, spec := specOf(tool)
		for _, need := range spec.RequiredCapabilities {
			if !slices.Contains(registry.Capabilities, need) {
				registry.Capabilities = append(registry.Capabilities, need)
			}
		}
		bySource[source] = append(bySource[source], tools.NewForeign(tools.Foreign{
			Spec: spec, Schema: json.RawMessage(cmp.Or(tool.GetInputSchema(), `{"type":"object"}`)), Unavailable: tool.GetUnavailableReason(),
			Check: func(input json.RawMessage) (json.RawMessage, error) {
				_, err := tools.DecodeJSON(input)
				return input, err
			},
		}))
	}
	for _, tool := range r.Tools {
		offer(tool)
	}
	for _, call := range r.Calls {
		if name := call.Execution.GetTool(); !described[name] && call.Execution.GetOutcome() != pb.Outcome_OUTCOME_NO_SUCH_TOOL {
			offer(&pb.Tool{Name: name, Summary: "Recorded without a description."})
		}
	}
	var errs []error
	for source, list := range bySource {
		errs = append(errs, registry.Replace(source, list...))
	}
	return errors.Join(errs...)
}

// specOf returns what a message says of a tool, and the source that offers it.
func specOf(tool *pb.Tool) (source string, spec tools.Spec) {
	spec = tools.Spec{
		Name: tool.GetName(), Aliases: tool.GetAliases(), Label: tool.GetLabel(), Summary: tool.GetSummary(), Description: tool.GetDescription(),
		Help: tool.GetHelp(), Category: tool.GetCategory(), Level: cmp.Or(tools.Level(tool.GetLevel()), tools.ReadOnly),
		ConcurrencySafe: tool.GetConcurrencySafe(), Dangerous: tool.GetDangerous(), RequiredCapabilities: tool.GetRequiredCapabilities(),
		DefaultTimeout: tool.GetDefaultTimeout().AsDuration(),
	}
	if text := tool.GetResultSchema(); text != "" {
		spec.ResultSchema = json.RawMessage(text)
	}
	for _, e := range tool.GetExamples() {
		spec.Examples = append(spec.Examples, tools.Example{Summary: e.GetSummary(), Input: json.RawMessage(e.GetInputJson())})
	}
	if name, own, ok := strings.Cut(spec.Name, tools.NamespaceMark); ok {
		spec.Name, spec.Server, spec.Kind = own, name, tools.MCP
		if kind := tools.Kind(tool.GetKind() - 1); kind > tools.Builtin && kind <= tools.Script {
			spec.Kind = kind
		}
		return name, spec
	}
	return "builtin", spec
}
