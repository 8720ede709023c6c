// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// api is an HTTP server that keeps what it was asked.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // method, address and body
	last  http.Header
}

func newAPI(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *api {
	a := new(api)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.asked = append(a.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		a.last = r.Header.Clone()
		a.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// since returns what was asked, and forgets it.
func (a *api) since() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// tools waits until a source offers tools that are as want says, and returns their names.
func (s *sourcesServer) tools(source string, want func(names []string) bool) []string {
	s.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var names []string
		list := &pb.ListToolsRequest{PageSize: 1000, Category: source}
		for {
			response, err := s.ListTools(s.t.Context(), list)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, tool := range response.GetTools() {
				if strings.HasPrefix(tool.GetName(), source+"__") && tool.GetUnavailableReason() == "" {
					names = append(names, tool.GetName())
				}
			}
			if list.PageToken = response.GetNextPageToken(); list.PageToken == "" {
				break
			}
		}
		if want(names) {
			return names
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s offers %v", source, names)
		}
	}
}

func some(names []string) bool { return len(names) > 0 }

// ended runs a call, which nobody approves, and returns how it ended in a few words.
func (s *sourcesServer) ended(tool, input string) string {
	s.t.Helper()
	asked := false
	_, end := s.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}, func(*pb.Approval) pb.AnswerKind {
		asked = true
		return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
	})
	return outcomeOf(end, asked)
}

// approved is ended for a call that a person approves, if asked.
func (s *sourcesServer) approved(tool, input string) string {
	s.t.Helper()
	_, end := s.call(&pb.ExecuteToolRequest{Tool: tool, InputJson: []byte(input)}, func(*pb.Approval) pb.AnswerKind { return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE })
	return outcomeOf(end, false)
}

func outcomeOf(end *pb.Finished, asked bool) string {
	words := []string{strings.ToLower(strings.TrimPrefix(end.GetOutcome().String(), "OUTCOME_"))}
	if asked {
		words = append(words, "asked")
	}
	if f := end.GetFailure(); f != nil {
		words = append(words, f.GetCode(), f.GetMessage())
		for _, p := range f.GetProblems() {
			words = append(words, p.GetPointer()+" "+p.GetMessage())
		}
	}
	for _, c := range end.GetContent() {
		switch {
		case c.GetImage() != nil:
			words = append(words, fmt.Sprintf("image %s %d", c.GetImage().GetMediaType(), len(c.GetImage().GetData())))
		case c.GetArtifact() != nil:
			words = append(words, fmt.Sprintf("artifact %s %s", c.GetArtifact().GetName(), c.GetArtifact().GetMediaType()))
		default:
			words = append(words, c.GetText()+c.GetJson())
		}
	}
	return strings.Join(words, "; ")
}

func shop(t *testing.T, base, more string) string {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secretToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs("testdata/openapi/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("openapi:\n  - name: shop\n    file: %s\n    base_url: %s/v2\n    auth: {type: bearer, token_file: %s}\n%s", file, base, token, more)
}

// TestOpenAPICalls: what calls of an API send, and what comes back.
func TestOpenAPICalls(t *testing.T) {
	t.Parallel()
	shopAPI := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"auth": %q}`, r.Header.Get("Authorization"))
	})
	s := serveSources(t, shop(t, shopAPI.URL, "    says: [{tools: [search], read_only: true}]\n    headers: {X-Client: toolserver}\n"))
	names := s.tools("shop", some)
	want := "shop__get_blob_id shop__items_create shop__items_delete shop__items_get shop__items_put shop__search shop__upload"
	if got := strings.Join(names, " "); got != want {
		t.Fatalf("offers %s", got)
	}
	if err := os.WriteFile(filepath.Join(s.workspace, "photo.txt"), []byte("a photo"), 0o600); err != nil {
		t.Fatal(err)
	}
	const ok = `succeeded; {"auth":"Bearer [REDACTED]"}`
	for _, test := range []struct{ tool, input, sent, ended string }{
		{"shop__items_get", `{"id":"7"}`, "GET /v2/items/7", ok},
		{"items_get", `{"id":"a b/c?d#e","fields":["x","y&z"],"filter":{"price":{"gt":5}},"seen":"1;2"}`, "GET /v2/items/a%20b%2Fc%3Fd%23e?fields=x&fields=y%26z&filter%5Bprice%5D%5Bgt%5D=5", ok},
		{"shop__items_get", `{"id":"../../admin"}`, "", "invalid_input"},
		{"shop__items_get", `{"id":".."}`, "", "leads elsewhere"},
		{"shop__items_get", `{"id":"."}`, "", "leads elsewhere"},
		{"shop__items_get", `{"id":""}`, "", "/id must not be empty"},
		{"shop__items_get", `{}`, "", "/id is required"},
		{"shop__items_get", `{"id":"7","X-Trace":"a\r\nX-Admin: yes"}`, "", "/X-Trace has line breaks"},
		{"shop__items_get", `{"id":"7","Authorization":"Bearer mine"}`, "", "/Authorization unknown key"},
		{"shop__items_get", `{"id":"7","X-HTTP-Method-Override":"DELETE"}`, "", "/X-HTTP-Method-Override unknown key"},
		{"shop__items_get", `{"id":"7","key":"mine"}`, "", "/key unknown key"},
		{"shop__items_get", `{"id":"7","base_url":"http://169.254.169.254"}`, "", "/base_url unknown key"},
		{"shop__search", `{"body":{"q":"a=b&c","tags":["x","y"]}}`, "POST /v2/search q=a%3Db%26c&tags=x&tags=y", ok},
		{"shop__items_create", `{"body":{"name":"box"}}`, "", "asked"},
		{"shop__items_put", `{"id":"1","body":{"name":"box"}}`, "", "asked"},
		{"shop__items_delete", `{"id":"1"}`, "", "asked"},
		{"shop__items_create", `{"body":{"name":"a name of more than twenty letters"}}`, "", "/body/name"},
		{"shop__upload", `{"body":{"title":"t","file":"../../../etc/passwd"}}`, "", "asked"},
	} {
		got, sent := s.ended(test.tool, test.input), strings.Join(shopAPI.since(), " | ")
		if sent != test.sent || !strings.Contains(got, test.ended) {
			t.Errorf("%s %s\nsent  %s\nended %s\nwant  %s, %s", test.tool, test.input, sent, got, test.sent, test.ended)
		}
	}
	for _, test := range []struct{ tool, input, sent string }{
		{"shop__items_create", `{"body":{"name":"box","note":null,"parts":[{"name":"lid"}]}}`, `POST /v2/items {"name":"box","note":null,"parts":[{"name":"lid"}]}`},
		{"shop__items_delete", `{"id":"1"}`, "DELETE /v2/items/1"},
	} {
		if got, sent := s.approved(test.tool, test.input), strings.Join(shopAPI.since(), " | "); sent != test.sent || got != ok {
			t.Errorf("%s: sent %s, %s", test.tool, sent, got)
		}
	}
	if shopAPI.last.Get("X-Client") != "toolserver" || shopAPI.last.Get("Authorization") != "Bearer "+secretToken {
		t.Errorf("sent %v", shopAPI.last)
	}
	if got, sent := s.approved("shop__upload", `{"body":{"file":"../../../etc/passwd"}}`), shopAPI.since(); len(sent) > 0 || !strings.Contains(got, "outside") {
		t.Errorf("a file of the machine: %s, sent %v", got, sent)
	}
	if got, sent := s.approved("shop__upload", `{"body":{"title":"t","file":"photo.txt"}}`), strings.Join(shopAPI.since(), ""); got != ok ||
		!strings.Contains(sent, `filename=photo.txt`) || !strings.Contains(sent, "a photo") || !strings.Contains(sent, "name=title") {
		t.Errorf("upload: %s, sent %s", got, sent)
	}
}

// TestOpenAPIPolicy: rules say what is asked, and plan mode changes nothing.
func TestOpenAPIPolicy(t *testing.T) {
	t.Parallel()
	shopAPI := newAPI(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := "version: 1\nrules:\n- {name: make, action: allow, tools: ['@shop/items_create']}\n- {name: never, action: deny, tools: ['@openapi/items_delete'], reason: Nothing is removed.}\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveSources(t, shop(t, shopAPI.URL, "")+"policy: {file: "+policy+"}\n")
	s.tools("shop", some)
	for _, test := range []struct{ tool, input, want string }{
		{"shop__items_create", `{"body":{"name":"x"}}`, "succeeded; Status 204, without content."},
		{"shop__items_put", `{"id":"1","body":{"name":"x"}}`, "asked"},
		{"shop__items_delete", `{"id":"1"}`, "no_such_tool"},
	} {
		if got := s.ended(test.tool, test.input); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.tool, got)
		}
	}
	created, err := s.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Mode: pb.Mode_MODE_PLAN})
	if err != nil {
		t.Fatal(err)
	}
	shopAPI.since()
	for tool, input := range map[string]string{"shop__items_get": `{"id":"1"}`, "shop__items_put": `{"id":"1","body":{"name":"x"}}`} {
		_, end := s.call(&pb.ExecuteToolRequest{SessionId: created.GetSession().GetSessionId(), Tool: tool, InputJson: []byte(input)}, nil)
		t.Log(outcomeOf(end, false))
	}
	if sent := shopAPI.since(); !slices.Equal(sent, []string{"GET /v2/items/1"}) {
		t.Errorf("in plan mode it sent %v", sent)
	}
}

// TestOpenAPIAnswers: what an API answers is explained, bounded and kept.
func TestOpenAPIAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := newAPI(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "INTERNAL-CANARY") })
	var failures int
	hanging := make(chan struct{}, 1)
	shopAPI := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		switch id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; id {
		case "401", "403", "404", "409", "422", "500":
			var status int
			fmt.Sscan(id, &status)
			http.Error(w, "says "+secretToken, status)
		case "429":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		case "once":
			if failures++; failures == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, "at last")
		case "away":
			http.Redirect(w, r, elsewhere.URL+"/latest/meta-data/", http.StatusFound)
		case "here":
			http.Redirect(w, r, "/v2/blob/text", http.StatusFound)
		case "loop":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case "text":
			fmt.Fprint(w, "plain\u202e text")
		case "png":
			w.Header().Set("Content-Type", "image/png")
			w.Write([]byte("\x89PNG\r\n\x1a\n0000"))
		case "zip":
			w.Header().Set("Content-Type", "application/zip")
			w.Header().Set("Content-Disposition", `attachment; filename="../../all.zip"`)
			w.Write([]byte("PK\x03\x04\xff\xfe\x00"))
		case "large":
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(strings.Split(strings.Repeat("item,", 20000), ","))
		case "bomb":
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			zip.Write(bytes.Repeat([]byte("0"), 64<<20))
			zip.Close()
		case "hang":
			hanging <- struct{}{}
			<-r.Context().Done()
		case "drop":
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Link", `<https://api.example.com/next>; rel="next"`)
			w.Header().Set("Alt-Svc", `h3="127.0.0.1:1"`)
			fmt.Fprint(w, "{}")
		}
	})
	s := serveSources(t, shop(t, shopAPI.URL, "    max_response: 1MiB\n"))
	s.tools("shop", some)
	for id, want := range map[string]struct {
		ended string
		times int
	}{
		"401":   {"failed; unauthorized; Status 401. shop does not accept the credentials that the operator configured.", 1},
		"403":   {"failed; forbidden; Status 403", 1},
		"404":   {"failed; not_found; Status 404", 1},
		"409":   {"failed; conflict; Status 409", 1},
		"422":   {"failed; refused; Status 422. shop refused the request: correct the input.\nIt says: says [REDACTED]", 1},
		"429":   {"failed; rate_limited; Status 429. shop takes no more calls for now. Try again in 1h0m0s.", 1},
		"500":   {"failed; server_error; Status 500", 1},
		"once":  {"succeeded; at last", 2},
		"away":  {"failed; redirected; Status 302. shop answered with a redirect to \"127.0.0.1:", 1},
		"here":  {"succeeded; plain text", 2},
		"loop":  {"failed; redirected", 6},
		"text":  {"succeeded; plain text", 1},
		"png":   {"succeeded; image image/png 12", 1},
		"zip":   {"succeeded; artifact all.zip application/zip; The answer has 7 bytes of type application/zip, kept as", 1},
		"large": {"artifact shop__get_blob_id.json", 1},
		"bomb":  {"The answer was cut after 1MiB", 1},
		"drop":  {"failed; unreachable; 127.0.0.1:", 0},
		"plain": {"succeeded; {}; Link: <https://api.example.com/next>; rel=\"next\"", 1},
	} {
		shopAPI.since()
		got := s.ended("shop__get_blob_id", `{"id":"`+id+`"}`)
		if n := len(shopAPI.since()); !strings.Contains(got, want.ended) || want.times != 0 && n != want.times || strings.Contains(got, "CANARY") || len(got) > 200<<10 {
			t.Errorf("%s, %d times: %.600s\nwant %d times, %s", id, n, got, want.times, want.ended)
		}
	}
	if sent := elsewhere.since(); len(sent) > 0 {
		t.Errorf("a redirect was followed: %v", sent)
	}
	// Nothing is tried again that may have been done, and a cancelled call ends.
	shopAPI.since()
	if got, sent := s.approved("shop__items_create", `{"body":{"name":"x"}}`), shopAPI.since(); len(sent) != 1 || !strings.Contains(got, "failed; server_error; Status 503") || !strings.Contains(got, "may have been done") {
		t.Errorf("sent %v: %s", sent, got)
	}
	if got, sent := s.approved("shop__items_put", `{"id":"once","body":{"name":"x"}}`), shopAPI.since(); len(sent) != 1 || !strings.HasPrefix(got, "succeeded") {
		t.Errorf("sent %v: %s", sent, got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := s.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "shop__get_blob_id", InputJson: []byte(`{"id":"hang"}`), CallId: proto.String("hanging")})
	if err != nil {
		t.Fatal(err)
	}
	<-hanging
	if _, err := s.Cancel(ctx, &pb.CancelRequest{CallId: "hanging"}); err != nil {
		t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if end := response.GetEvent().GetFinished(); end != nil {
			if end.GetOutcome() != pb.Outcome_OUTCOME_CANCELLED {
				t.Errorf("a cancelled call ended as %s", outcomeOf(end, false))
			}
			break
		}
	}
}
