// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package companion

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// maxValue is how long a value may be. Drivers send less.
const maxValue = 1 << 20

// evaluation is one piece of code that runs.
type evaluation struct {
	name      string
	mark      []byte // what begins a mark
	language  Language
	begun     time.Time
	out       tools.Sink
	maxOutput int64

	// What follows is for who feeds it, until done.
	env        tools.Env
	transcript command.Transcript
	streams    [2]markedStream
	written    int64
	value      []byte
	shown      *string         // of the value; nil before it is asked for
	kept       []tools.Content // the whole value, where that is more
	failed     bool

	overOnce sync.Once
	tooMuch  chan struct{}
	done     chan struct{}
}

// markedStream is one of the streams, up to its mark.
type markedStream struct {
	held    []byte // what may be the beginning of a mark
	mask    *output.MaskStream
	inValue bool
	ended   bool
}

func (s *Set) newEvaluation(env tools.Env, l Language, out tools.Sink) *evaluation {
	var random [16]byte
	rand.Read(random[:])
	e := &evaluation{
		name: hex.EncodeToString(random[:]), language: l, begun: time.Now(), out: out, maxOutput: s.runners.MaxOutput(),
		transcript: command.NewTranscript(env, env.Shown()-env.Shown()/4), env: env,
		tooMuch: make(chan struct{}), done: make(chan struct{}),
	}
	e.mark = []byte("\x00" + e.name)
	if l.lines {
		e.mark = e.mark[1:]
		e.streams[1].ended = true // there is one only
	}
	for i := range e.streams {
		e.streams[i].mask = s.runners.Masker().Stream()
	}
	return e
}

// before takes what was written since the last call, before anything is fed.
func (e *evaluation) before(data []byte) {
	if len(data) > 0 {
		s := &e.streams[0]
		e.give(tools.Stdout, s.mask.Flush(s.mask.Append(nil, data)))
	}
}

// feed takes output, and returns what comes behind the mark.
func (e *evaluation) feed(stream tools.Stream, data []byte) (rest []byte) {
	s := &e.streams[stream-tools.Stdout]
	if s.ended {
		return data
	}
	mark := e.mark
	data = append(s.held, data...)
	s.held = nil
	for !s.ended {
		i := bytes.Index(data, mark)
		if i < 0 || len(data) < i+len(mark)+2 {
			if i < 0 {
				i = len(data) - partial(data, mark)
			}
			e.emit(s, stream, data[:i])
			s.held = bytes.Clone(data[i:])
			return nil
		}
		e.emit(s, stream, data[:i])
		kind := data[i+len(mark)]
		data = data[i+len(mark)+2:]
		switch kind {
		case 'v':
			s.inValue = true
		default:
			s.ended = true
			e.failed = e.failed || kind == '1'
			e.give(stream, s.mask.Flush(nil))
		}
	}
	if e.streams[0].ended && e.streams[1].ended {
		close(e.done)
	}
	return data
}

// complete reports whether the code came to its end.
func (e *evaluation) complete() bool { return isDone(e.done) }

// partial returns how many bytes at the end of data may be the beginning of mark.
func partial(data, mark []byte) int {
	for n := min(len(data), len(mark)-1); n > 0; n-- {
		if bytes.HasPrefix(mark, data[len(data)-n:]) {
			return n
		}
	}
	return 0
}

func (e *evaluation) emit(s *markedStream, stream tools.Stream, data []byte) {
	if s.inValue {
		e.value = append(e.value, data[:min(len(data), maxValue-len(e.value))]...)
		return
	}
	e.written += int64(len(data))
	if e.maxOutput > 0 && e.written > e.maxOutput {
		e.overOnce.Do(func() { close(e.tooMuch) })
		return
	}
	if len(data) > 0 { // what the other stream wrote before is seen before
		other := tools.Stdout + tools.Stderr - stream
		e.give(other, e.streams[other-tools.Stdout].mask.Release(nil))
	}
	e.give(stream, s.mask.Append(nil, data))
}

// give hands on what is masked.
func (e *evaluation) give(stream tools.Stream, data []byte) {
	if len(data) > 0 {
		e.transcript.Write(stream, data)
		e.out.Emit(tools.Output{Stream: stream, Data: data})
	}
}

// valueText returns the value, masked, and as much of it as a model is shown: a
// quarter of an answer.
func (e *evaluation) valueText() string {
	if e.language.status {
		return ""
	}
	if e.shown != nil {
		return *e.shown
	}
	mask := e.streams[0].mask
	value := mask.Flush(mask.Append(nil, e.value))
	window := output.NewWindow(e.env.Shown() / 4)
	window.Write(value)
	text := window.Text(func(gap output.Gap) string {
		artifact, ok := e.env.Keep("value.txt", string(value))
		if !ok {
			return "this server does not keep it; print a part of it"
		}
		e.kept = append(e.kept, artifact)
		return e.env.Words.ReadOn(artifact, gap)
	})
	e.shown = &text
	return text
}

// result returns what the code wrote, its value, and a remark. Nothing is fed
// any more.
func (e *evaluation) result(remark string) tools.Result {
	var result tools.Result
	add := func(text string) {
		if text != "" {
			result.Content = append(result.Content, tools.Text(text))
		}
	}
	text, artifact := e.transcript.Content()
	value := e.valueText()
	if text != "" && value != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	add(text)
	result.Content = append(result.Content, artifact...)
	if value != "" {
		add("=> " + value)
	}
	result.Content = append(result.Content, e.kept...)
	add(remark)
	if len(result.Content) == 0 {
		add("(The code wrote nothing, and has no value.)")
	}
	return result
}

// outcome returns why the code failed; nil if it did not.
func (e *evaluation) outcome() error {
	switch {
	case e.language.status && string(e.value) != "0":
		return tools.Failf("exit_status", "The last command ended with exit status %s. What was defined is kept.", e.value)
	case e.failed:
		return tools.Failf("exception", "The code ended with an exception, which is above. What was defined is kept.")
	}
	return nil
}
