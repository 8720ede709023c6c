// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolserver/toolserver/client"
	"github.com/toolserver/toolserver/internal/endpoint"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Inside is a server in this process, for commands that are given no address.
type Inside interface {
	// AddFlags adds the flags that configure it.
	AddFlags(flags *pflag.FlagSet)
	// Connect starts it, as its flags say. end hangs up and ends it.
	Connect(flags *pflag.FlagSet) (conn client.Conn, end func(), err error)
}

// A Target is the server a command talks to: the one at an address, or one in
// this process.
type Target struct {
	address, token, ca string
	cert, key          string
	tls, plaintext     bool
	inside             Inside
}

// AddFlags adds the flags that choose the target.
func (t *Target) AddFlags(cmd *cobra.Command, in Inside) {
	t.inside = in
	t.addFlags(cmd, "server to talk to: host:port or unix:/path; none: one in this process (env TOOLSERVER_ADDRESS)")
	in.AddFlags(cmd.Flags())
}

// addOutsideFlags adds the flags that choose the target of a command that needs a server
// that is running; see connectOutside.
func (t *Target) addOutsideFlags(cmd *cobra.Command) {
	t.addFlags(cmd, "server to talk to, which is needed: host:port or unix:/path (env TOOLSERVER_ADDRESS)")
}

func (t *Target) addFlags(cmd *cobra.Command, address string) {
	flags := cmd.Flags()
	flags.StringVar(&t.address, "address", "", address)
	flags.StringVar(&t.token, "token", "", "token to show to the server; others on this machine can see flags, so better set the env TOOLSERVER_TOKEN")
	flags.BoolVar(&t.tls, "tls", false, "encrypt the connection and check the server's certificate")
	flags.StringVar(&t.ca, "ca", "", "file with the certificates to trust, instead of the system's; implies --tls")
	flags.StringVar(&t.cert, "cert", "", "file with a certificate to show to the server, where it knows callers by theirs; implies --tls")
	flags.StringVar(&t.key, "key", "", "file with the key of --cert (default: the same file)")
	flags.BoolVar(&t.plaintext, "plaintext", false, "send the token even though the connection is not encrypted")
}

// Resolve returns the address, from the flag or the environment; empty means
// this process.
func (t *Target) Resolve() string {
	if t.address == "" {
		t.address = os.Getenv("TOOLSERVER_ADDRESS")
	}
	return t.address
}

// A Client is a connection to a server. Close it after use.
type Client struct {
	pb.ToolServiceClient
	pb.SessionServiceClient
	pb.ApprovalServiceClient
	pb.PolicyServiceClient
	pb.WorkspaceServiceClient
	pb.SourceServiceClient
	calls     *client.Client // the same, for calls that outlive a lost connection
	inProcess bool
	Close     func()
	flags     string // that other commands need to reach the same server
}

// reconnectFor is how long a lost connection is made anew: less than the grace that servers
// give by default.
const reconnectFor = 12 * time.Second

// NewClient returns a client of a server in this process. end hangs up and ends it.
func NewClient(conn client.Conn, end func()) *Client {
	return newClient(client.Over(conn, client.Options{Patience: reconnectFor, FailFast: true}), true, end)
}

func newClient(c *client.Client, inProcess bool, end func()) *Client {
	return &Client{c.Tools, c.Sessions, c.Approvals, c.Policy, c.Workspaces, pb.NewSourceServiceClient(c.Conn()), c, inProcess, end, ""}
}

// command spells a command of this program that talks to the same server.
func (c *Client) command(words string) string { return "'toolserver " + words + c.flags + "'" }

// flags spells what was given by flags and not by the environment. The token is left
// out: nobody should see it.
func (t *Target) flags() string {
	text := ""
	if t.address != os.Getenv("TOOLSERVER_ADDRESS") {
		text += " --address " + quoted(Visible(t.address))
	}
	if t.ca != "" {
		text += " --ca " + quoted(Visible(t.ca))
	} else if t.tls {
		text += " --tls"
	}
	if t.cert != "" {
		text += " --cert " + quoted(Visible(t.cert))
	}
	if t.key != "" {
		text += " --key " + quoted(Visible(t.key))
	}
	return text
}

// Connect returns a client of the target.
func (t *Target) Connect(cmd *cobra.Command) (*Client, error) {
	if t.Resolve() == "" {
		conn, end, err := t.inside.Connect(cmd.Flags())
		if err != nil {
			return nil, err
		}
		return NewClient(conn, end), nil
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
func (t *Target) connectOutside(cmd *cobra.Command) (*Client, error) {
	if t.Resolve() == "" {
		return nil, fmt.Errorf("%s needs a server that is running: give its address with --address or TOOLSERVER_ADDRESS%s", cmd.CommandPath(), misspelt("TOOLSERVER_ADDRESS"))
	}
	return t.dial()
}

func (t *Target) dial() (*Client, error) {
	if err := checkTarget(t.address); err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	options := client.Options{Token: t.secret(), Plaintext: true, Patience: reconnectFor, FailFast: true, Dial: t.wrapping()}
	if t.encrypted() {
		var err error
		if options.TLS, err = t.tlsConfig(); err != nil {
			return nil, err
		}
	} else if options.Token != "" && !endpoint.IsLocal(t.address) && !t.plaintext {
		return nil, fmt.Errorf("the token would travel to %s in clear text: use --tls, or --plaintext if that is as it should be", t.address)
	}
	conn, err := client.Connect(t.address, options)
	if err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	c := newClient(conn, false, func() { conn.Close() })
	c.flags = t.flags()
	return c, nil
}

func (t *Target) encrypted() bool { return t.tls || t.ca != "" || t.cert != "" }

func (t *Target) secret() string {
	if t.token != "" {
		return t.token
	}
	return os.Getenv("TOOLSERVER_TOKEN")
}

func (t *Target) tlsConfig() (*tls.Config, error) {
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
	if t.cert == "" && t.key != "" {
		return nil, errors.New("--key belongs to --cert: give both")
	}
	if t.cert != "" {
		certificate, err := tls.LoadX509KeyPair(t.cert, cmp.Or(t.key, t.cert))
		if err != nil {
			return nil, fmt.Errorf("--cert: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}
