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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/bench/work"
)

// A filesystem is a running MCP file system server and its client: JSON-RPC,
// one message a line, as many calls at once as there are callers.
type filesystem struct {
	*server
	dir string

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

// filesystems are two of them: one to compare with, and one to see how much the
// machine disturbs.
type filesystems struct{ first, second *filesystem }

func (f *filesystems) stop() {
	if f == nil {
		return
	}
	for _, one := range []*filesystem{f.first, f.second} {
		if one != nil {
			one.stop()
		}
	}
}

// startFilesystems starts both. It returns nil and errMissing where they are not
// installed.
func (h *harness) startFilesystems(ctx context.Context) (*filesystems, error) {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, err
	}
	script := filepath.Join(strings.TrimSpace(string(module)), ".bin/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
	node, noNode := exec.LookPath("node")
	if _, err := os.Stat(script); err != nil || noNode != nil {
		return nil, fmt.Errorf("%w: make ripgrep installs it where there is npm", errMissing)
	}
	f := new(filesystems)
	for _, one := range []**filesystem{&f.first, &f.second} {
		if *one, err = h.startFilesystem(ctx, node, script); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

func (h *harness) startFilesystem(ctx context.Context, node, script string) (*filesystem, error) {
	log, err := os.CreateTemp(h.dir, "filesystem-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := h.command(node, script, h.dir)
	command.Stderr = log
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
	f := &filesystem{
		server: &server{name: "server-filesystem", process: command, log: log.Name()},
		dir:    h.dir, in: in, waiting: make(map[int]chan answer),
	}
	go f.receive(out)
	_, err = f.call(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "bench", "version": "1"},
	})
	if err == nil {
		_, err = f.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// receive gives answers to those who wait for them, until there are no more.
func (f *filesystem) receive(out io.Reader) {
	r := bufio.NewReaderSize(out, 256<<10)
	for {
		line, err := r.ReadBytes('\n')
		var a answer
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
		f.mu.Lock()
		if err != nil {
			f.broken = fmt.Errorf("%s: %w", f.name, err)
			for _, c := range f.waiting {
				close(c)
			}
			f.mu.Unlock()
			return
		}
		if a.ID != nil && f.waiting[*a.ID] != nil {
			f.waiting[*a.ID] <- a
			delete(f.waiting, *a.ID)
		}
		f.mu.Unlock()
	}
}

// call sends a request and waits for its answer.
func (f *filesystem) call(ctx context.Context, method string, params any) (answer, error) {
	comes := make(chan answer, 1)
	f.mu.Lock()
	f.number++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": f.number, "method": method, "params": params})
	if err == nil && f.broken != nil {
		err = f.broken
	}
	if err == nil {
		f.waiting[f.number] = comes
		_, err = f.in.Write(append(line, '\n'))
	}
	f.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	select {
	case a, ok := <-comes:
		if !ok {
			return a, errors.New(f.name + " has ended")
		}
		if a.Error != nil {
			return a, fmt.Errorf("%s: %s", f.name, a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// read reads the file and checks that it came.
func (f *filesystem) read(text []byte) caller {
	params := map[string]any{"name": "read_text_file", "arguments": map[string]string{"path": filepath.Join(f.dir, work.FileName)}}
	return func(ctx context.Context) error {
		a, err := f.call(ctx, "tools/call", params)
		if err == nil && (len(a.Result.Content) != 1 || len(a.Result.Content[0].Text) != len(text)) {
			err = fmt.Errorf("%s answers %.200v", f.name, a.Result)
		}
		return err
	}
}
