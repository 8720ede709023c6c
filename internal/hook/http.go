// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
)

// Headers of what is posted. The signature is "v1=" and the hexadecimal HMAC-SHA256, by
// the key of the hook, of the delivery, a dot, the timestamp, a dot and the body.
const (
	DeliveryHeader  = "Toolserver-Delivery"  // another for each body that is posted
	TimestampHeader = "Toolserver-Timestamp" // seconds since 1970
	SignatureHeader = "Toolserver-Signature"
	HookHeader      = "Toolserver-Hook"
)

// newClient returns what endpoints are reached with: those that the operator has named,
// and nothing leads elsewhere.
func newClient(c Config) *http.Client {
	var dialer egress.Dialer
	for _, spec := range c {
		if u, err := url.Parse(spec.URL); err == nil && spec.URL != "" {
			if host, err := egress.Named(u); err == nil {
				dialer.Named = append(dialer.Named, host)
			}
		}
	}
	return &http.Client{
		Transport:     dialer.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Sign returns the signature of a body.
func Sign(secret []byte, delivery, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(delivery + "." + timestamp + "."))
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// post asks an endpoint.
func (h *Hooks) post(ctx context.Context, hook *Hook, body []byte) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	delivery, timestamp := rand.Text(), strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "toolserver")
	request.Header.Set(HookHeader, hook.Name)
	request.Header.Set(DeliveryHeader, delivery)
	request.Header.Set(TimestampHeader, timestamp)
	request.Header.Set(SignatureHeader, Sign(hook.secret, delivery, timestamp, body))
	response, err := h.options.Client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return Answer{}, hook.late(ctx, "")
		}
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which may carry a key
		}
		return Answer{}, &detailed{"its endpoint cannot be reached", err.Error()}
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return Answer{}, fmt.Errorf("its endpoint answered with status %d: want 2xx", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(hook.MaxOutput)+1))
	switch {
	case ctx.Err() != nil:
		return Answer{}, hook.late(ctx, "")
	case err != nil:
		return Answer{}, &detailed{"its endpoint broke off", err.Error()}
	case len(text) > int(hook.MaxOutput):
		return Answer{}, fmt.Errorf("it wrote more than the %s it may", hook.MaxOutput)
	}
	return parseAnswer(hook.Point, string(text))
}

// secret returns the key of an endpoint; nil for a command.
func (s *Spec) secret() ([]byte, error) {
	if s.URL == "" {
		return nil, nil
	}
	file, err := os.Open(s.SecretFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	switch text = bytes.TrimRight(text, "\r\n"); {
	case err != nil:
		return nil, err
	case len(text) < minSecret || len(text) > maxSecret:
		return nil, fmt.Errorf("%s has %d bytes: want %d to %d", s.SecretFile, len(text), minSecret, maxSecret)
	}
	return text, nil
}

const minSecret = 16

// hostOf returns the host of a URL.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Hostname()
	}
	return ""
}
