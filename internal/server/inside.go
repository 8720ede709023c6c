// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/tools"
)

// Inside starts servers in this process, which nobody else can reach.
type Inside struct{}

// AddFlags adds the flags that configure the server.
func (Inside) AddFlags(flags *pflag.FlagSet) {
	config.AddFlags(flags, "workspace", "policy")
	flags.Lookup("config").Usage = "configuration file of a server in this process (env TOOLSERVER_CONFIG)"
	flags.Lookup("workspace").Usage = "workspace of a server in this process (default: the current directory) (env TOOLSERVER_WORKSPACE)"
	flags.Lookup("policy").Usage = "policy file of a server in this process (default: the built-in policy) (env TOOLSERVER_POLICY)"
}

// Connect starts the server and returns a connection to it, and what ends both.
func (Inside) Connect(flags *pflag.FlagSet) (conn service.Conn, end func(), err error) {
	c, err := config.Load(flags, (*config.Config).ValidateInside)
	if err != nil {
		return nil, nil, err
	}
	setGC()
	return ConnectSupposed(c, auth.Local.Name, nil)
}

// ConnectSupposed connects a principal to a server in this process that only judges
// calls, for a sandbox that need not be there; nil is the one that is.
func ConnectSupposed(c *config.Config, principal string, offer *tools.Offer) (conn service.Conn, end func(), err error) {
	c.Authentication, c.TLS = config.Authentication{}, config.TLS{} // of no use here
	c.StopFile = ""                                                 // of the server that serves
	c.Secrets = slices.DeleteFunc(c.Secrets, func(s config.Secret) bool {
		_, err := s.Value()
		return err != nil // what this user cannot read, its tools cannot show
	})
	if offer != nil {
		c.Hooks = nil // nothing runs here, and their keys may be another user's
		c.MCP = nil
	}
	logger, flush := newLogger(max(zapcore.Level(c.Log.Level), zapcore.WarnLevel))
	server, err := newWith(&config.Access{Authenticator: auth.None{}}, principal, c, nil, logger, prometheus.NewRegistry(), nil)
	if err != nil {
		flush()
		return nil, nil, err
	}
	stop := func() {
		ShutDown(server, 0)
		flush()
	}
	server.Suppose(offer)
	if len(c.MCP) > 0 {
		// Who calls a tool once wants those of servers, too; one that is slow is left out.
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		server.SettleSources(ctx)
		cancel()
	}
	conn, err = server.Connect(auth.Principal{Name: principal, OnBehalfOf: userName()})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return conn, func() {
		conn.Close()
		stop()
	}, nil
}

// settleTime is how long a command that needs a server in this process waits for others.
const settleTime = 15 * time.Second

// userName returns who runs this program, for whom its server works.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
