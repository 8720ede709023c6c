// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// Who signed in has two halves of a credential. A cookie, which scripts cannot read, is the
// token, sealed; the page keeps the key to it, and sends it with each request in a header.
// Neither is of use alone: not the cookie, which browsers send along with requests of other
// sites, and to whatever else serves at another port of the host; nor the key, which a
// script could give away. The server keeps nothing, so that a restart signs nobody out, and
// the chain judges the token anew with every request.
const (
	keyHeader = "Toolserver-Console"
	lifetime  = 12 * time.Hour
	maxToken  = 2800 // bytes: a cookie has 4096 at most
	maxBody   = 32 << 10
)

// cookieName is another one for each port: cookies are those of a host.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "toolserver-console" + port
}

// samePage reports whether a request is one of our own page, as far as the browser tells.
func samePage(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from == "" || from == "same-origin"
}

// signIn takes a token, and gives the two halves for it.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	if !samePage(r) {
		refuse(w, http.StatusForbidden, "people sign in on the page of the console")
		return
	}
	var request struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&request); err != nil || request.Token == "" {
		refuse(w, http.StatusBadRequest, `want {"token": "…"} with the token of a principal`)
		return
	}
	h.welcome(w, r, request.Token)
}

// welcome gives the two halves for a token, if it is somebody's.
func (h *Handler) welcome(w http.ResponseWriter, r *http.Request, token string) {
	if len(token) > maxToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		refuse(w, http.StatusBadRequest, "a token has at most 2800 characters here, and no spaces: can it have fewer groups?")
		return
	}
	if _, err := h.config.Authenticator.Authenticate(r.Context(), auth.Credentials{Authorization: []string{"Bearer " + token}, TLS: r.TLS}); err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{"key": h.seal(w, r, "", []byte(token), lifetime)})
}

// statusOf tells why somebody cannot sign in.
func statusOf(err error) int {
	if errors.Is(err, auth.ErrUnavailable) {
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

// seal puts a text in a cookie, and returns the key to it.
func (h *Handler) seal(w http.ResponseWriter, r *http.Request, suffix string, text []byte, most time.Duration) (key string) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	until := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(most).Unix()))
	sealed := sealer(secret).Seal(nil, nil, append(until, text...), []byte(r.Host+suffix))
	h.setCookie(w, r, suffix, base64.RawURLEncoding.EncodeToString(sealed), int(most.Seconds()))
	return base64.RawURLEncoding.EncodeToString(secret)
}

// signOut takes the cookie back.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	if !samePage(r) {
		refuse(w, http.StatusForbidden, "people sign out on the page of the console")
		return
	}
	h.setCookie(w, r, "", "", -1)
	answer(w, http.StatusOK, map[string]string{})
}

func (h *Handler) setCookie(w http.ResponseWriter, r *http.Request, suffix, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r) + suffix, Value: value, Path: Path, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"), // a proxy may have taken the TLS off
	})
}

// forward passes a request of the page on, with the token of who signed in. Without one,
// the chain has the certificate of the connection, or nothing.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(keyHeader)
	if key == "" || !samePage(r) {
		refuse(w, http.StatusForbidden, "only the page of the console asks here: programs use /v1/ with their own credentials")
		return
	}
	inner := r.Clone(r.Context())
	inner.URL = &url.URL{Path: strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(Path, "/")), RawQuery: r.URL.RawQuery}
	for _, name := range []string{"Authorization", "Cookie", keyHeader} {
		inner.Header.Del(name)
	}
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		if token, ok := open(cookie.Value, key, r.Host); ok {
			inner.Header.Set("Authorization", "Bearer "+token)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	h.config.REST.ServeHTTP(w, inner)
}

// open returns the text in a cookie, if the key is that of it and its time is not over.
func open(cookie, key, host string) (text string, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	opener, err2 := base64.RawURLEncoding.DecodeString(key)
	if err != nil || err2 != nil || len(opener) != 32 {
		return "", false
	}
	opened, err := sealer(opener).Open(nil, nil, sealed, []byte(host))
	if err != nil || len(opened) < 8 || time.Now().Unix() >= int64(binary.BigEndian.Uint64(opened)) {
		return "", false
	}
	return string(opened[8:]), true
}

func sealer(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // a key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // a block of AES has 16 bytes
	}
	return aead
}

// refuse answers as the REST edge does.
func refuse(w http.ResponseWriter, code int, message string) {
	answer(w, code, map[string]any{"error": map[string]string{"message": message}})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body)
}
