// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/site"
)

// Config is what a [Handler] is made of. All fields but the last two are required.
type Config struct {
	// Forward returns a connection to the chain for a caller from that address and
	// over that TLS connection, which may be none.
	Forward func(remote string, state *tls.ConnectionState) interface {
		grpc.ClientConnInterface
		io.Closer
	}

	// Authenticator says whose a session is: the same that the chain asks about every
	// call.
	Authenticator auth.Authenticator

	// Version is what the server tells about itself.
	Version string

	// Limits take their defaults where they are zero.
	Limits Limits

	// Site keeps other sites out.
	Site site.Filter
}

// Path is where the handler serves.
const Path = "/mcp"

const (
	sessionHeader  = "Mcp-Session-Id"
	protocolHeader = "Mcp-Protocol-Version"
	behalfHeader   = "Toolserver-On-Behalf-Of"
	lastHeader     = "Last-Event-Id"

	bodyTime  = 30 * time.Second // in which the body of a request has to come
	writeTime = time.Minute      // in which a client has to take what is sent
	maxDepth  = 100              // of the JSON of a request
)

// A Handler serves clients over streamable HTTP. Close it after use.
type Handler struct {
	config  Config
	limits  Limits
	serve   http.Handler // of the SDK
	nobody  *mcp.Server  // tells the SDK the versions of the protocol
	streams *streams
	closing context.Context
	close   context.CancelFunc

	mu       sync.Mutex
	sessions map[string]*httpSession // by their ids
	owned    map[owner]int           // how many each principal has
}

// owner is whose a session is.
type owner struct {
	auth.Owner
	onBehalfOf string
}

// httpSession is a session over HTTP. Its id cannot be guessed, and is of use to its
// owner alone.
type httpSession struct {
	*session
	id       string
	owner    owner
	underWay int // requests; guarded by Handler.mu
}

// New returns a handler.
func New(config Config) *Handler {
	h := &Handler{
		config: config, limits: config.Limits.WithDefaults(),
		sessions: make(map[string]*httpSession), owned: make(map[owner]int),
	}
	h.streams = newStreams(h.limits.ResumeTimeout)
	h.closing, h.close = context.WithCancel(context.Background()) // for all sessions: Close ends it
	h.nobody = mcp.NewServer(&mcp.Implementation{Name: "toolserver"}, &mcp.ServerOptions{SupportedProtocolVersions: Protocols})
	streamable := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if s, ok := r.Context().Value(newSessionKey{}).(*httpSession); ok {
			return s.server
		}
		return h.nobody
	}, &mcp.StreamableHTTPOptions{
		SessionTimeout: h.limits.IdleTimeout, MaxRequestBodyBytes: int64(h.limits.MaxBody), EventStore: h.streams,
		DisableLocalhostProtection: true, // site.Filter is stricter
	})
	h.serve = sdkauth.RequireBearerToken(func(ctx context.Context, _ string, r *http.Request) (*sdkauth.TokenInfo, error) {
		return ctx.Value(requestKey{}).(*request).token(), nil
	}, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(streamable)
	return h
}

type (
	requestKey    struct{} // *request
	newSessionKey struct{} // *httpSession
)

// requestExtra is where the SDK keeps the request that a message came with.
const requestExtra = "request"

// Close ends all sessions.
func (h *Handler) Close() { h.close() }

// ServeHTTP answers one request of a client.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Path {
		http.NotFound(w, r)
		return
	}
	if err := h.config.Site.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	who, code, err := h.authenticate(r)
	if err != nil {
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="toolserver"`)
		}
		http.Error(w, err.Error(), code)
		return
	}
	if r, err = h.withBody(w, r, who); err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
			err = fmt.Errorf("the body of a request has at most %d bytes", tooLarge.Limit)
		}
		http.Error(w, err.Error(), code)
		return
	}
	s, code, err := h.session(r, who)
	if err != nil {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, err.Error(), code)
		return
	}
	defer h.leave(s)
	if r.Method == http.MethodDelete {
		s.delete()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if last := r.Header.Get(lastHeader); r.Method == http.MethodGet && last != "" {
		who.stream = streamOf(last)
		h.streams.heard(s.id, who.stream)
	}
	writer := &deadlineWriter{ResponseWriter: w, controller: http.NewResponseController(w), hurried: r.Method != http.MethodPost}
	h.serve.ServeHTTP(writer, r.WithContext(h.contextOf(r, who, s)))
	writer.end()
	h.streams.left(s.id, who.stream, r.Context().Err() != nil)
}

// contextOf returns the context for the SDK: with who asks, and what to connect.
func (h *Handler) contextOf(r *http.Request, who *request, s *httpSession) context.Context {
	ctx := context.WithValue(r.Context(), requestKey{}, who)
	if r.Header.Get(sessionHeader) == "" {
		ctx = context.WithValue(ctx, newSessionKey{}, s)
	}
	return ctx
}

// request is who sends an HTTP request, and how long it waits for the answer.
type request struct {
	gone     context.Context // ends when the client did not come back in time
	leave    context.CancelFunc
	stream   string      // on which it is answered; empty before
	answered atomic.Bool // the answer is known

	wantsTask bool // the message is a call that is to be a task

	owner   owner
	userID  string
	headers metadata.MD // that are passed on
	remote  string
	tls     *tls.ConnectionState
}

// token is how the SDK keeps a request beside the message that came with it.
func (who *request) token() *sdkauth.TokenInfo {
	return &sdkauth.TokenInfo{UserID: who.userID, Extra: map[string]any{requestExtra: who}}
}

// authenticate finds out who sends a request. The chain does so again for each RPC.
func (h *Handler) authenticate(r *http.Request) (*request, int, error) {
	shown := auth.Credentials{Authorization: r.Header.Values("Authorization"), TLS: r.TLS}
	principal, err := h.config.Authenticator.Authenticate(r.Context(), shown)
	if err == nil {
		principal, err = principal.ForHeader(behalfHeader, r.Header.Values(behalfHeader))
	}
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return nil, http.StatusServiceUnavailable, err
	case errors.Is(err, auth.ErrForbidden):
		return nil, http.StatusForbidden, err
	case errors.Is(err, auth.ErrMalformed):
		return nil, http.StatusBadRequest, err
	case err != nil:
		return nil, http.StatusUnauthorized, err
	}
	who := &request{
		owner: owner{principal.Owner(), principal.OnBehalfOf}, headers: make(metadata.MD, 2),
		remote: r.RemoteAddr, tls: r.TLS,
	}
	who.gone, who.leave = context.WithCancel(context.WithoutCancel(r.Context()))
	who.userID = fmt.Sprintf("%q %q", who.owner.Owner, who.owner.onBehalfOf)
	for _, name := range []string{"Authorization", behalfHeader, "Traceparent", "Tracestate"} {
		if values := r.Header.Values(name); len(values) > 0 {
			who.headers[strings.ToLower(name)] = slices.Clone(values)
		}
	}
	// The SDK wants a token to keep who has sent the request beside.
	r.Header.Set("Authorization", "Bearer -")
	return who, 0, nil
}

// withBody returns the request with its body read. It is for the SDK that messages of
// other versions of the protocol, or nested too deep, do not reach it.
func (h *Handler) withBody(w http.ResponseWriter, r *http.Request, who *request) (*http.Request, error) {
	if r.Header.Get(protocolHeader) == "" {
		r.Header.Set(protocolHeader, Protocols[len(Protocols)-1]) // without it, there would be batches
	}
	if r.Method != http.MethodPost {
		return r, nil
	}
	controller := http.NewResponseController(w)
	controller.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.limits.MaxBody)))
	if err != nil {
		return nil, fmt.Errorf("the body of the request: %w", err)
	}
	controller.SetReadDeadline(time.Time{})
	if depth := depthOf(body); depth > maxDepth {
		return nil, fmt.Errorf("the body of the request is nested %d deep: want at most %d", depth, maxDepth)
	}
	if !json.Valid(body) {
		return nil, errors.New("the body of the request is not one JSON value")
	}
	who.wantsTask = wantsTask(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Header.Get(sessionHeader) == "" {
		var message struct {
			Method string `json:"method"`
		}
		if err := json.Unmarshal(body, &message); err != nil || message.Method != "initialize" {
			return nil, fmt.Errorf("a request without the header %s begins a session: want the method initialize in one message", sessionHeader)
		}
	}
	return r, nil
}

// depthOf returns how deep text that should be JSON is nested.
func depthOf(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// session returns the session that a request is about, which may be a new one, with the
// request counted. Somebody else's is as if there were none.
func (h *Handler) session(r *http.Request, who *request) (_ *httpSession, code int, err error) {
	id := r.Header.Get(sessionHeader)
	if id == "" && r.Method == http.MethodPost {
		return h.newSession(r, who)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sessions[id]
	switch {
	case id == "":
		return nil, http.StatusBadRequest, fmt.Errorf("%s needs the header %s", r.Method, sessionHeader)
	case !ok || s.owner != who.owner:
		return nil, http.StatusNotFound, errors.New("there is no such session: it has ended, or is not yours; begin one with initialize")
	case s.underWay+h.streams.lost(id) >= h.limits.MaxStreams && r.Method != http.MethodDelete:
		return nil, http.StatusTooManyRequests, fmt.Errorf("the session has %d requests under way, which is the most", h.limits.MaxStreams)
	}
	s.underWay++
	return s, 0, nil
}

// newSession makes a session for who asks.
func (h *Handler) newSession(r *http.Request, who *request) (*httpSession, int, error) {
	query := r.URL.Query()
	s := &httpSession{id: rand.Text(), owner: who.owner, underWay: 1}
	h.mu.Lock()
	all, own := len(h.sessions), h.owned[who.owner]
	full := all >= h.limits.MaxSessions || own >= h.limits.MaxPrincipalSessions
	if !full {
		h.sessions[s.id] = s
		h.owned[who.owner]++
	}
	h.mu.Unlock()
	if full {
		return nil, http.StatusTooManyRequests, fmt.Errorf("there are %d sessions, %d of them yours: want fewer than %d, and of yours fewer than %d", all, own, h.limits.MaxSessions, h.limits.MaxPrincipalSessions)
	}
	conn := h.config.Forward(who.remote, who.tls)
	s.session = newSession(h.closing, conn, h.config.Version, Settings{
		Session: query.Get("session"), Workspace: query.Get("workspace"), Mode: query.Get("mode"), Persona: query.Get("persona"),
	}, func() string { return s.id })
	s.closed = func() {
		h.forget(s)
		conn.Close()
	}
	return s, 0, nil
}

// leave says that a request of s has ended. A session that was never begun ends with it.
func (h *Handler) leave(s *httpSession) {
	h.mu.Lock()
	s.underWay--
	h.mu.Unlock()
	if !s.begun() {
		s.end(errClosed)
		s.closed()
	}
}

func (h *Handler) forget(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.id] != s {
		return
	}
	delete(h.sessions, s.id)
	if h.owned[s.owner]--; h.owned[s.owner] == 0 {
		delete(h.owned, s.owner)
	}
}

// primeTime is how long the first event of a stream waits for the next. It only names the
// stream, for clients that come back: a call that is answered at once is then one write.
const primeTime = 20 * time.Millisecond

// deadlineWriter gives each write a time in which the client has to take it.
type deadlineWriter struct {
	http.ResponseWriter
	controller *http.ResponseController

	mu      sync.Mutex
	hurried bool // nothing waits
	later   *time.Timer
	ended   bool
}

func (w *deadlineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.controller.SetWriteDeadline(time.Now().Add(writeTime))
	return w.ResponseWriter.Write(p)
}

// Unwrap is for flushing.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what was written; the first time, a moment later.
func (w *deadlineWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case w.hurried:
		w.controller.Flush()
	default:
		w.hurried = true
		w.later = time.AfterFunc(primeTime, w.Flush)
	}
}

// end says that the request has ended, with which everything is sent.
func (w *deadlineWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.later != nil {
		w.later.Stop()
	}
}
