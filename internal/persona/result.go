// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/common/types"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Form is how a system has the results of a tool: data that an order can keep. The
// zero value leaves results as they are.
type Form struct {
	System, Tool string
	Meaning      int // which one of the tool's

	// Note is said after the result; empty: nothing is.
	Note string
}

// meaning returns what the form is about; nil where there is nothing like it.
func (f Form) meaning() *Meaning {
	system, ok := Named(f.System)
	if !ok {
		return nil
	}
	tool := system.Tool(f.Tool)
	if tool == nil || f.Meaning < 0 || f.Meaning >= len(tool.Means) {
		return nil
	}
	tool.mustCompile()
	return tool.Means[f.Meaning]
}

// Key returns the key of theirs that a key of our input was made of; false where there
// is none, or more to it than a key.
func (f Form) Key(ours string) (theirs string, ok bool) {
	if m := f.meaning(); m != nil {
		theirs, ok = m.keys[ours]
	}
	return theirs, ok
}

// Around returns call with results in the form.
func (f Form) Around(call tools.Call) tools.Call {
	meaning := f.meaning()
	if meaning != nil && meaning.result == nil {
		meaning = nil
	}
	if meaning == nil && f.Note == "" {
		return call
	}
	if _, ok := call.(tools.Renewer); ok {
		return renewable{formed{call, meaning, f.Note}}
	}
	return formed{call, meaning, f.Note}
}

// formed is a call whose results are in the form of a system.
type formed struct {
	tools.Call
	meaning *Meaning // nil: results stay as they are
	note    string
}

// renewable is one that can be judged anew.
type renewable struct{ formed }

func (c renewable) Renew(restrictions tools.Restrictions) (tools.Call, error) {
	next, err := c.Call.(tools.Renewer).Renew(restrictions)
	if err != nil {
		return nil, err
	}
	return renewable{formed{next, c.meaning, c.note}}, nil
}

func (c formed) Run(ctx context.Context, rights tools.Rights, out tools.Sink) (tools.Result, error) {
	if c.meaning == nil {
		result, err := c.Call.Run(ctx, rights, out)
		result.Content = append(result.Content, tools.Text("\n("+c.note+")"))
		return result, err
	}
	streams, began := &streams{Sink: out}, time.Now()
	result, err := c.Call.Run(ctx, rights, streams)
	if len(result.Content) == 0 {
		return result, err
	}
	formed, wrong := c.form(result, streams, time.Since(began))
	if wrong != nil { // the result counts, not its form
		result.Content = append(result.Content, tools.Text(fmt.Sprintf("(This is not in the form of the other system: %v.)", wrong)))
		return result, err
	}
	return formed, err
}

// form returns a result with the content that the system would have. Pictures and
// artifacts stay. Where the system's result is JSON, the details have the text.
func (c formed) form(result tools.Result, s *streams, ran time.Duration) (tools.Result, error) {
	var text strings.Builder
	var rest []tools.Content
	for _, content := range result.Content {
		if t, ok := content.(tools.Text); ok {
			text.WriteString(string(t))
		} else {
			rest = append(rest, content)
		}
	}
	details := make(map[string]any)
	if len(result.Details) > 0 {
		if err := json.Unmarshal(result.Details, &details); err != nil {
			return result, err
		}
	}
	var input map[string]any
	if err := json.Unmarshal(c.Call.Input(), &input); err != nil {
		return result, err
	}
	exit := map[string]any{}
	if e := result.Exit; e != nil {
		exit = map[string]any{"code": int64(e.Code), "signal": e.Signal, "message": e.Message, "exited": e.Reason == tools.Exited}
	}
	value, _, err := c.meaning.result.Eval(map[string]any{
		"input": whole(input), "text": text.String(), "details": whole(details), "exit": exit,
		"stdout": s.text(tools.Stdout), "stderr": s.text(tools.Stderr), "ran_ms": ran.Milliseconds(),
	})
	if err != nil {
		return result, err
	}
	if plain, ok := value.(types.String); ok {
		result.Content = append([]tools.Content{tools.Text(plain)}, rest...)
		return result, nil
	}
	content, err := appendJSON(nil, value)
	if err != nil {
		return result, err
	}
	result.Content = append([]tools.Content{tools.JSON(tools.Canonical(content))}, rest...)
	details["text"] = text.String()
	result.Details, err = json.Marshal(details)
	return result, err
}

// whole returns a value with whole numbers as expressions count with them.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for key, item := range v {
			v[key] = whole(item)
		}
	case []any:
		for i, item := range v {
			v[i] = whole(item)
		}
	}
	return value
}

// maxStream is how much of each stream a form can show: its beginning, as other systems
// have it.
const maxStream = 32 << 10

// streams keeps the beginning of what a command writes to each of its streams.
type streams struct {
	tools.Sink

	mu   sync.Mutex
	kept [tools.Terminal + 1][]byte
	cut  [tools.Terminal + 1]bool
}

func (s *streams) Emit(r tools.Report) {
	if out, ok := r.(tools.Output); ok && out.Stream >= 0 && int(out.Stream) < len(s.kept) {
		s.mu.Lock()
		room := maxStream - len(s.kept[out.Stream])
		s.kept[out.Stream] = append(s.kept[out.Stream], out.Data[:min(room, len(out.Data))]...)
		s.cut[out.Stream] = s.cut[out.Stream] || len(out.Data) > room
		s.mu.Unlock()
	}
	s.Sink.Emit(r)
}

func (s *streams) text(stream tools.Stream) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.ToValidUTF8(string(s.kept[stream]), "\uFFFD")
	if s.cut[stream] {
		text += " ... truncated"
	}
	return text
}
