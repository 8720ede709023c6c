// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// A program that is a tool reads its input as JSON from standard input. What it writes to
// standard output is its answer: text, one JSON object or array or, as an object with
// nothing but "content", a list of what MCP calls content:
//
//	{"content": [{"type": "text", "text": "…"}, {"type": "image", "data": "base64"}, {"type": "json", "value": …}]}
//
// What it writes to standard error is shown to people while it runs, but for lines such as
// {"progress": 3, "total": 10, "message": "copying"}, which tell how far it is. Exit
// status 0 is success; after any other, both outputs are for the model.

// Bounds of what such a program says.
const (
	maxAnswer   = 16 << 20 // bytes of both outputs, unless the server allows fewer
	maxImage    = 3 << 20  // bytes of an image
	maxContents = 100      // pieces of an answer
	maxLine     = 64 << 10 // bytes of a line that may tell of progress
	maxStderr   = 64 << 10 // bytes of standard error that are kept, the last
)

// RunTool runs a program that is a tool, with its input. Typed says that its answer is
// JSON of any size, which somebody checks.
func (r *Runner) RunTool(ctx context.Context, env tools.Env, c Command, input json.RawMessage, typed bool, out tools.Sink) (tools.Result, error) {
	c.Input = true
	c.MaxOutput = maxAnswer
	if limit := r.all.MaxOutput(); limit > 0 {
		c.MaxOutput = min(c.MaxOutput, limit)
	}
	said := &programOutput{out: out}
	x, err := r.Start(ctx, c, said.take)
	if err != nil {
		return tools.Result{}, err
	}
	defer context.AfterFunc(ctx, func() { x.Stop(context.Cause(ctx)) })()
	x.Write(ctx, input) // a program need not read it
	x.CloseInput()
	end, err := x.Wait()
	said.line(nil, true)
	t := Transcript{}
	t.bytes[tools.Stdout], t.bytes[tools.Stderr] = uint64(said.stdout.Len()), said.stderrBytes
	result := tools.Result{Exit: &end.Exit, Usage: &end.Usage, Details: t.details(end)}
	switch {
	case err != nil:
	case end.Exit.Reason == tools.TimedOut && ctx.Err() != nil:
		err = tools.Failf(tools.TimedOutCode, "The tool was ended after %s, when its time was over. %s Ask it for less at once.", briefly(end.Ran), wrote(string(said.stderr)))
	default:
		err = r.failureOf(ctx, end, &failure{runner: r, env: env, command: &c, code: end.Exit.Code, said: lastOf(string(said.stderr), maxSaid)})
	}
	if err == nil {
		result.Content, err = said.answer(env, typed)
	} else {
		result.Content = said.everything()
	}
	x.remark(&result)
	return result, err
}

// programOutput is what a program that is a tool says.
type programOutput struct {
	out         tools.Sink
	stdout      bytes.Buffer
	stderr      []byte // the end of it, without progress
	stderrBytes uint64
	begun       []byte // a line without its end
}

func (s *programOutput) take(stream tools.Stream, data []byte) {
	if stream != tools.Stderr {
		s.stdout.Write(data)
		return
	}
	s.stderrBytes += uint64(len(data))
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		s.line(line, ended)
		data = rest
	}
}

// line takes a part of a line of standard error. One that could tell of progress is kept
// until it has ended.
func (s *programOutput) line(part []byte, ended bool) {
	s.begun = append(s.begun, part...)
	begins := bytes.HasPrefix(bytes.TrimLeft(s.begun, " \t"), []byte("{"))
	if !ended && begins && len(s.begun) < maxLine {
		return
	}
	if report, ok := progressOf(s.begun); ok && begins {
		s.out.Emit(report)
		s.begun = s.begun[:0]
		return
	}
	if ended && part != nil {
		s.begun = append(s.begun, '\n')
	}
	if len(s.begun) > 0 {
		s.out.Emit(tools.Output{Stream: tools.Stderr, Data: s.begun})
		s.stderr = append(s.stderr, s.begun...)
		s.stderr = s.stderr[max(0, len(s.stderr)-maxStderr):]
	}
	s.begun = s.begun[:0]
}

// progressOf returns what a line tells of how far the program is.
func progressOf(line []byte) (p tools.Progress, ok bool) {
	var report struct {
		Progress      *float64 `json:"progress"`
		Total         float64  `json:"total"`
		Message, Unit string
	}
	if json.Unmarshal(line, &report) != nil || report.Progress == nil {
		return p, false
	}
	short := func(text string, most int) string { return output.Clean([]byte(text[:min(most, len(text))])) }
	return tools.Progress{Done: *report.Progress, Total: report.Total, Message: short(report.Message, 1000), Unit: short(report.Unit, 20)}, true
}

// everything returns both outputs as text, for a program that failed.
func (s *programOutput) everything() (list []tools.Content) {
	for _, text := range [][]byte{s.stderr, s.stdout.Bytes()} {
		if clean := output.Clean(text); strings.TrimSpace(clean) != "" {
			list = append(list, tools.Text(clean))
		}
	}
	return list
}

// answer returns what the program answered.
func (s *programOutput) answer(env tools.Env, typed bool) ([]tools.Content, error) {
	text := bytes.TrimSpace(s.stdout.Bytes())
	if len(text) == 0 {
		if list := s.everything(); len(list) > 0 {
			return list, nil
		}
		return []tools.Content{tools.Text("(The tool wrote nothing.)")}, nil
	}
	if (text[0] != '{' && text[0] != '[') || !utf8.Valid(text) || !json.Valid(text) {
		return []tools.Content{tools.Text(output.Clean(s.stdout.Bytes()))}, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) == nil && len(object) == 1 && object["content"] != nil && !typed {
		var pieces []piece
		if json.Unmarshal(object["content"], &pieces) == nil {
			return contents(pieces)
		}
	}
	if !typed && len(text) > env.Shown() {
		return []tools.Content{tools.Text(output.Clean(text))}, nil // the rest becomes an artifact
	}
	return []tools.Content{tools.JSON(bytes.Clone(text))}, nil
}

// A piece is one of several of an answer.
type piece struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Data  []byte          `json:"data"`
	Value json.RawMessage `json:"value"`
}

// contents returns the pieces of an answer, or what is wrong with them.
func contents(pieces []piece) (list []tools.Content, err error) {
	wrong := func(format string, args ...any) error {
		return tools.Failf("wrong_answer", "The tool ended well, and what it answered cannot be shown: "+format+". That is a mistake of the tool, not of the call.", args...)
	}
	if len(pieces) > maxContents {
		return nil, wrong("it has %d pieces, at most %d", len(pieces), maxContents)
	}
	for i, p := range pieces {
		switch p.Type {
		case "text":
			list = append(list, tools.Text(output.Clean([]byte(p.Text))))
		case "json":
			if len(p.Value) == 0 {
				return list, wrong("piece %d has no value", i+1)
			}
			list = append(list, tools.JSON(p.Value))
		case "image":
			kind := http.DetectContentType(p.Data)
			switch kind {
			case "image/png", "image/jpeg", "image/gif", "image/webp":
			default:
				return list, wrong("piece %d is no image, but %s: want PNG, JPEG, GIF or WebP in base64", i+1, kind)
			}
			if len(p.Data) > maxImage {
				return list, wrong("the image of piece %d has %d bytes, at most %d", i+1, len(p.Data), maxImage)
			}
			list = append(list, tools.Image{MediaType: kind, Data: p.Data})
		default:
			return list, wrong("piece %d is of type %.40q, which is none of text, image and json", i+1, p.Type)
		}
	}
	return list, nil
}
