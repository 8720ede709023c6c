// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// apiServer answers TokenReviews as kube-apiserver does, for tokens that are told.
type apiServer struct {
	*httptest.Server
	t       *testing.T
	answers map[string]string // status by token
	code    atomic.Int32      // instead of 201
	asked   atomic.Int32
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{t: t, answers: make(map[string]string)}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	body, _ := io.ReadAll(r.Body)
	var review struct {
		APIVersion, Kind string
		Spec             struct {
			Token     string
			Audiences []string
		}
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	if err := decoder.Decode(&review); err != nil || review.APIVersion != "authentication.k8s.io/v1" || review.Kind != "TokenReview" ||
		r.Method != http.MethodPost || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" || r.Header.Get("Content-Type") != "application/json" ||
		len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != "toolserver" {
		s.t.Errorf("%s %s: %s, %v", r.Method, r.URL, body, err)
	}
	w.Header().Set("Content-Type", "application/json")
	code := http.StatusCreated
	if c := s.code.Load(); c != 0 {
		code = int(c)
	}
	if r.Header.Get("Authorization") != "Bearer own-token" {
		code = http.StatusUnauthorized
	}
	w.WriteHeader(code)
	if code != http.StatusCreated {
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secret of the cluster","code":500}`)
		return
	}
	status := s.answers[review.Spec.Token]
	if status == "" {
		status = `{"user":{},"error":"[invalid bearer token, service account token has been invalidated]"}`
	}
	io.WriteString(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{"creationTimestamp":null,"managedFields":[]},"spec":{"token":"x","audiences":["toolserver"]},"status":`+status+`}`)
}

// account is the status of a service account.
func account(name, audiences string) string {
	return `{"authenticated":true,"user":{"username":"` + name + `","uid":"7","groups":["system:serviceaccounts","system:serviceaccounts:agents","system:authenticated"],` +
		`"extra":{"authentication.kubernetes.io/pod-name":["x"]}},"audiences":[` + audiences + `]}`
}

func jwt(subject string, expires time.Time) string {
	payload, _ := json.Marshal(map[string]any{"iss": "https://kubernetes.default.svc.cluster.local", "sub": subject, "exp": expires.Unix()})
	return encode(`{"alg":"RS256","kid":"x"}`) + "." + encode(string(payload)) + "." + encode("signature of "+subject)
}

func TestTokenReview(t *testing.T) {
	s := newAPIServer(t)
	dir := t.TempDir()
	config := auth.KubernetesConfig{
		APIServer: s.URL, Audiences: []string{"toolserver"},
		TokenFile: write(t, filepath.Join(dir, "token"), []byte("own-token\n")),
		CAFile:    write(t, filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
	}
	var err error
	if config.Bindings, err = auth.NewBindings([]auth.Binding{{Group: "system:serviceaccounts:agents", Roles: auth.Agent, Tenant: "agents"}}, auth.Viewer); err != nil {
		t.Fatal(err)
	}
	chainOf := func() *auth.Chain {
		cluster, err := auth.NewKubernetes(config)
		if err != nil {
			t.Fatal(err)
		}
		chain := &auth.Chain{Tokens: newTokens(t), Kubernetes: cluster}
		t.Cleanup(func() { chain.Close() })
		return chain
	}
	chain := chainOf()
	good, foreign, blind, person, unknown := jwt("runner", time.Now().Add(time.Hour)), jwt("foreign", time.Now().Add(time.Hour)),
		jwt("blind", time.Now().Add(time.Hour)), jwt("person", time.Now().Add(time.Hour)), jwt("unknown", time.Now().Add(time.Hour))
	s.answers[good] = account("system:serviceaccount:agents:runner", `"toolserver"`)
	s.answers[foreign] = account("system:serviceaccount:agents:runner", `"https://kubernetes.default.svc"`)
	s.answers[blind] = account("system:serviceaccount:agents:runner", ``)
	s.answers[person] = account("root", `"toolserver"`)

	want := auth.Principal{Name: "system:serviceaccount:agents:runner", Roles: auth.Agent, Tenant: "agents"}
	for range 5 {
		if got, err := chain.Authenticate(t.Context(), bearer(good)); err != nil || got != want {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times about one token", n)
	}
	for token, says := range map[string]string{
		foreign: "another audience", blind: "another audience", person: "of no service account", unknown: "does not know the token",
		"not.a.token": "unknown token", "opaque": "unknown token",
	} {
		for range 3 {
			_, err := chain.Authenticate(t.Context(), bearer(token))
			refused(t, err, token, says)
		}
	}
	if n := s.asked.Load(); n != 5 {
		t.Errorf("asked %d times about five tokens", n)
	}

	// It does not answer, or not to us.
	for code, says := range map[int]string{500: "500", 401: "create tokenreviews", 403: "create tokenreviews", 302: "302"} {
		s.code.Store(int32(code))
		_, err := chainOf().Authenticate(t.Context(), bearer(good))
		unavailable(t, err)
		if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v, want %q", code, err, says)
		}
	}
	s.code.Store(0)
	other := chainOf()
	write(t, config.TokenFile, []byte("rotated"))
	_, err = other.Authenticate(t.Context(), bearer(good))
	unavailable(t, err)
	write(t, config.TokenFile, []byte("own-token"))
	if _, err := other.Authenticate(t.Context(), bearer(good)); err != nil {
		t.Errorf("after its own token was rotated: %v", err)
	}
	ca, _ := newCA(t, "other").pair(serverTemplate())
	write(t, config.CAFile, ca)
	_, err = other.Authenticate(t.Context(), bearer(jwt("other", time.Now().Add(time.Hour))))
	unavailable(t, err)
	s.Close()
	if _, err := chain.Authenticate(t.Context(), bearer(good)); err != nil {
		t.Errorf("what is known holds: %v", err)
	}

	for says, change := range map[string]func(*auth.KubernetesConfig){
		"want https://": func(c *auth.KubernetesConfig) { c.APIServer = "http://localhost" },
		"no audience":   func(c *auth.KubernetesConfig) { c.Audiences = nil },
		"token_file: ":  func(c *auth.KubernetesConfig) { c.TokenFile = "/nix" },
		"ca: ":          func(c *auth.KubernetesConfig) { c.CAFile = "/nix" },
	} {
		wrong := config
		change(&wrong)
		if _, err := auth.NewKubernetes(wrong); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
