// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// SignInConfig is how people sign in at an issuer with a browser. Without a name they do not.
type SignInConfig struct {
	// Name is what the issuer is called where people choose it. The address that its
	// browsers come back to ends with it.
	Name string

	// ClientID and ClientSecret are those that the issuer knows this server by. One
	// without a secret is a public client.
	ClientID, ClientSecret string

	// Scopes are asked for beside openid.
	Scopes []string
}

var signInName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// check returns what is wrong with how people sign in.
func (c *SignInConfig) check(audiences []string) error {
	switch {
	case c.Name == "" && c.ClientID == "":
		return nil
	case !signInName.MatchString(c.Name):
		return fmt.Errorf("%.64q is no name to sign in with: want 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit", c.Name)
	case !slices.Contains(audiences, c.ClientID):
		return fmt.Errorf("people sign in with tokens for the client %.64q, which would be refused: want client_id among audiences", c.ClientID)
	}
	return nil
}

// A SignIn is what is kept of one that has begun until its browser comes back: by nobody
// but that browser, and sealed.
type SignIn struct {
	Name     string // of the issuer
	Redirect string // where its browser comes back to
	State    string
	Nonce    string
	Verifier string
}

// A SignInAnswer is what a browser brings back from an issuer, or from somebody who says so.
type SignInAnswer struct {
	State, Code, Issuer, Error, ErrorDescription string
}

// SignInName returns what the issuer is called where people sign in; empty: they do not.
func (i *Issuer) SignInName() string { return i.config.SignIn.Name }

// BeginSignIn returns where a browser goes to sign in, and what is needed when it comes back.
func (i *Issuer) BeginSignIn(ctx context.Context, redirect string) (address string, begun SignIn, err error) {
	if _, err := i.discover(ctx); err != nil {
		return "", begun, fmt.Errorf("%w: the issuer %s does not answer: try again", ErrUnavailable, i.config.URL)
	}
	client, _ := i.asClient(redirect)
	for _, endpoint := range []string{client.Endpoint.AuthURL, client.Endpoint.TokenURL} {
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "https" || u.Host == "" {
			return "", begun, fmt.Errorf("%w: the issuer %s tells no address with https where people sign in", ErrUnavailable, i.config.URL)
		}
	}
	begun = SignIn{
		Name: i.config.SignIn.Name, Redirect: redirect,
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), // 32 random bytes each
	}
	return client.AuthCodeURL(begun.State, oidc.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)), begun, nil
}

// FinishSignIn returns the token that the issuer gives for what a browser brought back, if
// it answers what has begun.
func (i *Issuer) FinishSignIn(ctx context.Context, begun SignIn, answer SignInAnswer) (token string, err error) {
	if _, err := i.discover(ctx); err != nil {
		return "", fmt.Errorf("%w: the issuer %s does not answer: try again", ErrUnavailable, i.config.URL)
	}
	client, tellsIssuer := i.asClient(begun.Redirect)
	switch {
	case subtle.ConstantTimeCompare([]byte(answer.State), []byte(begun.State)) == 0:
		return "", unauthenticated("this is not the sign-in that began here: sign in again")
	case answer.Issuer != i.config.URL && (answer.Issuer != "" || tellsIssuer):
		return "", unauthenticated("another issuer answered than the one that was asked: sign in again")
	case answer.Error != "":
		return "", unauthenticated("the issuer says %.64q %.200q", answer.Error, answer.ErrorDescription)
	case answer.Code == "":
		return "", unauthenticated("the issuer gave no code: sign in again")
	}
	// It is not asked again, nor led elsewhere: a code is good for one time.
	asker := &http.Client{Transport: i.fetch.base, Timeout: askTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	given, err := client.Exchange(oidc.ClientContext(ctx, asker), answer.Code, oauth2.VerifierOption(begun.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return "", unauthenticated("the issuer does not take its code: it says %.64q %.200q: sign in again", refused.ErrorCode, refused.ErrorDescription)
	}
	if err != nil {
		return "", fmt.Errorf("%w: the issuer %s gives no token: sign in again", ErrUnavailable, i.config.URL)
	}
	token, ok := given.Extra("id_token").(string)
	if !ok {
		return "", unauthenticated("the issuer gave no id_token: does its client have the scope openid?")
	}
	verified, err := i.verify(ctx, token)
	if err != nil {
		return "", err
	}
	var claims struct {
		Party string `json:"azp"`
	}
	if err := verified.Claims(&claims); err != nil {
		return "", unauthenticated("the claims of the token cannot be read")
	}
	id := i.config.SignIn.ClientID
	switch {
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(begun.Nonce)) == 0:
		return "", unauthenticated("the token is of another sign-in: sign in again")
	case !slices.Contains(verified.Audience, id) || claims.Party != "" && claims.Party != id:
		return "", unauthenticated("the token was issued to another client than %s", id)
	}
	return token, nil
}

// asClient is what asks the issuer for tokens, once it is discovered, and whether its answers say
// whose they are.
func (i *Issuer) asClient(redirect string) (client *oauth2.Config, tellsIssuer bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.config.SignIn
	client = &oauth2.Config{ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: i.signIn.endpoint, RedirectURL: redirect, Scopes: append([]string{oidc.ScopeOpenID}, c.Scopes...)}
	if c.ClientSecret == "" { // else the library would try another way with the same code
		client.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return client, i.signIn.tellsIssuer
}
