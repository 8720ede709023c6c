// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-jose/go-jose/v4"
)

// issuer is one of OpenID Connect: it shows a page where people sign in, and gives a token for a
// code once, to who knows what the code was asked for with.
type issuer struct {
	*httptest.Server
	t      *testing.T
	name   string
	ca     string
	key    *ecdsa.PrivateKey
	silent bool // its answers do not say whose they are, as before RFC 9207

	mu       sync.Mutex
	redirect string                // which it knows
	codes    map[string]url.Values // what each was asked for with
	life     time.Duration         // of tokens
	change   func(claims map[string]any)
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, name: name, key: key, codes: make(map[string]url.Values), life: time.Hour, ca: filepath.Join(t.TempDir(), "ca")}
	paths := http.NewServeMux()
	paths.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"authorization_response_iss_parameter_supported": !i.silent, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	})
	paths.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	paths.HandleFunc("/authorize", i.authorize)
	paths.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewTLSServer(paths)
	t.Cleanup(i.Close)
	if err := os.WriteFile(i.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

var form = template.Must(template.New("").Parse(`<!doctype html><title>issuer</title><form method=post>
<input name=user autofocus>{{range $k, $v := .}}<input type=hidden name={{$k}} value={{index $v 0}}>{{end}}<button>Sign in</button></form>`))

// authorize shows a page where people sign in, and then leads them back with a code.
func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.Form.Get("client_id") != "console" || r.Form.Get("redirect_uri") != i.redirect || r.Form.Get("response_type") != "code" ||
		r.Form.Get("code_challenge_method") != "S256" || r.Form.Get("nonce") == "" || !strings.Contains(r.Form.Get("scope"), "openid") {
		http.Error(w, "no client of this issuer asks so: "+r.Form.Encode(), http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/html")
		form.Execute(w, r.Form)
		return
	}
	back := url.Values{"state": {r.Form.Get("state")}, "iss": {i.URL}}
	if i.silent {
		back.Del("iss")
	}
	if r.Form.Get("user") == "nobody" {
		back.Set("error", "access_denied")
		back.Set("error_description", markup)
	} else {
		code := rand.Text()
		i.codes[code] = r.Form
		back.Set("code", code)
	}
	http.Redirect(w, r, i.redirect+"?"+back.Encode(), http.StatusSeeOther)
}

// token gives a token for a code.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	i.mu.Lock()
	defer i.mu.Unlock()
	asked, ok := i.codes[r.Form.Get("code")]
	delete(i.codes, r.Form.Get("code"))
	w.Header().Set("Content-Type", "application/json")
	challenge := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	if !ok || r.Form.Get("grant_type") != "authorization_code" || r.Form.Get("client_id") != "console" || r.Form.Get("redirect_uri") != asked.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"the code is not good, or no longer"}`)
		return
	}
	claims := map[string]any{"iss": i.URL, "sub": asked.Get("user"), "aud": "console", "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(i.life).Unix()}
	if i.change != nil {
		i.change(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, nil)
	if err != nil {
		panic(err)
	}
	payload, _ := json.Marshal(claims)
	signed, err := signer.Sign(payload)
	if err != nil {
		panic(err)
	}
	text, _ := signed.CompactSerialize()
	json.NewEncoder(w).Encode(map[string]any{"id_token": text, "access_token": "x", "token_type": "Bearer", "expires_in": 60})
}

// set changes what the issuer does from now on.
func (i *issuer) set(change func(*issuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

// signIn signs a person in at an address of the issuer, without a browser, and returns what
// that would bring back.
func (i *issuer) signIn(address, user string) map[string]string {
	i.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		i.t.Fatal(err)
	}
	query := u.Query()
	query.Set("user", user)
	client := i.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.PostForm(i.URL+"/authorize", query)
	if err != nil {
		i.t.Fatal(err)
	}
	response.Body.Close()
	back, err := response.Location()
	if err != nil {
		i.t.Fatal(response.Status, err)
	}
	brought := map[string]string{"name": i.name}
	for name, values := range back.Query() {
		brought[name] = values[0]
	}
	return brought
}

// serveWith starts a server where people sign in at issuers.
func serveWith(t *testing.T, issuers ...*issuer) *site {
	t.Helper()
	text := principals + "  oidc:\n"
	for _, i := range issuers {
		text += fmt.Sprintf("  - {issuer: %q, audiences: [console], ca: %q, prefix: \"%s:\", sign_in: %[3]s, client_id: console}\n", i.URL, i.ca, i.name)
	}
	s := serve(t, text+"  roles: [agent, operator, approver]\n")
	for _, i := range issuers {
		i.set(func(i *issuer) { i.redirect = s.origin + "/console/signed-in/" + i.name })
	}
	return s
}

// TestIssuer: a person signs in at an issuer, comes back to the page that was wanted, and
// signs in again when the token is over; what the issuer refuses is told as text.
func TestIssuer(t *testing.T) {
	i := newIssuer(t, "corp")
	s := serveWith(t, i)
	b := browse(t, s.origin+"/console/#/status")
	enter := func(user string) {
		t.Helper()
		b.wait(`[...document.querySelectorAll("button")].some(b => b.textContent === "Sign in with corp")`)
		b.click("Sign in with corp")
		b.wait("document.title === 'issuer'")
		b.run(chromedp.Focus("input[name=user]"))
		b.press(user + "\r")
		b.wait("location.pathname === '/console/'")
	}
	enter("nobody")
	b.see(`access_denied`)
	b.see(`<script>window.owned=1`)
	b.calm()
	enter("otto")
	b.see("corp:otto")
	b.wait("document.querySelector('h1')?.textContent === 'Status'")
	var shown string
	b.eval("location.href + document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)", &shown)
	if strings.Contains(shown, "code") || strings.Contains(shown, "eyJ") || strings.Contains(shown, "flow") {
		t.Error("a script reads ", shown)
	}
	for _, c := range b.cookies() {
		if !c.HTTPOnly || c.SameSite != "Strict" || strings.Contains(c.Value, "eyJ") || strings.HasSuffix(c.Name, "-flow") {
			t.Errorf("there is the cookie %+v", c)
		}
	}
	b.run(chromedp.Reload())
	b.wait("document.querySelector('.link.open')")
	b.click("Sign out")
	i.set(func(i *issuer) { i.life = 3 * time.Second })
	enter("otto")
	b.see("corp:otto")
	b.see("the token expired at")
	i.set(func(i *issuer) { i.life = time.Hour })
	enter("otto")
	b.wait("document.querySelector('h1')?.textContent === 'Status'")
	b.calm()
}

// TestIssuerAttacks sends what those could who want to sign in as somebody else, or have
// somebody sign in as them.
func TestIssuerAttacks(t *testing.T) {
	good, evil := newIssuer(t, "corp"), newIssuer(t, "evil")
	good.silent = true // so that its answers can be mixed up with those of another
	s := serveWith(t, good, evil)
	begin := func(name string) (address, cookie, key string) {
		t.Helper()
		response := s.begin("POST", "/console/sign-in/begin", `{"issuer":"`+name+`"}`, "Origin", s.origin)
		defer response.Body.Close()
		var answer struct{ Address, Key string }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(response.Cookies()) != 1 {
			t.Fatal(response.Status, err)
		}
		return answer.Address, response.Cookies()[0].Name + "=" + response.Cookies()[0].Value, answer.Key
	}
	finish := func(brought map[string]string, headers ...string) (int, string) {
		t.Helper()
		body, err := json.Marshal(brought)
		if err != nil {
			t.Fatal(err)
		}
		return s.send("POST", "/console/sign-in/finish", string(body), headers...)
	}
	with := func(brought map[string]string, name, value string) map[string]string {
		brought[name] = value
		return brought
	}
	claim := func(name string, value any) func(*issuer) {
		return func(i *issuer) { i.change = func(claims map[string]any) { claims[name] = value } }
	}
	for _, c := range []struct {
		name   string
		at     *issuer
		change func(*issuer)
		bring  func(map[string]string) map[string]string
		code   int
		says   string
	}{
		{"what is right", good, nil, nil, 200, `"key"`},
		{"what is right, with the issuer", evil, nil, nil, 200, `"key"`},
		{"a forged state", good, nil, func(b map[string]string) map[string]string { return with(b, "state", strings.Repeat("x", 43)) }, 401, "not the sign-in that began here"},
		{"no state", good, nil, func(b map[string]string) map[string]string { return with(b, "state", "") }, 401, "not the sign-in that began here"},
		{"another code", good, nil, func(b map[string]string) map[string]string { return with(b, "code", "x") }, 401, "invalid_grant"},
		{"a code of another's sign-in", good, nil, func(b map[string]string) map[string]string {
			address, _, _ := begin("corp")
			return with(b, "code", good.signIn(address, "mallory")["code"])
		}, 401, "invalid_grant"},
		{"the answer of another issuer", good, nil, func(b map[string]string) map[string]string { return with(b, "iss", evil.URL) }, 401, "another issuer"},
		{"an answer without the issuer, of one that tells it", evil, nil, func(b map[string]string) map[string]string { return with(b, "iss", "") }, 401, "another issuer"},
		{"at the address of another issuer", good, nil, func(b map[string]string) map[string]string { return with(b, "name", "evil") }, 403, "no sign-in there"},
		{"a token of another sign-in", good, claim("nonce", "x"), nil, 401, "of another sign-in"},
		{"a token that another issuer names", evil, claim("iss", "https://other.example"), nil, 401, "token"},
		{"a token for another", good, claim("aud", "other"), nil, 401, "another client"},
		{"a token that another client got", good, claim("azp", "other"), nil, 401, "another client"},
		{"a token that is over", good, claim("exp", 1), nil, 401, "expired"},
		{"a token that is too large", good, claim("groups", strings.Repeat("x", 4000)), nil, 400, "fewer groups"},
	} {
		c.at.set(func(i *issuer) { i.change = nil })
		if c.change != nil {
			c.at.set(c.change)
		}
		address, cookie, key := begin(c.at.name)
		brought := c.at.signIn(address, "otto")
		if c.bring != nil {
			brought = c.bring(brought)
		}
		if code, text := finish(brought, "Cookie", cookie, "Toolserver-Console", key); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d: %.300s: want %d with %q", c.name, code, text, c.code, c.says)
		}
		c.at.set(func(i *issuer) { i.change = nil })
	}

	address, cookie, key := begin("corp")
	brought := good.signIn(address, "otto")
	_, otherCookie, otherKey := begin("corp")
	for name, headers := range map[string][]string{
		"no cookie": {"Toolserver-Console", key}, "no key": {"Cookie", cookie}, "the key to another": {"Cookie", cookie, "Toolserver-Console", otherKey},
		"another site": {"Cookie", cookie, "Toolserver-Console", key, "Origin", "https://evil.example"}, "a page of the same site": {"Cookie", cookie, "Toolserver-Console", key, "Sec-Fetch-Site", "same-site"},
	} {
		if code, text := finish(brought, headers...); code != 403 {
			t.Errorf("%s: %d: %.200s", name, code, text)
		}
	}
	if code, _ := finish(brought, "Cookie", otherCookie, "Toolserver-Console", otherKey); code != 401 { // the answer is that of another tab
		t.Errorf("what another tab began: %d", code)
	}
	if code, text := finish(brought, "Cookie", cookie, "Toolserver-Console", key); code != 200 {
		t.Fatalf("%d: %s", code, text)
	}
	if code, text := finish(brought, "Cookie", cookie, "Toolserver-Console", key); code != 401 || !strings.Contains(text, "no longer") {
		t.Errorf("the same once more: %d: %.200s", code, text)
	}
	if code, _ := s.send("GET", "/console/v1/server", "", "Cookie", strings.Replace(cookie, "-flow=", "=", 1), "Toolserver-Console", key); code != 401 {
		t.Errorf("a sign-in that has only begun is taken for a token: %d", code)
	}
	for body, headers := range map[string][]string{`{"issuer":"corp"}`: {"Origin", "https://evil.example"}, `{"issuer": "corp"}`: nil, `{"issuer":"none"}`: {"Origin", s.origin}, `{"issuer":""}`: {"Origin", s.origin}} {
		if code, text := s.send("POST", "/console/sign-in/begin", body, headers...); code != 403 && code != 404 {
			t.Errorf("%s begins with %v: %d: %.200s", body, headers, code, text)
		}
	}

	// Where a browser comes back to leads to our own page, whatever it brings.
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"corp?code=a&state=b", "corp?redirect_uri=https://evil.example&next=//evil.example", "https:%2F%2Fevil.example?code=a", "..%2F..%2F%2Fevil.example", "%0d%0aLocation:%20https:%2F%2Fevil.example?a=%0d%0a"} {
		response, err := stay.Get(s.origin + "/console/signed-in/" + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if to := response.Header.Get("Location"); response.StatusCode < 400 && !strings.HasPrefix(to, "/console/#signed-in/?") || strings.ContainsAny(to, "\r\n") {
			t.Errorf("%s leads to %q (%s)", path, to, response.Status)
		}
	}
}
