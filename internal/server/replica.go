// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/endpoint"
	"github.com/toolserver/toolserver/internal/replica"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/version"
)

// join makes this server one of the replicas that have the same state.
func (s *stored) join(ctx context.Context, c *config.Config, who identity, buried func(), logger *zap.Logger) error {
	listener, err := net.Listen("tcp", replicaListen(c))
	if err != nil {
		return fmt.Errorf("replica.listen: %w", err)
	}
	address, err := advertised(c.Replica.Advertise, listener.Addr().(*net.TCPAddr))
	if err == nil {
		s.place, err = placeOf(c.Sessions.WorkspaceRoot, who.Installation)
	}
	var credential *replica.Credential
	if err == nil {
		credential, err = replica.NewCredential(who.Run)
	}
	var joined *replica.Replica
	if err == nil {
		joined, err = replica.Join(ctx, replica.Config{
			Engine: s.engine, Logger: logger, Run: who.Run, Address: address, Version: version.Text(), Place: s.place, Key: credential.Key, Lease: c.Replica.Lease,
			Buried: buried,
			Fenced: func() {
				if server := s.fence.Load(); server != nil {
					server.Fence()
				}
			},
		})
	}
	if err != nil {
		listener.Close()
		return fmt.Errorf("replica: %w", err)
	}
	s.replication = &service.Replication{Replica: joined, Credential: credential, Listener: listener}
	logger.Info("this server is a replica", zap.Uint64("replica", who.Run), zap.String("address", address))
	return nil
}

// replicaListen is where this server listens for other replicas.
func replicaListen(c *config.Config) string {
	if c.Replica.Listen != "" {
		return c.Replica.Listen
	}
	host := "127.0.0.1"
	if _, isSocket := endpoint.SocketPath(c.Listen); !isSocket {
		if h, _, err := net.SplitHostPort(c.Listen); err == nil {
			host = h
		}
	}
	return net.JoinHostPort(host, "0")
}

// advertised is how others reach what listens at an address.
func advertised(wanted string, at *net.TCPAddr) (string, error) {
	if wanted != "" {
		host, port, err := net.SplitHostPort(wanted)
		if err == nil && port == "0" {
			return net.JoinHostPort(host, fmt.Sprint(at.Port)), nil
		}
		return wanted, err
	}
	if !at.IP.IsUnspecified() {
		return at.String(), nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return net.JoinHostPort(network.IP.String(), fmt.Sprint(at.Port)), nil
		}
	}
	return "", errors.New("this machine has no address that others could reach: set replica.advertise")
}

// placeOf returns what names the directory of workspaces: a text in a file there. Who reads
// the same has the same directory.
func placeOf(root, installation string) (string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	name := filepath.Join(root, "place-"+installation)
	made, err := os.CreateTemp(root, ".place-")
	if err != nil {
		return "", err
	}
	defer os.Remove(made.Name())
	_, err = made.WriteString(strings.ToLower(rand.Text()))
	if err = errors.Join(err, made.Close()); err != nil {
		return "", err
	}
	if err := os.Link(made.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) { // the first one is the one
		return "", err
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// replicas is what sessions know of other replicas; nil without any.
func (s *stored) replicas(c *config.Config) *session.Replicas {
	if s.replication == nil {
		return nil
	}
	return &session.Replicas{Owners: s.replication, Place: s.place, Shared: c.Replica.SharedWorkspaces}
}

// leaver leaves the other replicas when it is closed.
type leaver struct{ *service.Replication }

func (l leaver) Close() error {
	l.Leave()
	return l.Listener.Close()
}
