// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// binaries are the programs under test, and where they run.
type binaries struct {
	dir     string // of everything below; also where the servers run
	subject string // toolserver with the tools of the harness
	release string // toolserver as it is shipped
	bare    string

	// answers is what the subject answered once; the bare server says the same.
	answers string
}

// build builds the servers into dir: toolserver as the Makefile does, and the
// bare server as anybody does who gives no thought to it. For a short run, toolserver is
// built of the packages that build/test compiled already.
func build(ctx context.Context, dir string, short bool) (*binaries, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module: %w", err)
	}
	b := &binaries{
		dir:     dir,
		subject: filepath.Join(dir, "toolserver-bench"),
		release: filepath.Join(dir, "toolserver"),
		bare:    filepath.Join(dir, "bare"),
	}
	build := func(arguments ...string) error {
		command := exec.CommandContext(ctx, "go", append([]string{"build"}, arguments...)...)
		command.Dir = string(bytes.TrimSpace(root))
		command.Env = append(os.Environ(), "CGO_ENABLED=0") // for all alike: libc has memory of its own
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", command, err, out)
		}
		return nil
	}
	flags, tags := []string{"-ldflags", "-s -w", "-trimpath", "-gcflags=all=-dwarf=false"}, "grpcnotrace,embedded"
	if short {
		flags, tags = flags[:2], "embedded"
	}
	release := func(tags, program, name string) error {
		return build(slices.Concat(flags, []string{"-tags", tags, "-o", program, "./cmd/" + name})...)
	}
	// A program is read from the disk, as one that was installed some time ago. Linux keeps
	// what was just written in huge pages, and maps them whole: 27 MiB more of idle RSS.
	forget := func(program string) error {
		out, err := exec.CommandContext(ctx, "dd", "of="+program, "oflag=nocache", "conv=notrunc,fdatasync", "count=0").CombinedOutput()
		if err != nil {
			return fmt.Errorf("have %s read from the disk: %w\n%s", program, err, out)
		}
		return nil
	}
	err = errors.Join(
		release("", "internal/server/toolserver-exec", "toolserver-exec"),
		release(tags+",bench", b.subject, "toolserver"),
		release(tags, b.release, "toolserver"),
		build("-o", b.bare, "./bench/bare"))
	if err != nil {
		return nil, err
	}
	return b, errors.Join(forget(b.subject), forget(b.release), forget(b.bare))
}

// A server is a running process and a stock client of it. Stop it after use.
type server struct {
	name    string
	process *exec.Cmd
	log     string // the file it logs to
	admin   string // where it answers operators, if it does
	conn    *grpc.ClientConn
	client  pb.ToolServiceClient
}

func (b *binaries) startSubject(ctx context.Context) (*server, error) {
	return b.start(ctx, b.toolserver(b.subject, anyPort))
}

func (b *binaries) startBare(ctx context.Context) (*server, error) {
	return b.start(ctx, b.yardstick(anyPort, "-answers", b.answers))
}

const anyPort = "127.0.0.1:0"

// toolserver returns the command that serves at an address.
func (b *binaries) toolserver(binary, address string) *exec.Cmd {
	return b.command(binary, "serve", "--listen", address, "--admin", "off")
}

// yardstick returns the command that serves at an address, without doing more
// than gRPC does by itself.
func (b *binaries) yardstick(address string, arguments ...string) *exec.Cmd {
	return b.command(b.bare, append([]string{"-listen", address}, arguments...)...)
}

// command returns a command with little in its environment: neither settings
// of the Go runtime nor of the server itself may differ from the defaults.
func (b *binaries) command(binary string, arguments ...string) *exec.Cmd {
	command := exec.Command(binary, arguments...)
	command.Dir = b.dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "TMPDIR=" + b.dir}
	dieWithParent(command)
	return command
}

// start starts a server and connects to it. The server logs to a file, as it
// would in production: a pipe would wake this process at every line.
func (b *binaries) start(ctx context.Context, command *exec.Cmd) (*server, error) {
	log, err := os.CreateTemp(b.dir, filepath.Base(command.Path)+"-*.log")
	if err != nil {
		return nil, err
	}
	log.Close()
	// Appending lets emptyLog cut the file under the server's feet.
	out, err := os.OpenFile(log.Name(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	command.Stderr = out
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &server{name: filepath.Base(command.Path), process: command, log: log.Name()}
	address, err := s.waitForAddress(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	if s.conn, err = dial(address); err != nil {
		s.stop()
		return nil, err
	}
	s.client = pb.NewToolServiceClient(s.conn)
	return s, nil
}

// dial connects a client as anybody would: with no options but that there is
// no TLS.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// waitForAddress waits until the server logs where it serves.
func (s *server) waitForAddress(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no line says where it serves"))
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(s.log)
		if err != nil {
			return "", err
		}
		for line := range bytes.Lines(text) {
			var entry struct{ Msg, Address, Admin string }
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
				s.admin = entry.Admin
				return entry.Address, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("start %s: %w; its log:\n%s", s.name, context.Cause(ctx), text)
		}
	}
}

// emptyLog keeps the log of a server that writes a line about every call from
// filling the disk. Call it between measurements.
func (s *server) emptyLog() error { return os.Truncate(s.log, 0) }

func (s *server) pid() int { return s.process.Process.Pid }

// stop ends the process at once: nothing in it is worth a farewell.
func (s *server) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.process.Process.Kill() // fails for a process that ended by itself
	s.process.Wait()
}

// trio is what most figures need: the subject, and the yardstick twice.
type trio struct{ subject, bare, control *server }

func (b *binaries) startTrio(ctx context.Context) (*trio, error) {
	t := new(trio)
	var errs [3]error
	t.subject, errs[0] = b.startSubject(ctx)
	t.bare, errs[1] = b.startBare(ctx)
	t.control, errs[2] = b.startBare(ctx)
	if err := errors.Join(errs[:]...); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (t *trio) stop() {
	for _, s := range []*server{t.subject, t.bare, t.control} {
		if s != nil {
			s.stop()
		}
	}
}
