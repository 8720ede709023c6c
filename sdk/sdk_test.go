// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdk_test runs the tests of the clients in other languages against a real
// server.
package sdk_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolserver/toolserver/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.Remove(m.Run()) }

// TestPython runs the tests in sdk/python/tests.
func TestPython(t *testing.T) {
	python, path := sdktest.Python(t)
	drive(t, exec.Command(python, "-m", "unittest", "discover", "-v", "-s", "python/tests"), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1")
}

// TestTypeScript checks the types of the client in TypeScript and runs its tests.
func TestTypeScript(t *testing.T) {
	directory := sdktest.TypeScript(t)
	drive(t, exec.Command("node", "--test-reporter=spec", directory+"/dist/client.test.js"))
}

// drive runs tests that ask on standard output for what befalls the server: cut, kill
// and start, and with later before it no answer is waited for.
func drive(t *testing.T, tests *exec.Cmd, environment ...string) {
	t.Helper()
	server := sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_CONFIG=testdata/tokens.yaml")
	wire := sdktest.NewWire(t, server.Address)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tests.Path, tests.Args[1:]...)
	cmd.Env = append(os.Environ(), append(environment,
		"SERVER="+server.Address, "WIRE="+wire.Address, "UNENDED="+sdktest.FakeUnended(t), "ENDLESS="+sdktest.FakeEndless(t))...)
	for _, c := range sdktest.Cases {
		cmd.Env = append(cmd.Env, c.Variable+"="+sdktest.Fake(t, c), c.Variable+"_BATCH="+sdktest.Fake(t, c))
	}
	var log strings.Builder
	cmd.Stderr = &log
	asked, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewScanner(asked)
	for printed.Scan() {
		what, ok := strings.CutPrefix(printed.Text(), "ask ")
		switch strings.TrimPrefix(what, "later ") {
		case "cut":
			wire.Cut()
		case "kill":
			server.Kill()
		case "start":
			server.Restart()
		default:
			ok = false
		}
		if ok {
			io.WriteString(answers, "done\n")
		} else {
			log.WriteString(printed.Text() + "\n")
		}
	}
	err = cmd.Wait()
	if err != nil || testing.Verbose() {
		t.Logf("%v\n%s", err, log.String())
	}
	if err != nil {
		t.Fail()
	}
}
