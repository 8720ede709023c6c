// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/tmaxmax/go-sse"

	"github.com/toolserver/toolserver/internal/toolcall"
)

const maxEvent = 4 << 20 // bytes of one event of a stream, or of an answer that is none

// errTooMuch ends the reading of an answer that is longer than answers may be.
var errTooMuch = errors.New("the answer is too long")

// A reading is what is known of an answer while it comes.
type reading struct {
	endpoint *Endpoint
	parser   *toolcall.Parser
	text     *toolcall.Parser // finds calls in text; nil where the format has them
	take     func(toolcall.Piece)

	begun   bool // the provider has begun to answer
	handed  bool // something was handed over
	calls   bool // something that waits for a result
	stop    Stop // "": not said yet
	ended   bool // nothing follows
	usage   Usage
	written int64 // tokens of the input that the provider put into its cache
	counts  bool  // the provider counts its tokens
	output  int   // tokens of the answer, estimated
}

func (e *Endpoint) newReading(r *Request, take func(toolcall.Piece)) (*reading, error) {
	reading := &reading{endpoint: e, take: take}
	tools := r.Tools
	var err error
	if e.text != nil {
		if reading.text, err = toolcall.NewParser(e.text.Name, tools); err != nil {
			return nil, err
		}
		reading.text.Accepts, tools = r.Accepts, nil
	}
	reading.parser, err = toolcall.NewParser(e.dialect.Name, tools)
	if err == nil {
		reading.parser.Accepts = r.Accepts
	}
	return reading, err
}

// A providerError is an error that a provider tells in its answer.
type providerError struct {
	Type    string `json:"type"`
	Code    any    `json:"code"`
	Message string `json:"message"`
}

func (p *providerError) Error() string { return p.Message }

// A malformedError is an answer that is not what it has to be.
type malformedError string

func (m malformedError) Error() string { return string(m) }

func malformed(format string, args ...any) error { return malformedError(fmt.Sprintf(format, args...)) }

// read reads an answer to its end: a stream or, of those that do not have one, a message.
func (r *reading) read(response *http.Response, body io.Reader) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "application/json" {
		text, err := io.ReadAll(io.LimitReader(body, maxEvent+1))
		switch {
		case err != nil:
			return err
		case len(text) > maxEvent:
			return errTooMuch
		case len(bytes.TrimSpace(text)) == 0:
			return malformed("it is empty")
		}
		if err := r.event(string(text)); err != nil {
			return err
		}
		r.ended = true
		return r.finish()
	}
	if kind != "text/event-stream" && kind != "" {
		return malformed("it is %.60q and not a stream of events: is url the base of the API?", kind)
	}
	var wrong error // of the last event, which a lost connection may have cut off
	for event, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return errTooMuch
		case err != nil:
			return err
		case wrong != nil:
			return wrong
		case event.Data == "":
			continue
		case strings.TrimSpace(event.Data) == "[DONE]":
			r.ended = true
		case !json.Valid([]byte(event.Data)):
			wrong = malformed("%.4000q is no JSON", event.Data)
			continue
		default:
			if err := r.event(event.Data); err != nil {
				return err
			}
		}
		if r.ended {
			break
		}
	}
	if wrong != nil {
		return wrong
	}
	return r.finish()
}

// event reads one event and hands over what is in it.
func (r *reading) event(text string) error {
	if err := r.endpoint.format.event(r, []byte(text)); err != nil {
		return err
	}
	r.hand(r.parser.Write([]byte(text)))
	return nil
}

// hand hands pieces over, and looks for calls in text where they are there.
func (r *reading) hand(pieces []toolcall.Piece) {
	for _, p := range pieces {
		if text, ok := p.(toolcall.Text); ok && r.text != nil {
			for _, p := range r.text.Write([]byte(text)) {
				r.give(p)
			}
		} else {
			r.give(p)
		}
	}
}

func (r *reading) give(p toolcall.Piece) {
	r.handed = true
	family := r.endpoint.dialect.Family()
	switch piece := p.(type) {
	case toolcall.Text:
		r.output += family.Tokens(string(piece))
	case toolcall.Call:
		r.output += family.Tokens(piece.Tool) + family.Tokens(string(piece.Input))
		r.calls = true
		if piece.ID == "" {
			piece.ID = "call_" + rand.Text()
			p = piece
		}
	case toolcall.Broken:
		r.output += family.Tokens(piece.Raw)
		r.calls = r.calls || piece.ID != ""
	}
	r.take(p)
}

// errCut is a stream that ends before its message does.
var errCut = errors.New("it ended in the middle")

// finish hands over what is left once the message has ended.
func (r *reading) finish() error {
	if !r.ended && r.stop == "" {
		return errCut
	}
	r.hand(r.parser.Close())
	if r.text != nil {
		for _, p := range r.text.Close() {
			r.give(p)
		}
	}
	switch {
	case r.calls && (r.stop == Ended || r.stop == ""):
		r.stop = Calling
	case !r.calls && (r.stop == Calling || r.stop == ""):
		r.stop = Ended
	}
	return nil
}

// count returns what was used: as the provider counts or, where it does not, estimated.
func (r *reading) count(input int) Usage {
	u := r.usage
	if !r.counts {
		u = Usage{Input: int64(input), Output: int64(r.output), Estimated: true}
	}
	if u.Output == 0 && r.output > 0 { // it broke off before that was told
		u.Output, u.Estimated = int64(r.output), true
	}
	u.Dollars = r.endpoint.spec.Prices.of(u, r.written)
	return u
}

// of returns what tokens cost, of which some were written to a cache.
func (p Prices) of(u Usage, written int64) float64 {
	price := func(of Dollars) float64 {
		if of == 0 {
			of = p.Input
		}
		return float64(of)
	}
	written = min(written, u.Input-u.Cached)
	plain := u.Input - u.Cached - written
	return (float64(plain)*float64(p.Input) + float64(u.Cached)*price(p.Cached) + float64(written)*price(p.CacheWrite) + float64(u.Output)*float64(p.Output)) / 1e6
}

// tokens returns a number of tokens that a provider told.
func tokens(n float64) int64 { return int64(min(max(n, 0), 1e12)) }

func set(count *int64, reported *float64) {
	if reported != nil {
		*count = tokens(*reported)
	}
}

func anthropicEvent(r *reading, text []byte) error {
	type usage struct {
		Input      *float64 `json:"input_tokens"` // without those of the cache
		CacheRead  *float64 `json:"cache_read_input_tokens"`
		CacheWrite *float64 `json:"cache_creation_input_tokens"`
		Output     *float64 `json:"output_tokens"`
	}
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Usage usage `json:"usage"`
		} `json:"message"`
		Delta struct {
			StopReason string `json:"stop_reason"`
		} `json:"delta"`
		StopReason string        `json:"stop_reason"` // of a message that comes whole
		Usage      usage         `json:"usage"`
		Error      providerError `json:"error"`
	}
	if err := json.Unmarshal(text, &e); err != nil || e.Type == "" {
		return malformed("%.4000q is no event of Anthropic's Messages API", text)
	}
	count := func(u usage) { // what is null is as it was told before
		plain := r.usage.Input - r.usage.Cached - r.written
		set(&plain, u.Input)
		set(&r.usage.Cached, u.CacheRead)
		set(&r.written, u.CacheWrite)
		set(&r.usage.Output, u.Output)
		r.usage.Input = plain + r.usage.Cached + r.written
		r.counts = r.counts || u.Input != nil
	}
	stop := ""
	switch e.Type {
	case "error":
		return &e.Error
	case "message_start":
		count(e.Message.Usage)
		r.usage.Output = 0 // of the first moment
	case "message_delta":
		count(e.Usage)
		stop = e.Delta.StopReason
	case "message":
		count(e.Usage)
		stop = e.StopReason
	case "message_stop":
		r.ended = true
	}
	switch stop {
	case "":
	case "tool_use":
		r.stop = Calling
	case "max_tokens", "model_context_window_exceeded":
		r.stop = TooLong
	case "refusal":
		r.stop = Refused
	default:
		r.stop = Ended
	}
	return nil
}

func openAIEvent(r *reading, text []byte) error {
	var e struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Delta        struct {
				Refusal string `json:"refusal"`
			} `json:"delta"`
		} `json:"choices"`
		Usage *struct {
			Prompt     float64 `json:"prompt_tokens"`
			Completion float64 `json:"completion_tokens"`
			Hit        float64 `json:"prompt_cache_hit_tokens"` // DeepSeek
			Details    struct {
				Cached float64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return malformed("%.4000q is no chunk of OpenAI's Chat Completions API", text)
	}
	if failed := errorIn(e.Error); failed != nil {
		return failed
	}
	if e.Choices == nil && e.Usage == nil {
		return malformed("%.4000q is no chunk of OpenAI's Chat Completions API", text)
	}
	if u := e.Usage; u != nil {
		input := tokens(u.Prompt)
		r.usage = Usage{Input: input, Cached: min(input, max(tokens(u.Details.Cached), tokens(u.Hit))), Output: tokens(u.Completion)}
		r.counts = true
	}
	if len(e.Choices) == 0 {
		return nil
	}
	if refusal := e.Choices[0].Delta.Refusal; refusal != "" {
		r.give(toolcall.Text(refusal))
		r.stop = Refused
	}
	switch e.Choices[0].FinishReason {
	case "":
	case "tool_calls", "function_call":
		r.stop = Calling
	case "length":
		r.stop = TooLong
	case "content_filter":
		r.stop = Refused
	default:
		if r.stop != Refused {
			r.stop = Ended
		}
	}
	return nil
}

// errorIn returns the error of an answer: an object or a text; nil where there is none.
func errorIn(raw json.RawMessage) *providerError {
	var failed providerError
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		failed.Message = text
	case json.Unmarshal(raw, &failed) != nil:
		failed.Message = string(raw)
	}
	return &failed
}
