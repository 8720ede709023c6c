// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package rest is the face of the server for clients without gRPC: every RPC by HTTP and
// JSON, as proto/rest.yaml maps them, translated by grpc-gateway. It decides nothing: each
// request is a call through the chain, by the credentials that it came with.
package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	gateway "github.com/toolserver/toolserver/internal/rest/gateway/toolserver/v1"
	"github.com/toolserver/toolserver/internal/site"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Path is where RPCs are, and DocumentPath where the OpenAPI document about them is.
const (
	Path         = "/v1/"
	DocumentPath = "/openapi.json"
)

// writeTime is in which a client has to take what is sent.
var writeTime = time.Minute

// Config is what a [Handler] is made of.
type Config struct {
	// Forward returns a connection to the chain for a caller from that address and over
	// that TLS connection, which may be none.
	Forward func(remote string, state *tls.ConnectionState) interface {
		grpc.ClientConnInterface
		io.Closer
	}

	// Authenticator, if set, knows who is somebody: the same that the chain asks about every
	// call.
	Authenticator auth.Authenticator

	// Site keeps other sites out.
	Site site.Filter
}

// A Handler serves RPCs over HTTP.
type Handler struct {
	config Config
	mux    *runtime.ServeMux
}

// setParser is done once: the gateway keeps the parser for all handlers of a process.
var setParser sync.Once

// New returns a handler.
func New(config Config) *Handler {
	h := &Handler{config: config}
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, lines{}),
		runtime.WithMarshalerOption(eventStream, events{}),
		runtime.WithMarshalerOption(octetStream, plain{}),
		runtime.WithIncomingHeaderMatcher(passedOn),
		runtime.WithOutgoingHeaderMatcher(nothing),
		runtime.WithOutgoingTrailerMatcher(nothing),
		runtime.WithErrorHandler(answerError),
		runtime.WithStreamErrorHandler(func(ctx context.Context, err error) *status.Status { return status.Convert(causeOf(ctx, err)) }),
		runtime.WithRoutingErrorHandler(answerRouting),
		func(mux *runtime.ServeMux) {
			setParser.Do(func() { runtime.SetQueryParameterParser(parameters{})(mux) })
		},
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(), // a form is no query
	)
	ctx, conn := context.Background(), forwarded{}
	if err := errors.Join(
		gateway.RegisterToolServiceHandlerClient(ctx, h.mux, pb.NewToolServiceClient(conn)),
		gateway.RegisterSessionServiceHandlerClient(ctx, h.mux, pb.NewSessionServiceClient(conn)),
		gateway.RegisterApprovalServiceHandlerClient(ctx, h.mux, pb.NewApprovalServiceClient(conn)),
		gateway.RegisterAgentServiceHandlerClient(ctx, h.mux, pb.NewAgentServiceClient(conn)),
		gateway.RegisterPolicyServiceHandlerClient(ctx, h.mux, pb.NewPolicyServiceClient(conn)),
		gateway.RegisterAuditServiceHandlerClient(ctx, h.mux, pb.NewAuditServiceClient(conn)),
		gateway.RegisterDialectServiceHandlerClient(ctx, h.mux, pb.NewDialectServiceClient(conn)),
		gateway.RegisterSourceServiceHandlerClient(ctx, h.mux, pb.NewSourceServiceClient(conn)),
		gateway.RegisterWorkspaceServiceHandlerClient(ctx, h.mux, pb.NewWorkspaceServiceClient(conn)),
	); err != nil {
		panic(err) // they return none
	}
	return h
}

// passedOn names the headers of requests that the chain looks at. Authorization is passed
// on by the gateway itself.
func passedOn(name string) (string, bool) {
	switch name {
	case "Toolserver-On-Behalf-Of", "Toolserver-Started", "Traceparent", "Tracestate":
		return strings.ToLower(name), true
	}
	return "", false
}

func nothing(string) (string, bool) { return "", false }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.config.Site.Check(r); err != nil {
		answer(w, http.StatusForbidden, status.New(codes.PermissionDenied, err.Error()))
		return
	}
	if r.URL.Path == DocumentPath {
		w.Header().Set("Content-Type", "application/json")
		w.Write(document())
		return
	}
	conn := h.config.Forward(r.RemoteAddr, r.TLS)
	defer conn.Close()
	controller := http.NewResponseController(w)
	r = r.WithContext(context.WithValue(r.Context(), connKey{}, conn))
	if streamed[r.Method+" "+r.URL.Path] {
		controller.EnableFullDuplex() // HTTP/2 always is
		body := &streamedBody{ReadCloser: r.Body, end: conn.Close}
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == octetStream && uploads[r.URL.Path] {
			body.query = r.URL.Query()
		}
		r.Body = body
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
	} else if r.ContentLength != 0 { // without a body, the deadline would end the stream of the answer
		r.Body = http.MaxBytesReader(w, r.Body, maxMessage)
		controller.SetReadDeadline(time.Now().Add(bodyTime)) // until it has come
	}
	if r.Body != http.NoBody {
		defer func(body io.Reader) { // a client that sends more than is read would not see the answer
			controller.SetReadDeadline(time.Now().Add(drainTime))
			io.CopyN(io.Discard, body, maxMessage)
		}(r.Body)
	}
	if !h.knows(r) {
		r.Body = http.NoBody // what strangers send is not kept, nor waited for: the chain refuses them in its own words
	}
	if after := r.Header.Get("Last-Event-ID"); after != "" && r.Method == http.MethodGet {
		query := r.URL.Query()
		query.Del("afterSequence")
		query.Set("after_sequence", after)
		r.URL.RawQuery = query.Encode()
	}
	h.mux.ServeHTTP(&deadlineWriter{w, controller}, r)
}

// knows reports whether a request is of somebody.
func (h *Handler) knows(r *http.Request) bool {
	if h.config.Authenticator == nil {
		return true
	}
	_, err := h.config.Authenticator.Authenticate(r.Context(), auth.Credentials{Authorization: r.Header.Values("Authorization"), TLS: r.TLS})
	return err == nil
}

type connKey struct{} // grpc.ClientConnInterface

// forwarded calls by the connection of the request that a context is of.
type forwarded struct{}

func connOf(ctx context.Context) grpc.ClientConnInterface {
	return ctx.Value(connKey{}).(grpc.ClientConnInterface)
}

// Invoke makes a unary call.
func (forwarded) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	return connOf(ctx).Invoke(ctx, method, request, response, options...)
}

// NewStream begins a stream.
func (forwarded) NewStream(ctx context.Context, about *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return connOf(ctx).NewStream(ctx, about, method, options...)
}

// streamed are the requests whose body is a stream of messages, of any length and for any
// time: the chain bounds that. Every other is one message.
var streamed = map[string]bool{"POST /v1/agents/serve": true, "POST /v1/batches": true, "POST /v1/dialects/parse": true, "POST /v1/files/content": true, "POST /v1/tree": true}

// uploads are those of them whose body may be the bytes themselves.
var uploads = map[string]bool{"/v1/files/content": true, "/v1/tree": true}

// bodyTime is in which the body of a request has to come, and drainTime in which the rest
// has to come that nobody reads any more.
var bodyTime = 30 * time.Second

const drainTime = 5 * time.Second

// deadlineWriter gives each write a time in which the client has to take it.
type deadlineWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
}

func (w *deadlineWriter) Write(p []byte) (int, error) {
	w.controller.SetWriteDeadline(time.Now().Add(writeTime))
	return w.ResponseWriter.Write(p)
}

// FlushError sends what was written. A stream may be silent for as long as it likes after
// that; by HTTP/2, a deadline that is over would end it.
func (w *deadlineWriter) FlushError() error {
	err := w.controller.Flush()
	w.controller.SetWriteDeadline(time.Time{})
	return err
}

// Unwrap is for what else a [http.ResponseController] does.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
