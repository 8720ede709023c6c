// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/bench/work"
)

// mcpRead is the tool of the MCP file system server that reads a file.
const mcpRead = "read_text_file"

// An mcpClient is a client of an MCP server, which it has started.
type mcpClient interface {
	// readText reads a file. It may be called many times at once.
	readText(ctx context.Context, path string) (string, error)

	// wait returns when the server has ended.
	wait() error
}

// A filesystem is a running MCP file system server and its client.
type filesystem struct {
	*server
	mcpClient
	path string // of the file
}

func (f *filesystem) stop() {
	f.process.Process.Kill()
	f.wait()
}

// filesystems are two of them: one to compare with, and one to see how much the
// machine disturbs.
type filesystems struct{ first, second *filesystem }

func (f *filesystems) stop() {
	for _, one := range []*filesystem{f.first, f.second} {
		if one != nil {
			one.stop()
		}
	}
}

// filesystemCommand returns how the server is started, or errMissing where it is
// not installed.
func (h *harness) filesystemCommand(ctx context.Context) (func() *exec.Cmd, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, err
	}
	script := filepath.Join(strings.TrimSpace(string(module)), ".bin/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
	node, noNode := exec.LookPath("node")
	if _, err := os.Stat(script); err != nil || noNode != nil {
		return nil, fmt.Errorf("%w: make ripgrep installs it where there is npm", errMissing)
	}
	return func() *exec.Cmd { return h.command(node, script, h.dir) }, nil
}

// startFilesystems starts both, each with a client of its own.
func (h *harness) startFilesystems(ctx context.Context, command func() *exec.Cmd, connect func(context.Context, *exec.Cmd) (mcpClient, error)) (*filesystems, error) {
	f := new(filesystems)
	for _, one := range []**filesystem{&f.first, &f.second} {
		log, err := os.CreateTemp(h.dir, "filesystem-*.log")
		if err != nil {
			return f, err
		}
		defer log.Close()
		c := command()
		c.Stderr = log
		client, err := connect(ctx, c)
		if err != nil {
			return f, err
		}
		*one = &filesystem{
			server:    &server{name: "server-filesystem", process: c, log: log.Name()},
			mcpClient: client, path: filepath.Join(h.dir, work.FileName),
		}
	}
	return f, nil
}

// An sdkClient is the client that agent platforms have, of the official SDK.
type sdkClient struct{ *mcp.ClientSession }

// connectSDK starts a server.
func connectSDK(ctx context.Context, command *exec.Cmd) (mcpClient, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return nil, err
	}
	return sdkClient{session}, nil
}

func (c sdkClient) readText(ctx context.Context, path string) (string, error) {
	result, err := c.CallTool(ctx, &mcp.CallToolParams{Name: mcpRead, Arguments: map[string]string{"path": path}})
	if err != nil {
		return "", err
	}
	if len(result.Content) == 1 && !result.IsError {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", fmt.Errorf("the MCP server answers %.200v", result.Content)
}

// wait leaves it to the SDK, which waits for a server that has ended by itself.
func (c sdkClient) wait() error { return c.Close() }

// read reads the file and checks that it came.
func (f *filesystem) read(text []byte) caller {
	return func(ctx context.Context) error {
		got, err := f.readText(ctx, f.path)
		if err == nil && len(got) != len(text) {
			err = fmt.Errorf("%s read %d bytes", f.name, len(got))
		}
		return err
	}
}
