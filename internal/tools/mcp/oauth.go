// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/wholefile"
)

// signInTime is how long an operator has to sign in.
const signInTime = 15 * time.Minute

// signIn proves who this server is to one that asks for OAuth 2.1. Where a person has to
// sign in, that is an operator: the link is shown to them, and what came of it is brought by
// [Source.SignIn].
type signIn struct {
	source *Source

	mu      sync.Mutex
	waiting string // the link; empty: nobody waits
	answers chan *auth.AuthorizationResult
}

// link returns where an operator signs in; empty where nobody has to.
func (o *signIn) link() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting
}

// handler returns what gets tokens, by requests of client.
func (o *signIn) handler(ctx context.Context, client *http.Client) (auth.OAuthHandler, error) {
	c := &o.source.server.OAuth
	var credentials *oauthex.ClientCredentials
	if c.ClientID != "" {
		credentials = &oauthex.ClientCredentials{ClientID: c.ClientID}
	}
	if c.ClientSecretFile != "" {
		secret, err := source.Secret(c.ClientSecretFile)
		if err != nil {
			return nil, err
		}
		credentials.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: secret}
	}
	if c.Grant == grantCredentials {
		inner, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: credentials, HTTPClient: client})
		if err != nil || len(c.Scopes) == 0 {
			return inner, err
		}
		return &scoped{inner, c.Scopes}, nil
	}
	redirect := cmp.Or(c.RedirectURL, defaultRedirect)
	config := &auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: credentials, RedirectURL: redirect, Client: client, RequestRefreshToken: true,
		AuthorizationCodeFetcher: o.fetch,
		NewTokenSource: func(ctx context.Context, config *oauth2.Config, token *oauth2.Token) (oauth2.TokenSource, error) {
			kept := &keptToken{Config: config, Token: token}
			return o.keeping(ctx, kept), o.store(kept)
		},
	}
	if len(c.Scopes) > 0 {
		config.ScopeFilter = func([]string) []string { return c.Scopes }
	}
	if credentials == nil {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "toolserver", RedirectURIs: []string{redirect}, GrantTypes: []string{grantCode, "refresh_token"},
		}}
	}
	kept, err := o.load()
	if err != nil {
		return nil, err
	}
	if kept != nil {
		config.InitialTokenSource = o.keeping(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, client), kept)
	}
	return auth.NewAuthorizationCodeHandler(config)
}

// scoped asks for these scopes, whichever the server names.
type scoped struct {
	*extauth.ClientCredentialsHandler
	scopes []string
}

// Authorize gets a token, once a server has refused a request without one.
func (s *scoped) Authorize(ctx context.Context, request *http.Request, response *http.Response) error {
	challenge := "Bearer scope=" + strconv.Quote(strings.Join(s.scopes, " "))
	said, err := oauthex.ParseWWWAuthenticate(response.Header.Values("WWW-Authenticate"))
	for _, one := range said {
		if at := one.Params["resource_metadata"]; err == nil && at != "" {
			challenge += ", resource_metadata=" + strconv.Quote(at)
		}
	}
	response.Header.Set("WWW-Authenticate", challenge)
	return s.ClientCredentialsHandler.Authorize(ctx, request, response)
}

// checkLink returns why operators are not shown an address to sign in at. It has what the
// server says in it, and a person types a password there.
func checkLink(link string) error {
	u, err := url.Parse(link)
	if err != nil || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !egress.IsHere(u.Hostname())) {
		return fmt.Errorf("it wants an operator to sign in at %.100q: want https, or an address of this machine", link)
	}
	return nil
}

// fetch shows the link to operators, and waits until one has signed in.
func (o *signIn) fetch(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	if err := checkLink(args.URL); err != nil {
		return nil, err
	}
	o.source.mu.Lock()
	connected := o.source.current != nil
	o.source.mu.Unlock()
	if connected {
		return nil, errors.New("its token is no longer good: an operator has to sign in again")
	}
	answers := make(chan *auth.AuthorizationResult, 1)
	o.mu.Lock()
	o.waiting, o.answers = args.URL, answers
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.waiting, o.answers = "", nil
		o.mu.Unlock()
	}()
	o.source.options.Logger.Warn("an operator has to sign in for an MCP server: toolserver mcp sign-in", zap.String("source", o.source.server.Name))
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// SignIn takes the address that a browser was sent to after its user has signed in.
func (s *Source) SignIn(_ context.Context, redirected string) error {
	if s.oauth == nil {
		return fmt.Errorf("nobody signs in for %s: it has no oauth", s.server.Name)
	}
	u, err := url.Parse(redirected)
	if err != nil {
		return fmt.Errorf("the address cannot be read")
	}
	query := u.Query()
	if why := query.Get("error"); why != "" {
		return fmt.Errorf("signing in failed: %s %s", output.Short(oneLine(why), 100), output.Short(oneLine(query.Get("error_description")), 300))
	}
	if query.Get("code") == "" || query.Get("state") == "" {
		return errors.New("the address has no code and state in it: want the one that the browser was sent to in the end")
	}
	s.oauth.mu.Lock()
	defer s.oauth.mu.Unlock()
	if s.oauth.answers == nil {
		return fmt.Errorf("nobody waits for a sign-in for %s", s.server.Name)
	}
	select {
	case s.oauth.answers <- &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}:
		return nil
	default:
		return fmt.Errorf("somebody has signed in for %s already", s.server.Name)
	}
}

// A keptToken is a token, and what renews it.
type keptToken struct {
	URL    string // of the server that it is for
	Config *oauth2.Config
	Token  *oauth2.Token
}

// keeping returns a source of tokens that keeps each new one.
func (o *signIn) keeping(ctx context.Context, kept *keptToken) oauth2.TokenSource {
	return &keepingSource{o: o, kept: kept, inner: kept.Config.TokenSource(ctx, kept.Token)}
}

type keepingSource struct {
	o     *signIn
	inner oauth2.TokenSource

	mu   sync.Mutex
	kept *keptToken
}

func (k *keepingSource) Token() (*oauth2.Token, error) {
	token, err := k.inner.Token()
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, refused := errors.AsType[*oauth2.RetrieveError](err); refused {
		os.Remove(k.o.file()) // the next connection asks an operator
	}
	if err != nil {
		return nil, err
	}
	if token.AccessToken != k.kept.Token.AccessToken {
		k.kept = &keptToken{Config: k.kept.Config, Token: token}
		if err := k.o.store(k.kept); err != nil {
			k.o.source.options.Logger.Warn("a token cannot be kept: somebody has to sign in again when this server was restarted",
				zap.String("source", k.o.source.server.Name), zap.Error(err))
		}
	}
	return token, nil
}

func (o *signIn) file() string {
	return filepath.Join(o.source.options.Dir, "tokens", o.source.server.Name)
}

// sealer returns what tokens are encrypted with. The key is made when it is first needed.
func (o *signIn) sealer() (cipher.AEAD, error) {
	file := filepath.Join(o.source.options.Dir, "key")
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		rand.Read(key)
		if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			var made *os.File
			if made, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_, err = made.Write(key)
				err = errors.Join(err, made.Sync(), made.Close())
			} else if errors.Is(err, fs.ErrExist) { // another source was first
				key, err = os.ReadFile(file)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("%s is no key: %w", file, err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// store keeps a token, encrypted.
func (o *signIn) store(kept *keptToken) error {
	kept.URL = o.source.server.URL
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	sealer, err := o.sealer()
	if err != nil {
		return err
	}
	return wholefile.Replace(o.file(), sealer.Seal(nil, nil, text, []byte(o.source.server.Name)))
}

// load returns the token that was kept; nil where none was, or it is for another address.
func (o *signIn) load() (*keptToken, error) {
	sealed, err := os.ReadFile(o.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sealer, err := o.sealer()
	if err != nil {
		return nil, err
	}
	var kept keptToken
	text, err := sealer.Open(nil, nil, sealed, []byte(o.source.server.Name))
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil || kept.Token == nil || kept.Config == nil || kept.URL != o.source.server.URL {
		o.source.options.Logger.Warn("a token that was kept is of no use: somebody has to sign in", zap.String("source", o.source.server.Name))
		return nil, nil
	}
	return &kept, nil
}
