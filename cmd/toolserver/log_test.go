// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/server"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestLogOfHostileCalls has callers who would write lines of the log (P-194) or
// see secrets in it (P-195): each line is a record, and has nothing of what
// commands wrote.
func TestLogOfHostileCalls(t *testing.T) {
	t.Parallel()
	const forged = "x\n{\"level\":\"info\",\"msg\":\"approved\"}\n"
	server := startServer(t, "--policy", writeFile(t, "p.yaml", "version: 1\nrules: [{name: all, action: allow, tools: [bash]}]\n"))
	client := server.client(t)
	for _, command := range []string{
		`printf 'x\n{"level":"info","msg":"approved"}\n'`,
		`echo AKIAIOSFODNN7EXAMPLE ghp_0123456789abcdefghijABCDEFGHIJ012345; exit 1`,
	} {
		input, err := json.Marshal(map[string]string{"command": command, "description": forged})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"bash", forged} {
			stream, err := client.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{Tool: tool, Purpose: forged, InputJson: input})
			for err == nil {
				_, err = stream.Recv()
			}
		}
	}
	if err := server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, line := range server.log.rest() {
		var record struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg == "approved" {
			t.Errorf("%s: %v", line, err)
		}
		if strings.Contains(line, "AKIA") || strings.Contains(line, "ghp_") {
			t.Errorf("a token is in the log: %s", line)
		}
		if record.Msg == "call" {
			calls++
		}
	}
	if calls != 4 {
		t.Errorf("%d calls are in the log, want 4", calls)
	}
	wait(t, server.cmd)
}

// TestLogIsJSON proves that a log which nobody reads on a terminal is JSON to its
// last line, whoever writes it: the server, the libraries and processes it uses,
// and the reason why it does not start.
func TestLogIsJSON(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, log []string, last string) {
		t.Helper()
		for _, line := range log {
			var record struct{ Level, Time, Msg string }
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level == "" || record.Time == "" || record.Msg == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
		if len(log) == 0 || !strings.Contains(log[len(log)-1], last) {
			t.Errorf("the last line does not say %q:\n%s", last, strings.Join(log, "\n"))
		}
	}

	t.Run("a server that served", func(t *testing.T) {
		t.Parallel()
		// gRPC tells much about itself when it is asked to, and of itself errors.
		cmd := exec.Command("toolserver", "serve", "--listen", "127.0.0.1:0", "--admin", "off")
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info", "GRPC_GO_LOG_VERBOSITY_LEVEL=99")
		server, err := start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		conn, err := net.Dial("tcp", server.address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\n\r\n")
		io.ReadAll(conn)
		conn.Close()
		lastEvent(t, execute(t, server.client(t), "sleep", `{"duration_ms":1}`))
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		server.log.rest()
		wait(t, cmd)
		check(t, strings.Split(strings.TrimSpace(server.log.String()), "\n"), `"stopped"`)
	})

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for name, test := range map[string]struct {
		args, env []string
		last      string
	}{
		"a flag that is none":           {[]string{"--listne", "x"}, nil, "unknown flag: --listne"},
		"an argument":                   {[]string{"now"}, nil, "now"},
		"an address for all":            {[]string{"--listen", "0.0.0.0:0"}, nil, "authentication is off"},
		"an address that is taken":      {[]string{"--listen", taken.Addr().String()}, nil, "address already in use"},
		"a configuration of two errors": {[]string{"--config", writeFile(t, "c.yaml", "colour: red\nlisten: [1]\n")}, nil, "colour"},
		"a sandbox that cannot be tried": {
			[]string{"--listen", "127.0.0.1:0", "--admin", "off"},
			[]string{"TOOLSERVER_SANDBOX_MODE=required", "TOOLSERVER_SANDBOX_HELPER=/bin/false"}, "could not be tried",
		},
		"a helper that is not there": {
			[]string{"--listen", "127.0.0.1:0", "--admin", "off"},
			[]string{"TOOLSERVER_SANDBOX_MODE=required", "TOOLSERVER_SANDBOX_HELPER=/nowhere"}, "nowhere",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("toolserver", append([]string{"serve"}, test.args...)...)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), test.env...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("it has served")
			}
			check(t, strings.Split(strings.TrimSpace(string(out)), "\n"), test.last)
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	err := withoutPanic(func() error { panic("what nobody thought of") })
	if cli.ExitCodeOf(err) != cli.ExitFailed || !strings.Contains(err.Error(), "what nobody thought of") || !strings.Contains(err.Error(), "log_test.go") {
		t.Errorf("a panic is %v, want an error that tells where", err)
	}
	if err := withoutPanic(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestLogLines has a process write lines, whole and not, long and empty.
func TestLogLines(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	written := make(chan struct{}, 10)
	file, err := server.LogLines(zap.New(core, zap.Hooks(func(zapcore.Entry) error { written <- struct{}{}; return nil })), "a helper failed")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 20<<10)
	cmd := exec.Command("printf", "%s", "one\n\n{\"level\":\"info\"}\n"+long+"\nthe end")
	cmd.Stderr = file
	cmd.Stdout = file
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	file.Close()
	var lines []string
	for i := range 6 { // the long one is two
		<-written
		lines = append(lines, fmt.Sprint(logs.All()[i].ContextMap()["line"]))
	}
	if want := []string{"one", "", `{"level":"info"}`, long[:16<<10], long[16<<10:], "the end"}; !slices.Equal(lines, want) {
		t.Errorf("the log has %q", lines)
	}
}
