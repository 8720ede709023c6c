// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answerError answers with the status of an RPC: {"error": {"code", "message", "details"}},
// which is also the last line of a stream that failed.
func answerError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	s := status.Convert(causeOf(ctx, err))
	for _, detail := range s.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retry.GetRetryDelay().AsDuration().Seconds()))))
		}
	}
	if s.Code() == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="toolserver"`)
	}
	answer(w, runtime.HTTPStatusFromCode(s.Code()), s)
}

// streamedBody is a body of many messages. The gateway does not tell what is wrong with one
// of them: the call is ended for it, and the reason is kept here.
type streamedBody struct {
	io.ReadCloser
	end func() error

	// query, if set, has the header of an upload whose body is the bytes themselves.
	query url.Values

	mu  sync.Mutex
	err error
}

type bodyKey struct{} // *streamedBody

func (b *streamedBody) fail(err error) {
	b.mu.Lock()
	b.err = status.Error(codes.InvalidArgument, err.Error())
	b.mu.Unlock()
	b.end()
}

// causeOf returns what is wrong with the body of a request, if that is why it failed.
func causeOf(ctx context.Context, err error) error {
	if body, ok := ctx.Value(bodyKey{}).(*streamedBody); ok {
		body.mu.Lock()
		defer body.mu.Unlock()
		if body.err != nil {
			return body.err
		}
	}
	return err
}

// answerRouting answers where there is nothing at a path, or not by that method.
func answerRouting(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	s := status.Newf(codes.NotFound, "there is nothing at %.200s: %s lists what there is", r.URL.Path, DocumentPath)
	if code == http.StatusMethodNotAllowed {
		s = status.Newf(codes.Unimplemented, "%.200s does not take %.20s: %s lists what it takes", r.URL.Path, r.Method, DocumentPath)
	}
	answer(w, code, s)
}

func answer(w http.ResponseWriter, code int, s *status.Status) {
	text, err := jsonOf.Marshal(map[string]any{"error": s.Proto()})
	if err != nil {
		http.Error(w, s.Message(), code)
		return
	}
	w.Header().Del("Transfer-Encoding")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(text, '\n'))
}
