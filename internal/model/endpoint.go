// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/toolcall"
)

// A Table is the endpoints of a configuration. It is safe for concurrent use.
type Table struct {
	endpoints map[string]*Endpoint
	names     []string
}

// Options are for a server that is put together otherwise.
type Options struct {
	// Dial replaces what the machine does; as in [egress.Dialer].
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// New returns the endpoints of a configuration. None is asked anything yet.
func New(c Config, options Options) (*Table, error) {
	t := &Table{endpoints: make(map[string]*Endpoint)}
	for _, spec := range c {
		e, err := newEndpoint(spec.withDefaults(), options)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", spec.Name, err)
		}
		t.endpoints[spec.Name] = e
		t.names = append(t.names, spec.Name)
	}
	return t, nil
}

// Names returns the names of the endpoints.
func (t *Table) Names() []string { return t.names }

// Endpoint returns the endpoint of a name; without one, the first of the table.
func (t *Table) Endpoint(name string) (*Endpoint, error) {
	if len(t.names) == 0 {
		return nil, errors.New("no model can be asked: the operator's configuration has no models")
	}
	if e := t.endpoints[cmp.Or(name, t.names[0])]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("there is no model named %.64q%s", name,
		cmp.Or(nearest.Hint(nearest.Names(name, t.names)), "; want one of "+strings.Join(t.names, ", ")))
}

// Close closes the connections that nobody uses.
func (t *Table) Close() {
	for _, e := range t.endpoints {
		e.client.CloseIdleConnections()
	}
}

// An Endpoint is a [Model] of the operator's table.
type Endpoint struct {
	spec    Spec
	format  *format
	dialect *toolcall.Dialect // of the format
	text    *toolcall.Dialect // of calls in text; nil: the format has calls
	base    string
	client  *http.Client
	slots   chan struct{}
	budgets budgets
}

func newEndpoint(spec Spec, options Options) (*Endpoint, error) {
	e := &Endpoint{
		spec: spec, format: formats[spec.Format], base: strings.TrimRight(spec.URL, "/"),
		slots: make(chan struct{}, spec.Concurrent), budgets: budgets{all: spec.Day, each: spec.DayPrincipal},
	}
	if e.format == nil {
		return nil, fmt.Errorf("there is no format %q", spec.Format)
	}
	var err error
	if e.dialect, err = toolcall.Named(spec.Format); err != nil {
		return nil, err
	}
	if spec.Dialect != "" {
		if e.text, err = toolcall.Named(spec.Dialect); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(spec.URL)
	if err != nil {
		return nil, errors.New("its url is no address")
	}
	host, err := egress.Named(u)
	if err != nil {
		return nil, err
	}
	dialer := egress.Dialer{Named: []string{host}, Upstream: spec.Proxy, Dial: options.Dial}
	transport := dialer.Transport()
	transport.DisableCompression = true // what comes is counted, and comes at once
	transport.MaxConnsPerHost = 0       // requests wait for a slot, not for a connection
	e.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a key is for one host
	}
	return e, nil
}

// Model returns the name of the model, as the provider has it.
func (e *Endpoint) Model() string { return e.spec.Model }

// Estimate returns about how many tokens a request has.
func (e *Endpoint) Estimate(r *Request) int {
	family := e.dialect.Family()
	n := family.Tokens(r.System)
	for _, t := range r.Tools {
		n += family.Tokens(t.Name) + family.Tokens(t.Description) + family.Tokens(string(t.Schema))
	}
	for _, m := range r.Messages {
		n += family.Tokens(m.Text)
		for _, c := range m.Calls {
			n += family.Tokens(c.Tool) + family.Tokens(string(c.Input))
		}
		for _, r := range m.Results {
			for _, c := range r.Content {
				if text, ok := c.(toolcall.Text); ok {
					n += family.Tokens(string(text))
				} else {
					n += pictureTokens
				}
			}
		}
	}
	return n
}

const pictureTokens = 1500 // about what a picture costs

// Why a request ends that its caller did not end.
var (
	errIdle  = errors.New("nothing came")
	errWhole = errors.New("it took too long")
)

// Ask implements [Model]. What a request uses counts against the budgets, whatever comes
// of it.
func (e *Endpoint) Ask(ctx context.Context, r *Request, take func(toolcall.Piece)) (Answer, error) {
	body, err := e.render(r)
	if err != nil {
		return Answer{}, e.failed(Rejected, "cannot be asked this: %v.", err)
	}
	input := e.Estimate(r)
	if low := input * 100 / (100 + e.dialect.Family().Error); e.spec.ContextTokens > 0 && low > e.spec.ContextTokens {
		return Answer{}, e.failed(TooLarge, "takes %d tokens, and the conversation has about %d. Begin anew with a summary of it, or with less.", e.spec.ContextTokens, input)
	}
	least := Usage{Input: int64(input)}
	least.Dollars = e.spec.Prices.of(least, 0)
	settle, refused := e.budgets.reserve(r.Principal, least)
	if refused != nil {
		refused.Message = fmt.Sprintf("The model %s is not asked: %s", e.spec.Name, refused.Message)
		return Answer{}, refused
	}
	var answer Answer
	defer func() { settle(answer.Usage) }()
	err = e.try(ctx, func(ctx context.Context) (*reading, error) {
		got, err := e.newReading(r, take)
		if err != nil {
			return new(reading), e.failed(Rejected, "cannot be asked this: %v.", err)
		}
		err = e.once(ctx, body, got)
		if got.begun {
			answer.Usage.Add(got.count(input))
		}
		if err == nil {
			answer.Stop = got.stop
		}
		return got, err
	})
	return answer, err
}

// try does something once it is its turn, and again as long as that may help. once returns
// what it has read beside its error.
func (e *Endpoint) try(ctx context.Context, once func(ctx context.Context) (*reading, error)) error {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	whole, cancel := context.WithTimeoutCause(ctx, e.spec.Timeout, errWhole)
	defer cancel()
	for tries := 1; ; tries++ {
		got, err := once(whole)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failure := e.explain(whole, err, got)
		if failure.Partial || !failure.again || tries >= e.spec.Attempts {
			return failure
		}
		if !pause(whole, tries, failure.Retry) {
			return because(ctx, failure)
		}
	}
}

const (
	firstPause = 500 * time.Millisecond
	maxPause   = time.Minute // of those that wait longer the caller decides
)

// pause waits before a request is tried again: until the provider takes it, and longer
// each time. It reports false where that is too long to wait for.
func pause(ctx context.Context, try int, until time.Time) bool {
	growing := min(firstPause<<min(try-1, 10), maxPause/2)
	wait := max(growing, time.Until(until))
	if end, ok := ctx.Deadline(); wait > maxPause || ok && wait > time.Until(end) {
		return false
	}
	wait += rand.N(growing/2 + 1) // not all at once
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once sends a request and reads the answer.
func (e *Endpoint) once(ctx context.Context, body []byte, r *reading) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(e.spec.IdleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()
	response, err := e.send(ctx, http.MethodPost, e.format.path, body)
	if err != nil {
		return because(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return e.refusal(response)
	}
	r.begun = true
	from := &metered{from: response.Body, left: int64(e.spec.MaxAnswer), came: func() { idle.Reset(e.spec.IdleTimeout) }}
	if err := r.read(response, from); err != nil {
		if from.left < 0 {
			err = errTooMuch
		}
		return because(ctx, err)
	}
	idle.Reset(drainTime) // a connection is used again once its answer was read to the end
	io.CopyN(io.Discard, response.Body, 4<<10)
	return nil
}

const drainTime = 100 * time.Millisecond

// because returns why a request ended: ctx knows better.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// metered reads so many bytes at most, and tells when some came.
type metered struct {
	from io.Reader
	left int64
	came func()
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if n > 0 {
		m.came()
	}
	if m.left -= int64(n); m.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// send sends a request to a path of the API.
func (e *Endpoint) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	key, err := e.spec.key()
	if err != nil {
		return nil, e.failed(Credentials, "cannot be asked: its key cannot be read (%v). The operator has to set key_file or key_env.", err)
	}
	base := e.base
	if e.spec.Format == "anthropic" {
		base = strings.TrimSuffix(base, "/v1")
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "toolserver")
	request.Header.Set("Accept", "text/event-stream, application/json")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, headers := range []map[string]string{e.format.headers, e.spec.Headers} {
		for name, value := range headers {
			request.Header.Set(name, value)
		}
	}
	if key != "" {
		request.Header.Set(e.format.key[0], e.format.key[1]+key)
	}
	return e.client.Do(request)
}

// Probe finds out whether the endpoint can be reached and takes the key, without asking the
// model anything.
func (e *Endpoint) Probe(ctx context.Context) error {
	response, err := e.send(ctx, http.MethodGet, e.format.models, nil)
	if err != nil {
		return e.explain(ctx, err, &reading{})
	}
	defer response.Body.Close()
	if status := response.StatusCode; status == http.StatusUnauthorized || status == http.StatusForbidden || status/100 == 3 {
		return e.refusal(response)
	}
	return nil // many have no list of models
}

func (e *Endpoint) failed(kind ErrorKind, format string, args ...any) *Error {
	text := fmt.Sprintf("The model %s %s", e.spec.Name, fmt.Sprintf(format, args...))
	return &Error{Kind: kind, Message: text}
}

// explain returns an error in words.
func (e *Endpoint) explain(ctx context.Context, err error, r *reading) (failure *Error) {
	after := "before it wrote anything"
	if r.handed {
		after = "in the middle of its answer: what came of it is not all"
	}
	bad := malformedError("")
	reported, isReported := errors.AsType[*providerError](err)
	switch {
	case errors.As(err, &failure):
	case errors.Is(err, errIdle):
		failure = e.failed(Slow, "sent nothing for %s, %s. Try again later, or ask another model; the operator can raise idle_timeout.", e.spec.IdleTimeout, after)
		failure.again = true
	case errors.Is(err, errWhole) || ctx.Err() != nil:
		failure = e.failed(Slow, "did not finish within %s. Ask for less at once; the operator can raise timeout.", e.spec.Timeout)
	case errors.Is(err, errTooMuch):
		failure = e.failed(TooMuch, "answered with more than may be read: an event may have %d bytes, and an answer %s. Ask for less at once; the operator can raise max_answer.", maxEvent, e.spec.MaxAnswer)
	case errors.As(err, &bad):
		failure = e.failed(Malformed, "answered in a way that cannot be read: %s. The operator has to look at format and url.", e.shown(string(bad)))
	case isReported:
		status := statusOf[reported.Type]
		if code, ok := reported.Code.(float64); ok && status == 0 { // some put the status there
			status = int(code)
		}
		failure = e.classify(status, reported, "")
	case errors.Is(err, errCut) || r.begun:
		failure = e.failed(BrokeOff, "broke off %s. Try again.", after)
		failure.again = true
	default:
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		failure = e.failed(Unreachable, "cannot be reached: %s. Try again later, or ask another model; the operator has to look at url.", strings.TrimSuffix(e.shown(err.Error()), "."))
		failure.again = !egress.Prohibited(err)
	}
	failure.Partial = r.handed
	return failure
}

// statusOf has the status that an error of a stream would have had.
var statusOf = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429,
}

// refusal reads an answer that is an error.
func (e *Endpoint) refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var body struct {
		Error           json.RawMessage
		Message, Detail any
	}
	reported := &providerError{}
	if json.Unmarshal(text, &body) == nil {
		if found := errorIn(body.Error); found != nil {
			reported = found
		} else if said := cmp.Or(body.Message, body.Detail); said != nil {
			reported.Message = fmt.Sprint(said)
		}
	}
	if response.StatusCode/100 == 3 {
		return e.failed(Unreachable, "redirects to another address, which is not followed with a key. The operator has to look at url.")
	}
	return e.classify(response.StatusCode, reported, response.Header.Get("Retry-After"))
}

// classify returns an error of a provider in words. A status of 0 is one that nobody knows.
func (e *Endpoint) classify(status int, reported *providerError, retryAfter string) *Error {
	said := ""
	if reported.Message != "" {
		said = fmt.Sprintf(" (it says: %s)", e.shown(reported.Message))
	}
	is := func(codes ...string) bool {
		for _, code := range codes {
			if reported.Type == code || reported.Code == code || strings.Contains(strings.ToLower(reported.Message), code) {
				return true
			}
		}
		return false
	}
	switch {
	case status == 402 || is("insufficient_quota", "billing_error", "credit balance is too low"):
		return e.failed(OutOfBudget, "has no credit left at its provider%s. Tell the operator, or ask another model.", said)
	case status == 401 || status == 403:
		return e.failed(Credentials, "refuses its key%s. The operator has to set key_file or key_env.", said)
	case status == 413 || is("context_length_exceeded", "request_too_large", "prompt is too long", "maximum context length", "context window"):
		return e.failed(TooLarge, "does not take so large a conversation%s. Begin anew with a summary of it, or with less.", said)
	case status == 404 && reported.Message != "" || is("model_not_found"):
		return e.failed(UnknownModel, "is not there: the provider does not know %q%s. The operator has to look at model and url.", e.spec.Model, said)
	case status == 404:
		return e.failed(Rejected, "has no API at its address. The operator has to look at url and format.")
	case status == 429:
		failure := e.failed(RateLimited, "takes no more requests for now%s. ", said)
		failure.again, failure.Retry = true, retryTime(retryAfter)
		if failure.Retry.IsZero() {
			failure.Message += "Try again later."
		} else {
			failure.Message += "Try again after " + failure.Retry.UTC().Format(time.RFC3339) + "."
		}
		return failure
	case status == 408 || status == 409 || status >= 500 || status == 0:
		failure := e.failed(Overloaded, "fails for now%s. Try again later, or ask another model.", cmp.Or(said, fmt.Sprintf(" (status %d)", status)))
		failure.again, failure.Retry = true, retryTime(retryAfter)
		return failure
	}
	return e.failed(Rejected, "does not take the request: status %d%s.", status, said)
}

// retryTime reads a header Retry-After: seconds, or a date.
func retryTime(text string) time.Time {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds < 1e9 {
		return time.Now().Add(time.Duration(seconds * float64(time.Second)))
	}
	at, _ := http.ParseTime(text)
	return at
}

// shown returns what somebody else said, as it can be repeated: in one line, in short and
// without the key.
func (e *Endpoint) shown(text string) string {
	if key, err := e.spec.key(); err == nil && key != "" {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " ")
	return output.Short(text, 300)
}
