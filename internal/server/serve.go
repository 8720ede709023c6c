// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/endpoint"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/trace"
	"github.com/toolserver/toolserver/internal/version"
)

// Serve serves until a signal comes, and then ends in peace. Where there are recordings, it
// answers calls from them and runs nothing.
func Serve(c *config.Config, recordings ...string) error {
	setGC()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	logger, flush := newLogger(zapcore.Level(c.Log.Level))
	defer flush()
	logOthers(logger)

	replays := len(recordings) > 0
	if replays {
		c.Sandbox.Mode = config.SandboxOff // nothing is to be confined
		c.Policy.File = ""
	}
	if err := c.CheckOpenNetwork(); err != nil {
		return err
	}
	listener, err := Listen(c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	var tracer oteltrace.TracerProvider // nil where nobody wants traces
	endTraces := func() {}
	if trace.Wanted() {
		provider, err := trace.Start(logger, version.Text())
		if err != nil {
			return fmt.Errorf("tracing: %w", err)
		}
		endTraces = sync.OnceFunc(func() { stopTracing(provider, logger) })
		defer endTraces()
		tracer = provider
	}
	metrics := newMetrics()
	var weak []string
	if c.Sandbox.Mode == config.SandboxRequired {
		s, err := untilSignal(signals, func(ctx context.Context) error {
			return selfTest(ctx, c, logger, metrics, func(failed []string) { weak = failed })
		})
		if s != nil {
			logger.Info("stopped before it served", zap.Stringer("signal", s))
			return nil
		}
		if err != nil {
			return err
		}
	}
	access, err := c.Access()
	if err != nil {
		return err
	}
	if replays {
		c.State.Engine = config.StateMemory
	}
	if err := c.FillIn(); err != nil {
		return err
	}
	var server *service.Server
	buried := make(chan struct{})
	if replays {
		server, err = newReplay(access, c, recordings, logger, metrics, tracer)
	} else {
		server, err = newWith(access, auth.Local.Name, c, openState(c, func() { close(buried) }, logger), logger, metrics, tracer)
	}
	if err != nil {
		return err
	}
	if c.Sandbox.Mode == config.SandboxRequired {
		server.SelfTested(weak)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go freeAtRest(ctx)
	if c.Policy.File != "" {
		file := newPolicyFile(c.Policy.File, server, metrics, logger)
		go file.watch(ctx, reloadInterval)
	}
	watchAccess(ctx, c, access, metrics, logger, server.Reloaded)
	admin, err := serveAdmin(c.Admin, &adminHandler{showMetrics(metrics, logger), server.Ready, c.Admin.Pprof}, logger)
	if err != nil {
		ShutDown(server, 0)
		return err
	}
	defer admin.Close() // after the shutdown: probes see that it drains
	overHTTP, err := serveHTTP(c, access, server, metrics, logger)
	if err != nil {
		ShutDown(server, 0)
		return err
	}
	defer overHTTP.Close()

	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if c.Sandbox.Mode == config.SandboxPreferred {
		// What fails is known soon enough: nobody waits for it.
		time.AfterFunc(selfTestDelay, func() { selfTest(ctx, c, logger, metrics, server.SelfTested) })
	}
	address := addressOf(listener)
	workspace := zap.String("workspace", c.Sessions.Workspace)
	if !c.Authentication.Off() {
		workspace = zap.Skip() // it is of callers without authentication
	}
	logger.Info("serving", zap.String("address", address), zap.String("admin", admin.address), zap.String("http", overHTTP.address),
		zap.String("version", version.Text()), workspace, zap.String("state", c.State.Place()), zap.Strings("replay", recordings),
		zap.Bool("tls", !c.TLS.Off()), zap.String("authentication", access.Authenticator.Name()), zap.Bool("tracing", tracer != nil))
	if (!endpoint.IsLocal(c.Listen) || !c.HTTP.Off() && !endpoint.IsLocal(c.HTTP.Listen)) && c.TLS.Off() {
		logger.Warn("tokens and results travel in clear text: set tls.certificate and tls.key, or encrypt in front of this server")
	}
	logger.Sync()
	if term.IsTerminal(int(os.Stderr.Fd())) {
		hint(os.Stderr, c, address)
	}

	select {
	case err = <-ended: // the listener broke
	case <-buried:
		err = errors.New("other replicas declared this one dead, for it did not reach the state in time: start it again, and it is a new one")
	case s := <-signals:
		logger.Info("shutting down", zap.Stringer("signal", s), zap.Duration("grace", c.ShutdownGrace))
		logger.Sync()
	}
	first := time.Now()
	go func() {
		s := <-signals
		for time.Since(first) < sameSignal {
			s = <-signals
		}
		logger.Warn("leaving at once: running calls are lost", zap.Stringer("signal", s))
		flush()
		os.Exit(1)
	}()
	overHTTP.Drain()
	ShutDown(server, c.ShutdownGrace)
	endTraces()
	logger.Info("stopped")
	return err
}

// sameSignal is how soon a second signal is the first one, sent to the process and to its group, as
// timeout(1) does.
const sameSignal = 100 * time.Millisecond

// untilSignal runs f until it ends, or a signal comes, which it returns. What f began
// ends then, unless another signal says not to wait.
func untilSignal(signals <-chan os.Signal, f func(context.Context) error) (os.Signal, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	select {
	case err := <-ended:
		return nil, err
	case s := <-signals:
		cancel()
		select {
		case <-ended:
		case <-signals:
		}
		return s, nil
	}
}

// ShutDown ends a server, with grace for what runs.
func ShutDown(server *service.Server, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	server.Shutdown(ctx)
}

// lastSpans is how long the end of a server waits for a collector: for one that is busy or
// just starts, not for one that is not there.
const lastSpans = 2 * time.Second

// stopTracing sends the last spans, and tells the log if it could not.
func stopTracing(provider *sdk.TracerProvider, logger *zap.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		logger.Warn("tracing: the last spans may be lost", zap.Error(err))
	}
}

// adminServer is the admin port, which may be off.
type adminServer struct {
	http    *http.Server
	address string // "off" when it is
}

// serveAdmin begins to serve the admin port.
func serveAdmin(c config.Admin, handler http.Handler, logger *zap.Logger) (*adminServer, error) {
	if c.Off() {
		return &adminServer{address: "off"}, nil
	}
	listener, err := Listen(c.Address)
	if err != nil {
		return nil, fmt.Errorf("admin port: %w", err)
	}
	server := newAdmin(handler, logger)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("admin port", zap.Error(err))
		}
	}()
	return &adminServer{http: server, address: addressOf(listener)}, nil
}

// Close ends the admin port, with what it serves.
func (a *adminServer) Close() {
	if a.http != nil {
		a.http.Close()
	}
}

// Listen listens on host:port or on a unix socket, which only this user can
// use. A socket file that nobody listens on any more is replaced.
func Listen(address string) (net.Listener, error) {
	path, ok := endpoint.SocketPath(address)
	if !ok {
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: somebody serves there already: end that, or choose another address (--listen, --admin, --http; port 0 is any that is free)", err)
		}
		return listener, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			return nil, fmt.Errorf("%s: somebody serves there already", address)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// The mask, not chmod: there is no moment at which others could connect.
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}

// addressOf returns what clients give as --address.
func addressOf(listener net.Listener) string {
	if addr := listener.Addr(); addr.Network() == "unix" {
		return "unix:" + addr.String()
	}
	return listener.Addr().String()
}

// hint shows a person what to try first.
func hint(to io.Writer, c *config.Config, address string) {
	tls, plain, header := "", " -plaintext", ""
	if !c.TLS.Off() {
		tls, plain = " --tls", ""
	}
	where := ", workspace " + c.Sessions.Workspace
	if !c.Authentication.Off() {
		where = "" // each session has its own
		tls += " --token $TOKEN"
		header = ` -H "authorization: Bearer $TOKEN"`
	}
	fmt.Fprintf(to, `
Serving on %s%s. Ctrl-C ends it. Try in another terminal:

  toolserver call --address %s%s sleep duration_ms=3000
  grpcurl%s%s -d '{"tool": "sleep", "input": {"duration_ms": 3000}}' %s toolserver.v1.ToolService/ExecuteTool

`, address, where, address, tls, plain, header, address)
}
