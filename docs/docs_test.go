// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documents against the code.
package docs_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/programtest"
)

const root = ".."

// TestSpecification proves that the tests named in the specification exist.
func TestSpecification(t *testing.T) {
	exists := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(source, -1) {
			exists[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, "docs/SPECIFICATION.md"), -1)
	if len(named) < 30 {
		t.Errorf("the specification names %d tests only", len(named))
	}
	for _, name := range named {
		if !exists[name[1]] {
			t.Errorf("%s does not exist", name[1])
		}
	}
}

// command is a line of the README, and what its output must have.
type command struct {
	line       string
	background bool
}

// TestReadme runs every command line of the README as printed, against a real
// server, with the real grpcurl; only the port is another.
func TestReadme(t *testing.T) {
	server, err := programtest.Build(t.TempDir(), "cmd/toolserver")
	if err != nil {
		t.Fatal(err)
	}
	address, overHTTP := serve(t, server)
	ports := strings.NewReplacer("localhost:8665", "localhost:"+portOf(t, address), "localhost:8667", "localhost:"+portOf(t, overHTTP))
	tools, err := filepath.Abs(filepath.Join(root, ".bin"))
	if err != nil {
		t.Fatal(err)
	}
	environment := append(os.Environ(), "PATH="+filepath.Dir(server)+":"+tools+":"+os.Getenv("PATH"))
	var outputs strings.Builder
	var waiting []*running
	for _, c := range commands(read(t, "README.md")) {
		line := ports.Replace(c.line)
		cmd := exec.Command("bash", "-c", line)
		cmd.Dir, cmd.Env = root, environment
		if c.background {
			waiting = append(waiting, begin(t, cmd))
			continue
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s\n%v\n%s", line, err, out)
		}
		outputs.Write(out)
	}
	for _, r := range waiting {
		outputs.WriteString(r.wait(t))
	}
	for _, want := range []string{
		"toolserver.v1.ToolService", "returns ( stream .toolserver.v1.ExecuteToolResponse )",
		`"read_file"`, `"progress"`, "OUTCOME_SUCCEEDED", "Waited 3s.", "OUTCOME_CANCELLED", "that is enough",
		"id: 3\ndata: {", "OUTCOME_NO_SUCH_TOOL", "Did you mean read_file?", "OUTCOME_INVALID_INPUT", "# toolserver", `{"answer": 42}`, "We deploy on Mondays", "# HTTP and JSON",
	} {
		if !strings.Contains(outputs.String(), want) {
			t.Errorf("no command of the README printed %q", want)
		}
	}
	if t.Failed() {
		t.Log(outputs.String())
	}
}

// commands returns the lines that begin with a dollar in the README's console
// blocks. A block after the comment "background" runs beside what follows.
func commands(readme string) []command {
	var list []command
	console, background := false, false
	for line := range strings.Lines(readme) {
		line = strings.TrimSpace(line)
		switch {
		case line == "<!-- background -->":
			background = true
		case line == "```console":
			console = true
		case line == "```":
			if console {
				background = false
			}
			console = false
		case console && strings.HasPrefix(line, "$ "):
			list = append(list, command{strings.TrimPrefix(line, "$ "), background})
		}
	}
	return list
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serve starts a server on ports of its own and returns its addresses, of gRPC and of HTTP.
func serve(t *testing.T, program string) (address, overHTTP string) {
	t.Helper()
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "off")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var entry struct{ Msg, Address, HTTP string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
			go func() {
				for lines.Scan() { // so that the server never waits for us
				}
			}()
			return entry.Address, entry.HTTP
		}
	}
	t.Fatal("the server does not serve")
	return "", ""
}

// running is a command that runs beside others.
type running struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	done   chan error
}

// begin starts a command and returns when it printed something.
func begin(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd, done: make(chan error, 1)}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	if _, err := reader.Peek(1); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := r.output.ReadFrom(reader)
		if err == nil {
			err = cmd.Wait()
		}
		r.done <- err
	}()
	return r
}

func (r *running) wait(t *testing.T) string {
	t.Helper()
	if err := <-r.done; err != nil {
		t.Errorf("%v: %v", r.cmd.Args, err)
	}
	return r.output.String()
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
