// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed request.md
var requestDoc string

type requestInput struct {
	URL     string            `json:"url" check:"min=1,max=8192" jsonschema:"http or https"`
	Method  string            `json:"method,omitempty" check:"enum=GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS" jsonschema:"default GET"`
	Headers map[string]string `json:"headers,omitempty" check:"max=50"`
	Body    string            `json:"body,omitempty" check:"max=1000000" jsonschema:"sent as it is; JSON has the Content-Type of JSON unless a header says otherwise"`
}

// ofTransport are headers that the server sets, or that would change whom it talks to.
var ofTransport = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding", "Expect"}

func (in requestInput) Check() []tools.Problem {
	problems := checkURL("/url", in.URL)
	for name, value := range in.Headers {
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			problems = append(problems, tools.Problem{Pointer: "/headers", Message: fmt.Sprintf("%.100q is no header: want a name of letters, digits and -, and a value of one line", name)})
		case slices.Contains(ofTransport, textproto.CanonicalMIMEHeaderKey(name)):
			problems = append(problems, tools.Problem{Pointer: "/headers", Message: name + " is set by the server: leave it out"})
		}
	}
	if in.Body != "" && (in.method() == http.MethodGet || in.method() == http.MethodHead) {
		problems = append(problems, tools.Problem{Pointer: "/body", Message: "is not sent with " + in.method() + ": use another method, or put it into the address"})
	}
	slices.SortFunc(problems, func(a, b tools.Problem) int { return cmp.Compare(a.String(), b.String()) })
	return problems
}

func (in requestInput) method() string { return cmp.Or(in.Method, http.MethodGet) }

// request returns the tool that sends a request.
func (f *Family) request() tools.Tool {
	tool := tools.WithPreview(tools.New(
		tools.Spec{
			Name:        "http_request",
			Aliases:     []string{"HttpRequest"},
			Label:       "HTTP request",
			Summary:     "Send an HTTP request to an API.",
			Description: requestDoc,
			Category:    category,
			Level:       tools.WorkspaceWrite,
			Examples: []tools.Example{
				{Summary: "Read from an API", Input: json.RawMessage(`{"url":"https://api.example.com/v1/items","headers":{"Accept":"application/json"}}`)},
				{Summary: "Send JSON", Input: json.RawMessage(`{"url":"https://api.example.com/v1/items","method":"POST","body":"{\"name\":\"a\"}"}`)},
			},
		},
		func(_ tools.Env, in requestInput) []tools.Effect { return Reaches(in.URL) },
		f.runRequest), previewRequest)
	return tools.WithForesight(tool, func(_ tools.Env, in requestInput) error { return f.foresee(in.URL) })
}

// previewRequest shows a request to the person who is asked.
func previewRequest(_ context.Context, _ tools.Env, in requestInput) tools.Preview {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", in.method(), in.URL)
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		fmt.Fprintf(&b, "%s: %s\n", name, in.Headers[name])
	}
	if in.Body != "" {
		b.WriteString("\n" + in.Body + "\n")
	}
	return tools.Preview{Kind: tools.PreviewText, Text: b.String()}
}

// requestDetails is what an agent runtime may want to know about a request.
type requestDetails struct {
	Foreign    bool        `json:"foreign"`
	Method     string      `json:"method"`
	URL        string      `json:"url"`
	FinalURL   string      `json:"final_url"`
	Redirects  []string    `json:"redirects,omitempty"`
	RedirectTo string      `json:"redirect_to,omitempty"`
	Status     int         `json:"status"`
	Headers    http.Header `json:"headers"`
	FetchedAt  string      `json:"fetched_at"`
	Digest     string      `json:"digest"`
	Size       int         `json:"size"`
}

// shownHeaders are those of an answer that a model sees.
var shownHeaders = []string{"Content-Type", "Location", "Retry-After", "Etag", "Last-Modified", "Link", "Allow", "Www-Authenticate",
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

func (f *Family) runRequest(ctx context.Context, env tools.Env, in requestInput, _ tools.Sink) (tools.Result, error) {
	u, _, _, err := egress.ParseURL(in.URL)
	if err != nil {
		return tools.Result{}, failure(err)
	}
	header := make(http.Header)
	for name, value := range in.Headers {
		header.Set(name, value)
	}
	var body []byte
	if in.Body != "" {
		body = []byte(in.Body)
		if header.Get("Content-Type") == "" {
			header.Set("Content-Type", "text/plain; charset=utf-8")
			if json.Valid(body) {
				header.Set("Content-Type", "application/json")
			}
		}
	}
	header.Set("Accept", cmp.Or(header.Get("Accept"), "*/*"))
	visit := f.web.Visit(reachedBy(Reaches(in.URL)).judge(env))
	defer visit.Close()
	reads := in.method() == http.MethodGet || in.method() == http.MethodHead
	answer, err := visit.Do(ctx, egress.Request{Method: in.method(), URL: u, Header: header, Body: body, Follow: reads})
	if ctx.Err() != nil {
		return tools.Result{}, context.Cause(ctx)
	}
	if err != nil {
		return tools.Result{}, failure(err)
	}
	digest := sha256.Sum256(answer.Body)
	details := requestDetails{
		Foreign: true, Method: in.method(), URL: in.URL, FinalURL: answer.URL.String(), Redirects: answer.Hops, Status: answer.Status, Headers: answer.Header,
		FetchedAt: time.Now().UTC().Format(time.RFC3339), Digest: "sha256:" + hex.EncodeToString(digest[:]), Size: len(answer.Body),
	}
	text, notes := answerText(answer)
	if answer.Next != nil {
		details.RedirectTo = answer.Next.String()
		notes = append(notes, fmt.Sprintf("it redirects to %s, and that was not followed: %s", answer.Next, answer.Stays))
	}
	if wait, said := answer.RetryAfter(); said {
		notes = append(notes, fmt.Sprintf("it asks to wait %s before trying again", wait))
	}
	out := tools.Untrusted(answer.URL.String(), text)
	for _, note := range notes {
		out += "(" + note + ")\n"
	}
	result := tools.Result{Content: env.Begin(out, "answer.txt")}
	result.Details, err = json.Marshal(details)
	return result, err
}

// answerText writes an answer for a model.
func answerText(answer *egress.Answer) (text string, notes []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP %d %s\n", answer.Status, http.StatusText(answer.Status))
	for _, name := range shownHeaders {
		for _, value := range answer.Header.Values(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, line(value))
		}
	}
	contentType := answer.Header.Get("Content-Type")
	mediaType := mediaTypeOf(contentType, answer.Body)
	switch {
	case len(answer.Body) == 0:
		notes = append(notes, "the answer has no body")
	case isText(mediaType, answer.Body):
		b.WriteString("\n" + tools.Visible(decode(answer.Body, contentType, mediaType)))
	default:
		notes = append(notes, fmt.Sprintf("the body is %s of %s, which is not shown", mediaType, size.Bytes(len(answer.Body))))
	}
	if answer.Cut {
		notes = append(notes, "the body is larger than "+size.Bytes(len(answer.Body)).String()+", and only so much was read")
	}
	return b.String(), notes
}
