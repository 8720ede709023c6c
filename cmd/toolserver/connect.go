// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A target is the server a command talks to: the one at an address, or one in
// this process.
type target struct {
	address, token, ca string
	tls, plaintext     bool
}

// addFlags adds the flags that choose the target.
func (t *target) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.address, "address", "", "server to talk to: host:port or unix:/path; none: one in this process (env TOOLSERVER_ADDRESS)")
	flags.StringVar(&t.token, "token", "", "token to show to the server; others on this machine can see flags, so better set the env TOOLSERVER_TOKEN")
	flags.BoolVar(&t.tls, "tls", false, "encrypt the connection and check the server's certificate")
	flags.StringVar(&t.ca, "ca", "", "file with the certificates to trust, instead of the system's; implies --tls")
	flags.BoolVar(&t.plaintext, "plaintext", false, "send the token even though the connection is not encrypted")
	addConfigFlags(flags, "workspace", "policy")
	flags.Lookup("config").Usage = "configuration file of a server in this process (env TOOLSERVER_CONFIG)"
	flags.Lookup("workspace").Usage = "workspace of a server in this process (default: the current directory) (env TOOLSERVER_WORKSPACE)"
	flags.Lookup("policy").Usage = "policy file of a server in this process (default: the built-in policy) (env TOOLSERVER_POLICY)"
}

// resolve returns the address, from the flag or the environment; empty means
// this process.
func (t *target) resolve() string {
	if t.address == "" {
		t.address = os.Getenv("TOOLSERVER_ADDRESS")
	}
	return t.address
}

// A client is a connection to a server. Close it after use.
type client struct {
	pb.ToolServiceClient
	pb.SessionServiceClient
	pb.ApprovalServiceClient
	pb.PolicyServiceClient
	pb.WorkspaceServiceClient
	inProcess bool
	close     func()
	flags     string // that other commands need to reach the same server
}

func newClient(conn *grpc.ClientConn, inProcess bool, end func()) *client {
	return &client{
		pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewApprovalServiceClient(conn),
		pb.NewPolicyServiceClient(conn), pb.NewWorkspaceServiceClient(conn), inProcess, end, "",
	}
}

// command spells a command of this program that talks to the same server.
func (c *client) command(words string) string { return "'toolserver " + words + c.flags + "'" }

// quotedWhereNeeded is shellQuote for a word that mostly needs none.
func quotedWhereNeeded(word string) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("./:_-", r))
	}
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return shellQuote(word)
}

// flags spells what was given by flags and not by the environment. The token is left
// out: nobody should see it.
func (t *target) flags() string {
	text := ""
	if t.address != os.Getenv("TOOLSERVER_ADDRESS") {
		text += " --address " + quotedWhereNeeded(visible(t.address))
	}
	if t.ca != "" {
		text += " --ca " + quotedWhereNeeded(visible(t.ca))
	} else if t.tls {
		text += " --tls"
	}
	return text
}

// connect returns a client of the target.
func (t *target) connect(cmd *cobra.Command) (*client, error) {
	if t.resolve() == "" {
		c, err := loadConfig(cmd.Flags(), (*config).validateInside)
		if err != nil {
			return nil, err
		}
		return connectInside(c)
	}
	for _, name := range []string{"config", "workspace", "policy"} {
		if cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s is for a server in this process, --address for another one: give one of them", name)
		}
	}
	return t.dial()
}

// connectOutside is connect for commands that are about executions of a server
// that lives on.
func (t *target) connectOutside(cmd *cobra.Command) (*client, error) {
	if t.resolve() == "" {
		return nil, fmt.Errorf("%s needs a server that is running: give its address with --address or TOOLSERVER_ADDRESS%s", cmd.CommandPath(), misspelt("TOOLSERVER_ADDRESS"))
	}
	return t.connect(cmd)
}

// connectInside starts a server in this process that nobody else can reach.
func connectInside(c *config) (*client, error) { return connectSupposed(c, auth.Local.Name, nil) }

// connectSupposed is connectInside for a server that only judges calls of a
// principal, for a sandbox that need not be there; nil is the one that is.
func connectSupposed(c *config, principal string, offer *tools.Offer) (*client, error) {
	c.Authentication, c.TLS = authenticationConfig{}, tlsConfig{} // of no use here
	c.Secrets = slices.DeleteFunc(c.Secrets, func(s secretConfig) bool {
		_, err := s.value()
		return err != nil // what this user cannot read, its tools cannot show
	})
	logger, flush := newLogger(max(zapcore.Level(c.Log.Level), zapcore.WarnLevel))
	server, err := newServerWith(auth.None{}, principal, c, logger, prometheus.NewRegistry(), nil)
	if err != nil {
		flush()
		return nil, err
	}
	end := func() {
		shutDown(server, 0)
		flush()
	}
	server.Suppose(offer)
	conn, err := server.Connect(auth.Principal{Name: principal, OnBehalfOf: userName()})
	if err != nil {
		end()
		return nil, err
	}
	return newClient(conn, true, func() {
		conn.Close()
		end()
	}), nil
}

// userName returns who runs this program, for whom its server works.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// maxReceive is the largest message a client takes; the server decides what it
// sends.
const maxReceive = 256 << 20

func (t *target) dial() (*client, error) {
	if err := checkTarget(t.address); err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	security, err := t.security()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection that died silently is found while a call runs.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
	if secret := t.secret(); secret != "" {
		if !t.encrypted() && !isLocal(t.address) && !t.plaintext {
			return nil, fmt.Errorf("the token would travel to %s in clear text: use --tls, or --plaintext if that is as it should be", t.address)
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(secret)))
	}
	conn, err := grpc.NewClient(t.address, append(options, t.wrapping()...)...)
	if err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	c := newClient(conn, false, func() { conn.Close() })
	c.flags = t.flags()
	return c, nil
}

func (t *target) encrypted() bool { return t.tls || t.ca != "" }

func (t *target) secret() string {
	if t.token != "" {
		return t.token
	}
	return os.Getenv("TOOLSERVER_TOKEN")
}

func (t *target) security() (credentials.TransportCredentials, error) {
	if !t.encrypted() {
		return insecure.NewCredentials(), nil
	}
	config, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(config), nil
}

func (t *target) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("--ca: the file has no certificate")
		}
	}
	return config, nil
}

// bearer is a token that goes with every call.
type bearer string

// GetRequestMetadata returns the header with the token.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity returns false: dial has decided that already.
func (bearer) RequireTransportSecurity() bool { return false }
