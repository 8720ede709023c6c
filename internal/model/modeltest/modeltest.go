// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package modeltest is a model that says what a script has it say. It is served as
// providers serve theirs, in the Messages API of Anthropic and in the Chat Completions API
// of OpenAI, takes what they take, and fails where a script says so.
package modeltest

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// A Turn is one answer of the model: what it writes, and what goes wrong with it. As JSON it
// is an object such as {"text": "I read it.", "calls": [{"tool": "read_file", "input": {"path": "a"}}]}.
type Turn struct {
	Text  string
	Calls []toolcall.Call // those without an id are given one
	Stop  model.Stop      // empty: Calling where there are calls, and Ended otherwise
	Usage model.Usage     // empty: so much for each byte

	// Status, if set, answers with an error of the provider in place of a message. With
	// RetryAfter comes a header of that name.
	Status     int
	RetryAfter string

	// Error is the type of an error, such as overloaded_error, that ends the stream after
	// what was written.
	Error string

	// Raw is sent in place of a stream of events, whatever it is; Kind is its Content-Type,
	// text/event-stream where it is empty.
	Raw  []byte
	Kind string

	// Cut is after how many bytes of the stream the connection is cut; -1: before the answer
	// begins.
	Cut int

	// Flood is how many bytes of text come before all other.
	Flood int64

	// NoUsage leaves out how many tokens were used.
	NoUsage bool

	// First is called before the answer begins, and Then when all is written but the end
	// of the message. [Hang] has the client wait for ever.
	First, Then func(ctx context.Context) `json:"-"`
}

// Nothing is a Raw that is empty.
var Nothing = []byte{}

// Hang waits until the client is gone.
func Hang(ctx context.Context) { <-ctx.Done() }

// A Script says what the model answers.
type Script func(r *Request) Turn

// Turns answers with one turn after the other in each conversation: the first where the
// model has said nothing in it yet. So a request that is sent again has the same answer.
func Turns(turns ...Turn) Script {
	return func(r *Request) Turn { return nth(turns, r.Said()) }
}

// Sequence answers with one turn after the other, whatever the conversation.
func Sequence(turns ...Turn) Script {
	return func(r *Request) Turn { return nth(turns, r.Number) }
}

func nth(turns []Turn, n int) Turn {
	if n >= len(turns) {
		return Turn{Text: fmt.Sprintf("The script has no more than %d turns.", len(turns)), Stop: model.Ended}
	}
	return turns[n]
}

// Call returns a call with an input that is encoded as JSON.
func Call(tool string, input any) toolcall.Call {
	text, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return toolcall.Call{Tool: tool, Input: text}
}

// A Request is one that the model was asked, as a provider reads it.
type Request struct {
	Number    int    // of the requests before it
	Format    string // anthropic or openai
	Model     string
	System    string
	Tools     []toolcall.Tool
	Messages  []model.Message
	MaxTokens int
	Stream    bool
	Header    http.Header
	Body      json.RawMessage
}

// Said returns how many messages of the conversation are of the model.
func (r *Request) Said() (n int) {
	for _, m := range r.Messages {
		if m.FromModel {
			n++
		}
	}
	return n
}

// Last returns the last message.
func (r *Request) Last() model.Message { return r.Messages[len(r.Messages)-1] }

// A Server serves a model. Set its fields before the first request.
type Server struct {
	Key    string   // that requests must have; empty: any
	Models []string // that there are; none: any
	Pieces int      // bytes that are sent at once; 0: an event

	script Script
	server *http.Server
	url    string

	mu       sync.Mutex
	requests []*Request
	refused  []string
	calls    int
}

// New returns a server that is not served yet: it is a [http.Handler].
func New(script Script) *Server { return &Server{script: script} }

// Start serves a model at an address of this machine. Close it after use.
func Start(script Script) *Server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic("modeltest: " + err.Error())
	}
	s := New(script)
	s.url = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(listener)
	return s
}

// Close ends all requests and the server.
func (s *Server) Close() { s.server.Close() }

// URL returns the base of the API for a format, as the clients of the providers have it.
func (s *Server) URL(format string) string {
	if format == "openai" {
		return s.url + "/v1"
	}
	return s.url
}

// Requests returns the requests that the model was asked.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Refused returns why requests were refused that no provider would take.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

const maxRequest = 32 << 20 // bytes, as Anthropic has it

// ServeHTTP answers as a provider does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := providers[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		s.list(w, r)
		return
	case p == nil:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		p.fail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	if status, message := s.authorize(p, r); status != 0 {
		p.fail(w, status, message)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		p.fail(w, http.StatusRequestEntityTooLarge, "Request exceeds the maximum size")
		return
	}
	request := &Request{Format: p.name, Header: r.Header, Body: body}
	err = p.read(request)
	s.mu.Lock()
	if err != nil {
		s.refused = append(s.refused, err.Error())
	} else {
		request.Number = len(s.requests)
		s.requests = append(s.requests, request)
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		p.fail(w, http.StatusBadRequest, err.Error())
	case len(s.Models) > 0 && !slices.Contains(s.Models, request.Model):
		p.fail(w, http.StatusNotFound, p.unknown(request.Model))
	default:
		s.answer(p, w, r, request)
	}
}

// list answers with the models that there are.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	p := &openAI
	if r.Header.Get("Anthropic-Version") != "" {
		p = &anthropic
	}
	if status, message := s.authorize(p, r); status != 0 {
		p.fail(w, status, message)
		return
	}
	list := []object{}
	for _, name := range s.Models {
		list = append(list, object{"id": name, "object": "model", "type": "model"})
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": list, "has_more": false})
}

// authorize checks the key; status is 0 where it is right.
func (s *Server) authorize(p *provider, r *http.Request) (status int, message string) {
	key, missing := p.key(r.Header)
	switch {
	case s.Key == "" && key != "":
	case key == "":
		return http.StatusUnauthorized, missing
	case subtle.ConstantTimeCompare([]byte(key), []byte(s.Key)) == 0:
		return http.StatusUnauthorized, p.wrongKey
	}
	return 0, ""
}

// answer answers with a turn of the script.
func (s *Server) answer(p *provider, w http.ResponseWriter, r *http.Request, request *Request) {
	turn := s.script(request)
	if turn.First != nil {
		turn.First(r.Context())
	}
	if turn.Cut < 0 {
		panic(http.ErrAbortHandler)
	}
	if turn.RetryAfter != "" {
		w.Header().Set("Retry-After", turn.RetryAfter)
	}
	if turn.Status != 0 && turn.Status != http.StatusOK {
		p.fail(w, turn.Status, p.messages[turn.Status])
		return
	}
	s.complete(p, request, &turn)
	if turn.Raw == nil && !request.Stream {
		writeJSON(w, http.StatusOK, p.message(request, &turn))
		return
	}
	kind := turn.Kind
	if kind == "" {
		kind = "text/event-stream; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	out := &stream{w: w, ctx: r.Context(), pieces: s.Pieces, cut: turn.Cut}
	if turn.Raw != nil {
		out.write(turn.Raw)
		return
	}
	p.stream(out, request, &turn)
}

// complete fills in what a turn leaves out.
func (s *Server) complete(p *provider, r *Request, turn *Turn) {
	size := len(turn.Text)
	turn.Calls = slices.Clone(turn.Calls)
	for i := range turn.Calls {
		size += len(turn.Calls[i].Input)
		if turn.Calls[i].ID == "" {
			s.mu.Lock()
			s.calls++
			turn.Calls[i].ID = fmt.Sprintf("%s%024d", p.prefix, s.calls)
			s.mu.Unlock()
		}
	}
	if turn.Usage == (model.Usage{}) {
		turn.Usage = model.Usage{Input: int64(len(r.Body)/4 + 1), Output: int64(size/4 + 1)}
	}
	if turn.Stop == "" {
		turn.Stop = model.Ended
		if len(turn.Calls) > 0 {
			turn.Stop = model.Calling
		}
	}
}

// refuse returns why a request is refused, in words as providers have them.
func refuse(format string, args ...any) error { return fmt.Errorf(format, args...) }

// object is a JSON object.
type object = map[string]any

// A provider is one of the APIs.
type provider struct {
	name, prefix string // prefix is that of the ids of calls
	wrongKey     string
	messages     map[int]string // of errors
	key          func(http.Header) (key, missing string)
	read         func(*Request) error // refuses what the provider refuses
	failure      func(status int, message string) object
	unknown      func(model string) string
	message      func(*Request, *Turn) object
	stream       func(*stream, *Request, *Turn)
}

var providers = map[string]*provider{"/v1/messages": &anthropic, "/v1/chat/completions": &openAI}

func (p *provider) fail(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, p.failure(status, message))
}

func writeJSON(w http.ResponseWriter, status int, value object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

// A stream writes events.
type stream struct {
	w      http.ResponseWriter
	ctx    context.Context
	pieces int
	cut    int // 0: never
	sent   int
}

// write sends bytes, in pieces, and panics where the connection is to be cut or is.
func (s *stream) write(text []byte) {
	for len(text) > 0 {
		n := len(text)
		if s.pieces > 0 {
			n = min(n, s.pieces)
		}
		if s.cut > 0 {
			n = min(n, s.cut-s.sent)
		}
		if _, err := s.w.Write(text[:n]); err != nil {
			panic(http.ErrAbortHandler)
		}
		s.w.(http.Flusher).Flush()
		s.sent += n
		if text = text[n:]; s.sent == s.cut || s.ctx.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// flood returns parts of so many bytes of text.
func flood(bytes int64, say func(text string)) {
	text := strings.Repeat("All work and no play makes Jack a dull boy.\n", 1500)
	for ; bytes > 0; bytes -= int64(len(text)) {
		say(text[:min(bytes, int64(len(text)))])
	}
}

// parts returns a text in parts as models write it: of a few characters.
func parts(text string) (list []string) {
	start := 0
	for i := range text {
		if i-start >= 7 {
			list = append(list, text[start:i])
			start = i
		}
	}
	return append(list, text[start:])
}
