// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// A leanClient speaks to an MCP server with as little as does: JSON-RPC, one
// message a line, as many calls at once as there are callers.
type leanClient struct {
	command *exec.Cmd
	tool    string // that reads a file

	mu      sync.Mutex // held over a line that is written
	in      io.WriteCloser
	number  int
	waiting map[int]chan answer
	broken  error
}

// answer is what comes back for a call.
type answer struct {
	ID     *int `json:"id"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// connectLean starts a server.
func connectLean(ctx context.Context, command *exec.Cmd) (mcpClient, error) {
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	c := &leanClient{command: command, tool: mcpRead, in: in, waiting: make(map[int]chan answer)}
	go c.receive(out)
	_, err = c.call(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "bench", "version": "1"},
	})
	if err == nil {
		_, err = c.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	}
	if err != nil {
		command.Process.Kill()
		command.Wait()
		return nil, err
	}
	return c, nil
}

func (c *leanClient) wait() error { return c.command.Wait() }

// receive gives answers to those who wait for them, until there are no more.
func (c *leanClient) receive(out io.Reader) {
	r := bufio.NewReaderSize(out, 256<<10)
	for {
		line, err := r.ReadBytes('\n')
		var a answer
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
		c.mu.Lock()
		if err != nil {
			c.broken = fmt.Errorf("the answer of an MCP server: %w", err)
			for _, comes := range c.waiting {
				close(comes)
			}
			c.mu.Unlock()
			return
		}
		if a.ID != nil && c.waiting[*a.ID] != nil {
			c.waiting[*a.ID] <- a
			delete(c.waiting, *a.ID)
		}
		c.mu.Unlock()
	}
}

// call sends a request and waits for its answer.
func (c *leanClient) call(ctx context.Context, method string, params any) (answer, error) {
	comes := make(chan answer, 1)
	c.mu.Lock()
	c.number++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.number, "method": method, "params": params})
	if err == nil && c.broken != nil {
		err = c.broken
	}
	if err == nil {
		c.waiting[c.number] = comes
		_, err = c.in.Write(append(line, '\n'))
	}
	c.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	select {
	case a, ok := <-comes:
		if !ok {
			return a, errors.New("the MCP server has ended")
		}
		if a.Error != nil {
			return a, fmt.Errorf("the MCP server says %s", a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// readText reads a file.
func (c *leanClient) readText(ctx context.Context, path string) (string, error) {
	a, err := c.call(ctx, "tools/call", map[string]any{"name": c.tool, "arguments": map[string]string{"path": path}})
	if err == nil && len(a.Result.Content) != 1 {
		err = fmt.Errorf("the MCP server answers %.200v", a.Result)
	}
	if err != nil {
		return "", err
	}
	return a.Result.Content[0].Text, nil
}
