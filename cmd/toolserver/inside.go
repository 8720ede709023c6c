// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/toolserver/toolserver/internal/tools"
)

// ownProcess starts servers in this process, which nobody else can reach.
type ownProcess struct{}

// addFlags adds the flags that configure the server.
func (ownProcess) addFlags(flags *pflag.FlagSet) {
	addConfigFlags(flags, "workspace", "policy")
	flags.Lookup("config").Usage = "configuration file of a server in this process (env TOOLSERVER_CONFIG)"
	flags.Lookup("workspace").Usage = "workspace of a server in this process (default: the current directory) (env TOOLSERVER_WORKSPACE)"
	flags.Lookup("policy").Usage = "policy file of a server in this process (default: the built-in policy) (env TOOLSERVER_POLICY)"
}

// connect starts the server and returns a connection to it, and what ends both.
func (ownProcess) connect(flags *pflag.FlagSet) (conn *grpc.ClientConn, end func(), err error) {
	c, err := loadConfig(flags, (*config).validateInside)
	if err != nil {
		return nil, nil, err
	}
	return connectSupposed(c, nil)
}

// connectSupposed connects to a server in this process that only judges calls, for
// a sandbox that need not be there; nil is the one that is.
func connectSupposed(c *config, offer *tools.Offer) (conn *grpc.ClientConn, end func(), err error) {
	c.Authentication, c.TLS = authenticationConfig{}, tlsConfig{} // of no use here
	c.Secrets = slices.DeleteFunc(c.Secrets, func(s secretConfig) bool {
		_, err := s.value()
		return err != nil // what this user cannot read, its tools cannot show
	})
	logger, flush := newLogger(max(zapcore.Level(c.Log.Level), zapcore.WarnLevel))
	server, err := newServer(c, logger, prometheus.NewRegistry(), nil)
	if err != nil {
		return nil, nil, err
	}
	server.Suppose(offer)
	conn, err = server.Connect()
	if err != nil {
		return nil, nil, err
	}
	return conn, func() {
		conn.Close()
		shutDown(server, 0)
		flush()
	}, nil
}
