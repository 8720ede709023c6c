// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// KubernetesConfig is a cluster whose service accounts are principals.
type KubernetesConfig struct {
	// APIServer is the URL of its API server.
	APIServer string

	// TokenFile has the token of this server's own service account, which may create
	// tokenreviews; CAFile the certificates to trust. Both are read again as they
	// change.
	TokenFile, CAFile string

	// Audiences are those that tokens are meant for; one is enough.
	Audiences []string

	Bindings *Bindings
}

// Kubernetes judges tokens of service accounts: it asks the API server, which knows
// also of those whose pod or account is gone.
type Kubernetes struct {
	config KubernetesConfig

	strangers *rate.Limiter // reviews of tokens that were never good
	asking    chan struct{} // has room for as many of them as are under way at once

	mu     sync.Mutex
	client *http.Client
	ca     []byte    // that client trusts
	silent time.Time // when it last did not answer
}

// NewKubernetes returns what judges tokens of a cluster, which need not be reached now.
func NewKubernetes(config KubernetesConfig) (*Kubernetes, error) {
	if err := CheckIssuer(config.APIServer); err != nil {
		return nil, errors.New("api_server: want https:// and a host")
	}
	if len(config.Audiences) == 0 {
		return nil, errors.New("no audience: tokens that are meant for others would be taken")
	}
	k := &Kubernetes{
		config: config, strangers: rate.NewLimiter(reviewRate, reviewBurst), asking: make(chan struct{}, reviewsAtOnce),
	}
	if _, err := readSmall(config.TokenFile); err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	_, err := k.caller()
	return k, err
}

// Close hangs up.
func (k *Kubernetes) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
}

// How long the answer of the API server is believed: a pod that is deleted can go on for
// so long.
const (
	reviewTrusted = time.Minute
	reviewRefused = 10 * time.Second
)

// How many tokens that nobody knows the API server is asked about, in a second, in a
// moment and at once: callers without a right must not use this server against it. Tokens
// that were good are not counted.
const (
	reviewRate    = 20
	reviewBurst   = 100
	reviewsAtOnce = 8
)

// stranger waits until the API server may be asked about a token that nobody knows. Call
// done after it.
func (k *Kubernetes) stranger(ctx context.Context) (done func(), err error) {
	if !k.strangers.Allow() {
		return nil, fmt.Errorf("%w: too many tokens that this server does not know are to be checked: try again", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	select {
	case k.asking <- struct{}{}:
		return func() { <-k.asking }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: too many tokens are being checked: try again", ErrUnavailable)
	}
}

// serviceAccount begins the name of every service account, and of nobody else.
const serviceAccount = "system:serviceaccount:"

// tokenReview is the part that is used here of TokenReview, authentication.k8s.io/v1.
type tokenReview struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Spec       tokenReviewSpec   `json:"spec"`
	Status     tokenReviewStatus `json:"status,omitzero"`
}

type tokenReviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences,omitempty"`
}

type tokenReviewStatus struct {
	Authenticated bool `json:"authenticated,omitempty"`
	User          struct {
		Username string   `json:"username,omitempty"`
		Groups   []string `json:"groups,omitempty"`
	} `json:"user,omitzero"`
	Audiences []string `json:"audiences,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// authenticate judges a token, and returns until when the answer holds.
func (k *Kubernetes) authenticate(ctx context.Context, says unverified, token string, before bool) (Principal, time.Time, error) {
	if !before {
		done, err := k.stranger(ctx)
		if err != nil {
			return Principal{}, time.Time{}, err
		}
		defer done()
	}
	review, err := k.review(ctx, token)
	switch {
	case err != nil && ctx.Err() != nil:
		return Principal{}, time.Time{}, context.Cause(ctx)
	case err != nil:
		return Principal{}, time.Time{}, fmt.Errorf("%w: %w: try again", ErrUnavailable, err)
	}
	refused := time.Now().Add(reviewRefused)
	status := &review.Status
	if !status.Authenticated {
		return Principal{}, refused, unauthenticated("the cluster does not know the token: it may have expired, be for another audience than %s, or its pod is gone",
			strings.Join(k.config.Audiences, " or "))
	}
	// A server that knows nothing of audiences has looked at none.
	if !slices.ContainsFunc(k.config.Audiences, func(ours string) bool { return slices.Contains(status.Audiences, ours) }) {
		return Principal{}, refused, unauthenticated("the token is for another audience: want %s", strings.Join(k.config.Audiences, " or "))
	}
	if !strings.HasPrefix(status.User.Username, serviceAccount) {
		return Principal{}, refused, unauthenticated("the token is of no service account")
	}
	principal, err := k.config.Bindings.principal(identity{name: status.User.Username, groups: status.User.Groups})
	until := time.Now().Add(reviewTrusted)
	if expires := time.Unix(int64(min(says.Expires, 1<<40)), 0); expires.Before(until) {
		until = expires
	}
	return principal, until, err
}

// review asks the API server about a token.
func (k *Kubernetes) review(ctx context.Context, token string) (*tokenReview, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := k.caller()
	if err != nil {
		return nil, errors.New("the CA of the cluster cannot be read")
	}
	if k.isSilent() { // or everybody who asks would wait, one after another
		return nil, errors.New("the API server of the cluster does not answer")
	}
	own, err := readSmall(k.config.TokenFile)
	if err != nil {
		return nil, errors.New("the server's own token for the cluster cannot be read")
	}
	body, err := json.Marshal(&tokenReview{
		APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview", Spec: tokenReviewSpec{Token: token, Audiences: k.config.Audiences},
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		strings.TrimSuffix(k.config.APIServer, "/")+"/apis/authentication.k8s.io/v1/tokenreviews", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(own)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		if !errors.Is(context.Cause(ctx), context.Canceled) { // by the caller
			k.mu.Lock()
			k.silent = time.Now()
			k.mu.Unlock()
		}
		return nil, errors.New("the API server of the cluster does not answer")
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, errors.New("the API server of the cluster does not answer")
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("the API server of the cluster answers %q: this server's service account needs the right to create tokenreviews, which the ClusterRole system:auth-delegator has", response.Status)
	default:
		return nil, fmt.Errorf("the API server of the cluster answers %q", response.Status)
	}
	review := new(tokenReview)
	if err := json.Unmarshal(text, review); err != nil || review.Kind != "TokenReview" {
		return nil, errors.New("the API server of the cluster answers with no TokenReview")
	}
	return review, nil
}

// isSilent reports whether the API server did not answer just now.
func (k *Kubernetes) isSilent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.silent.IsZero() && time.Since(k.silent) < retryAfter
}

// caller returns a client that trusts the CA as it is now.
func (k *Kubernetes) caller() (*http.Client, error) {
	var ca []byte
	if k.config.CAFile != "" {
		var err error
		if ca, err = readSmall(k.config.CAFile); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil && bytes.Equal(ca, k.ca) {
		return k.client, nil
	}
	transport, err := trusting(k.config.CAFile)
	if err != nil {
		return nil, err
	}
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
	k.ca = ca
	// A redirect would take the tokens elsewhere.
	k.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return k.client, nil
}

// readSmall reads a file that an operator gives.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("%s has more than %d bytes", path, maxAnswer)
	}
	return text, err
}
