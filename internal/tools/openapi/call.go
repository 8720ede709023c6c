// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of trying again, and of what is shown.
const (
	attempts    = 3
	firstWait   = 500 * time.Millisecond
	maxWait     = 10 * time.Second // that an API may ask for
	maxImage    = 3 << 20
	maxExcerpt  = 2000            // characters of an answer that says no
	timeoutRoom = 5 * time.Second // so that a call says itself that its time was over
)

// run performs a call.
func (op *operation) run(ctx context.Context, env tools.Env, input json.RawMessage, _ tools.Sink) (tools.Result, error) {
	values := valuesOf(input)
	request, err := op.address(values)
	if err != nil {
		return tools.Result{}, err
	}
	var sent []byte
	if value, given := values[bodyKey]; given && op.body != nil {
		var mediaType string
		if sent, mediaType, err = op.body.encode(env, value); err != nil {
			return tools.Result{}, err
		}
		request.Header.Set("Content-Type", mediaType)
	}
	for name, value := range op.source.spec.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", cmp.Or(request.Header.Get("User-Agent"), userAgent))
	request.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.8")

	limited, cancel := context.WithTimeout(ctx, op.source.spec.Timeout)
	defer cancel()
	answer, err := op.exchange(limited, request, sent)
	switch {
	case ctx.Err() != nil:
		return tools.Result{}, context.Cause(ctx)
	case limited.Err() != nil && err != nil:
		return tools.Result{}, &tools.Failure{Code: tools.TimedOutCode, Retryable: isIdempotent(op.method),
			Message: fmt.Sprintf("%s did not answer within %s.", op.base.Host, op.source.spec.Timeout)}
	case err != nil:
		return tools.Result{}, err
	case answer.status < 200 || answer.status > 299:
		return tools.Result{}, op.refusal(answer)
	}
	return op.result(env, answer), nil
}

// An answer is what came back, without credentials.
type answer struct {
	status int
	header http.Header
	body   []byte
	cut    bool // there was more
}

// exchange sends a request, and again where that is safe and may help.
func (op *operation) exchange(ctx context.Context, request *http.Request, body []byte) (*answer, error) {
	wait, renewed := firstWait, false
	for attempt := 1; ; attempt++ {
		got, err := op.once(ctx, request, body)
		again := attempt < attempts && isIdempotent(op.method) && ctx.Err() == nil
		switch {
		case err != nil:
			failure, ok := errors.AsType[*tools.Failure](err)
			again = again && ok && failure.Retryable
		case got.status == http.StatusUnauthorized && op.source.spec.Auth.Type == "client_credentials" && !renewed:
			op.source.auth.forget() // it may have been revoked
			renewed, wait = true, 0
		case slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, got.status):
			if asked, said := retryAfter(got.header); said {
				wait = asked
				again = again && asked <= maxWait
			}
		default:
			again = false
		}
		if !again {
			return got, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return got, err
		}
		wait = max(2*wait, firstWait)
	}
}

// retryAfter returns how long an API asks to wait.
func retryAfter(header http.Header) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return time.Duration(min(n, 1<<20)) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}

// once sends a request once, and reads the answer.
func (op *operation) once(ctx context.Context, template *http.Request, body []byte) (*answer, error) {
	request := template.Clone(ctx)
	if body != nil {
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	secrets, err := op.source.auth.add(request)
	if err != nil {
		return nil, tools.Failf("credentials", "No call of %s was made: %v.", op.base.Host, err)
	}
	response, err := op.source.client.Do(request)
	if err != nil {
		return nil, &tools.Failure{Code: "unreachable", Retryable: true, Message: fmt.Sprintf("%s cannot be reached: %v", op.base.Host, withoutAddress(err))}
	}
	defer response.Body.Close()
	most := int(op.source.spec.MaxResponse)
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(most)+1))
	if err != nil {
		return nil, &tools.Failure{Code: "unreachable", Retryable: true, Message: fmt.Sprintf("The answer of %s broke off: %v", op.base.Host, withoutAddress(err))}
	}
	got := &answer{status: response.StatusCode, header: response.Header, body: text[:min(len(text), most)], cut: len(text) > most}
	for _, secret := range secrets {
		if len(secret) < output.MinValue {
			continue // it would be found everywhere
		}
		got.body = bytes.ReplaceAll(got.body, []byte(secret), []byte("[REDACTED]"))
		for _, values := range got.header {
			for i, value := range values {
				values[i] = strings.ReplaceAll(value, secret, "[REDACTED]")
			}
		}
	}
	return got, nil
}

// refusal explains an answer that is no success.
func (op *operation) refusal(a *answer) error {
	f := &tools.Failure{Code: "api_error"}
	api := op.source.spec.Name
	switch status := a.status; {
	case status >= 300 && status <= 399:
		f.Code, f.Message = "redirected", fmt.Sprintf("%s answered with a redirect, which is followed only for calls that read, and on the same host.", api)
		if to, err := url.Parse(a.header.Get("Location")); err == nil && to.Host != "" {
			f.Message = fmt.Sprintf("%s answered with a redirect to %.200q, which is not followed: the operator configured %s.", api, to.Host, op.base.Host)
		}
	case status == http.StatusUnauthorized && op.source.spec.Auth.Type == "":
		f.Code, f.Message = "unauthorized", api+" wants credentials, and the operator configured none. Tell the user; nothing in the input can help."
	case status == http.StatusUnauthorized:
		f.Code, f.Message = "unauthorized", api+" does not accept the credentials that the operator configured. Tell the user; nothing in the input can help."
	case status == http.StatusForbidden:
		f.Code, f.Message = "forbidden", "The credentials that the operator configured for "+api+" do not permit this. Try something else, or tell the user."
	case status == http.StatusNotFound || status == http.StatusGone:
		f.Code, f.Message = "not_found", "There is no such thing, or the credentials do not let "+api+" show it: check names and ids."
	case status == http.StatusConflict || status == http.StatusPreconditionFailed:
		f.Code, f.Message = "conflict", "This does not fit what "+api+" has by now: read it again before you change it."
	case status == http.StatusTooManyRequests:
		f.Code, f.Message, f.Retryable = "rate_limited", api+" takes no more calls for now.", true
		if wait, said := retryAfter(a.header); said {
			f.Message += fmt.Sprintf(" Try again in %s.", wait.Round(time.Second))
		}
	case status >= 500:
		f.Code, f.Message, f.Retryable = "server_error", "Something failed at "+api+", not in the input. Trying again later may help.", isIdempotent(op.method)
		if !isIdempotent(op.method) {
			f.Message = "Something failed at " + api + ", not in the input. It may have been done all the same: look before you try again."
		}
	default:
		f.Code, f.Message = "refused", api+" refused the request: correct the input."
	}
	f.Message = fmt.Sprintf("Status %d. %s", a.status, f.Message)
	if text, ok := textFrom(a); ok && text != "" {
		f.Message += "\nIt says: " + brief(text, maxExcerpt)
	}
	return f
}

// textFrom returns the body of an answer, if it is text.
func textFrom(a *answer) (string, bool) {
	text := string(a.body)
	for a.cut && len(text) > 0 && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) && len(text) > len(a.body)-utf8.UTFMax {
		text = text[:len(text)-1]
	}
	return text, utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

// result makes a result of an answer.
func (op *operation) result(env tools.Env, a *answer) (result tools.Result) {
	mediaType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil || mediaType == "" {
		mediaType = http.DetectContentType(a.body)
		mediaType, _, _ = strings.Cut(mediaType, ";")
	}
	result.Details, _ = json.Marshal(map[string]any{"status": a.status, "media_type": mediaType, "bytes": len(a.body)})
	var notes []string
	if a.cut {
		notes = append(notes, fmt.Sprintf("The answer was cut after %s: ask for less at once.", op.source.spec.MaxResponse))
	}
	if link := a.header.Get("Link"); link != "" {
		notes = append(notes, "Link: "+brief(link, 1000))
	}
	text, isText := textFrom(a)
	var compact bytes.Buffer
	switch {
	case len(a.body) == 0:
		notes = append([]string{fmt.Sprintf("Status %d, without content.", a.status)}, notes...)
	case isText && (isJSON(mediaType) || mediaType == "text/plain") && !a.cut && json.Compact(&compact, a.body) == nil && (isJSON(mediaType) || compact.Bytes()[0] == '{'):
		if compact.Len() <= env.Shown() {
			result.Content = append(result.Content, tools.JSON(compact.Bytes()))
			break
		}
		var lines bytes.Buffer
		json.Indent(&lines, compact.Bytes(), "", " ") // so that it can be read by lines
		result.Content = env.Begin(output.WithoutInvisible(lines.String()), op.name+".json")
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mediaType) && len(a.body) <= maxImage && !a.cut:
		result.Content = append(result.Content, tools.Image{MediaType: mediaType, Data: a.body})
	case isText:
		result.Content = env.Begin(output.WithoutInvisible(text), op.name+".txt")
	default:
		notes = append([]string{op.keep(env, &result, mediaType, a)}, notes...)
	}
	if len(notes) > 0 {
		result.Content = append(result.Content, tools.Text(strings.Join(notes, "\n")))
	}
	return result
}

// keep keeps what is no text as an artifact, and returns what is said of it.
func (op *operation) keep(env tools.Env, result *tools.Result, mediaType string, a *answer) string {
	what := fmt.Sprintf("The answer has %s of type %s", output.Size(uint64(len(a.body))), mediaType)
	if env.Artifacts == nil {
		return what + ", and this server keeps no files."
	}
	name := op.name
	if _, params, err := mime.ParseMediaType(a.header.Get("Content-Disposition")); err == nil && params["filename"] != "" {
		name = brief(path.Base(params["filename"]), 100)
	} else if extensions, err := mime.ExtensionsByType(mediaType); err == nil && len(extensions) > 0 {
		name += extensions[0]
	}
	writer, err := env.Artifacts.Create(name, mediaType)
	if err != nil {
		return what + ", and could not be kept."
	}
	writer.Write(a.body)
	kept := writer.Close()
	result.Content = append(result.Content, kept)
	return what + ", kept as " + kept.URI + "."
}
