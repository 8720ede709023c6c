// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Auth is how calls prove who they are. Secrets are in files, which are read for every
// call: a new one counts at once.
type Auth struct {
	Type string `yaml:"type"` // bearer, basic, api_key or client_credentials; empty: none

	// TokenFile has the token of type bearer, or the key of type api_key, which goes into
	// the Header, Query parameter or Cookie of that name.
	TokenFile string `yaml:"token_file"`
	Header    string `yaml:"header"`
	Query     string `yaml:"query"`
	Cookie    string `yaml:"cookie"`

	// Username and PasswordFile are for type basic.
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`

	// TokenURL is where a token is asked for, of type client_credentials.
	TokenURL         string   `yaml:"token_url"`
	ClientID         string   `yaml:"client_id"`
	ClientSecretFile string   `yaml:"client_secret_file"`
	Scopes           []string `yaml:"scopes"`
}

// Files returns the files with secrets in them.
func (a *Auth) Files() []string {
	var files []string
	for _, name := range []string{a.TokenFile, a.PasswordFile, a.ClientSecretFile} {
		if name != "" {
			files = append(files, name)
		}
	}
	return files
}

func readSecret(name string) (string, error) {
	data, err := readFile(name, 64<<10)
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", fmt.Errorf("%s is empty", name)
	case !httpguts.ValidHeaderFieldValue(text):
		return "", fmt.Errorf("%s has characters in it that no header may have", name)
	}
	return text, nil
}

// An authorizer adds credentials to requests. It is safe for concurrent use.
type authorizer struct {
	auth   Auth
	client *http.Client

	turn  chan struct{} // has an entry while somebody uses token: waiting for it ends with its ctx
	token *oauth2.Token
}

func newAuthorizer(auth Auth, client *http.Client) *authorizer {
	return &authorizer{auth: auth, client: client, turn: make(chan struct{}, 1)}
}

// errCredentials is what a model is told; why is for the operator.
var errCredentials = errors.New("the credentials that the operator configured cannot be used: tell the user")

// add adds the credentials, and returns what must not come back in an answer. An error
// has no secret in it.
func (a *authorizer) add(request *http.Request) (secrets []string, err error) {
	bearer := func(token string) []string {
		request.Header.Set("Authorization", "Bearer "+token)
		return []string{token}
	}
	switch a.auth.Type {
	case "bearer", "api_key":
		token, err := readSecret(a.auth.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%w (%v)", errCredentials, err)
		}
		switch {
		case a.auth.Type == "bearer":
			bearer(token)
		case a.auth.Header != "":
			request.Header.Set(a.auth.Header, token)
		case a.auth.Cookie != "":
			request.AddCookie(&http.Cookie{Name: a.auth.Cookie, Value: token})
		default:
			query := url.QueryEscape(a.auth.Query) + "=" + url.QueryEscape(token)
			request.URL.RawQuery = strings.TrimPrefix(request.URL.RawQuery+"&"+query, "&")
			secrets = append(secrets, url.QueryEscape(token))
		}
		return append(secrets, token), nil
	case "basic":
		password, err := readSecret(a.auth.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("%w (%v)", errCredentials, err)
		}
		request.SetBasicAuth(a.auth.Username, password)
		return []string{password, base64.StdEncoding.EncodeToString([]byte(a.auth.Username + ":" + password))}, nil
	case "client_credentials":
		token, err := a.clientToken(request.Context())
		if err != nil {
			return nil, err
		}
		return bearer(token), nil
	}
	return nil, nil
}

// clientToken returns a token that is good for now, from its issuer if need be.
func (a *authorizer) clientToken(ctx context.Context) (string, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if a.token.Valid() {
		return a.token.AccessToken, nil
	}
	secret, err := readSecret(a.auth.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("%w (%v)", errCredentials, err)
	}
	config := clientcredentials.Config{ClientID: a.auth.ClientID, ClientSecret: secret, TokenURL: a.auth.TokenURL, Scopes: a.auth.Scopes}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, a.client))
	if err != nil {
		why := "the issuer of tokens cannot be reached"
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil {
			why = fmt.Sprintf("the issuer of tokens answered with status %d", refused.Response.StatusCode)
		}
		return "", fmt.Errorf("%w (%s)", errCredentials, why)
	}
	a.token = token
	return token.AccessToken, nil
}

// forget has the next call ask for another token, since this one was refused.
func (a *authorizer) forget() {
	a.turn <- struct{}{}
	a.token = nil
	<-a.turn
}

// hides reports whether a parameter is one that carries the credentials, which no model
// writes.
func (a *Auth) hides(in, name string) bool {
	switch in {
	case "header":
		return a.Header != "" && strings.EqualFold(a.Header, name)
	case "query":
		return a.Query != "" && a.Query == name
	case "cookie":
		return a.Cookie != "" && a.Cookie == name
	}
	return false
}
