// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// People sign in at an issuer by the authorization code flow with PKCE. What is needed
// when the browser comes back is, like a token, sealed in a strict cookie whose key the tab
// has that began. The browser comes back by a link of another site, with which no strict
// cookie is sent: so that address decides nothing, and leads to our own page, which asks with
// both halves. Each issuer has an address of its own: the answer of one is not
// taken for that of another.
const (
	flowCookie = "-flow"
	flowTime   = 10 * time.Minute
	signedIn   = "signed-in/"
)

// issuer returns the one of a name where people sign in; nil where there is none.
func (h *Handler) issuer(name string) *auth.Issuer {
	for _, issuer := range h.config.Issuers {
		if name != "" && issuer.SignInName() == name {
			return issuer
		}
	}
	return nil
}

// ways tells where people sign in beside with tokens.
func (h *Handler) ways(w http.ResponseWriter, _ *http.Request) {
	names := []string{}
	for _, issuer := range h.config.Issuers {
		if name := issuer.SignInName(); name != "" {
			names = append(names, name)
		}
	}
	answer(w, http.StatusOK, map[string]any{"issuers": names})
}

// beginSignIn tells the page where its browser goes to sign in.
func (h *Handler) beginSignIn(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Issuer string `json:"issuer"`
	}
	origin := r.Header.Get("Origin") // the filter of sites knows that it is ours
	if !samePage(r) || origin == "" {
		refuse(w, http.StatusForbidden, "people sign in on the page of the console")
		return
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, `want {"issuer": "…"} with the name of one`)
		return
	}
	issuer := h.issuer(request.Issuer)
	if issuer == nil {
		refuse(w, http.StatusNotFound, "people do not sign in there: the page lists where they do")
		return
	}
	address, begun, err := issuer.BeginSignIn(r.Context(), origin+Path+signedIn+request.Issuer)
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	text, err := json.Marshal(begun)
	if err != nil {
		panic(err) // it has texts alone
	}
	key := h.seal(w, r, flowCookie, text, flowTime)
	answer(w, http.StatusOK, map[string]string{"address": address, "key": key})
}

// comeBack leads a browser from an issuer to our own page, with what it brings.
func (h *Handler) comeBack(w http.ResponseWriter, r *http.Request) {
	if len(r.URL.RawQuery) > maxBody {
		refuse(w, http.StatusBadRequest, "an issuer tells less")
		return
	}
	brought := url.Values{"name": {r.PathValue("name")}}
	for name, values := range r.URL.Query() {
		if name != "name" {
			brought[name] = values[:1]
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, Path+"#"+signedIn+"?"+brought.Encode(), http.StatusSeeOther)
}

// finishSignIn takes what a browser brought back, and gives the two halves for its token.
func (h *Handler) finishSignIn(w http.ResponseWriter, r *http.Request) {
	if !samePage(r) {
		refuse(w, http.StatusForbidden, "people sign in on the page of the console")
		return
	}
	var request struct {
		Name        string `json:"name"`
		State       string `json:"state"`
		Code        string `json:"code"`
		Issuer      string `json:"iss"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "want what the issuer told")
		return
	}
	var begun auth.SignIn
	cookie, err := r.Cookie(cookieName(r) + flowCookie)
	if err == nil {
		if text, ok := open(cookie.Value, r.Header.Get(keyHeader), r.Host+flowCookie); ok {
			err = json.Unmarshal([]byte(text), &begun)
		}
	}
	issuer := h.issuer(begun.Name)
	if err != nil || issuer == nil || begun.Name != request.Name {
		refuse(w, http.StatusForbidden, "no sign-in there began in this tab, or it took more than 10 minutes: sign in again")
		return
	}
	h.setCookie(w, r, flowCookie, "", -1) // whatever comes of it
	token, err := issuer.FinishSignIn(r.Context(), begun, auth.SignInAnswer{
		State: request.State, Code: request.Code, Issuer: request.Issuer, Error: request.Error, ErrorDescription: request.Description,
	})
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	h.welcome(w, r, token)
}
