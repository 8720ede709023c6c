// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/bench/work"
)

// mcpFaceConcurrency is how many files are read at once.
var mcpFaceConcurrency = []int{1, 16}

// mcpFace is the figure of toolserver as an MCP server.
func mcpFace(ctx context.Context, h *harness) ([]row, error) {
	text := lines(work.FileBytes)
	if err := os.WriteFile(filepath.Join(h.dir, work.FileName), text, 0o644); err != nil {
		return nil, err
	}
	var opened []*filesystem // by this figure
	defer func() {
		for _, f := range opened {
			f.stop()
		}
	}()
	var errs [7]error
	var own, bare, control, stdio, lean, leanBare, leanControl *filesystem
	own, errs[0] = h.overHTTP(ctx, h.command(h.release, "serve", "--listen", anyPort, "--admin", "off", "--http", anyPort))
	bare, errs[1] = h.overHTTP(ctx, h.yardstick(anyPort, "-mcp"))
	control, errs[2] = h.overHTTP(ctx, h.yardstick(anyPort, "-mcp"))
	stdio, errs[3] = h.overStdio(ctx, h.command(h.release, "mcp", "serve"), connectSDK)
	lean, errs[4] = h.overStdio(ctx, h.command(h.release, "mcp", "serve"), connectLean)
	leanBare, errs[5] = h.overStdio(ctx, h.yardstick("stdio", "-mcp"), connectLean)
	leanControl, errs[6] = h.overStdio(ctx, h.yardstick("stdio", "-mcp"), connectLean)
	for _, f := range []*filesystem{own, bare, control, stdio, lean, leanBare, leanControl} {
		if f != nil {
			opened = append(opened, f)
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}

	var groups []group
	var forget []func()
	var finish []func() []row
	slices := func(f *filesystem, workers int) func(context.Context) (slice, error) {
		return func(ctx context.Context) (slice, error) {
			sample, err := load(ctx, f.server, f.readEnd(text), workers, h.plan.slice)
			h.foreign = append(h.foreign, sample.foreign)
			return sample, err
		}
	}
	compare := func(name string, workers int, own, other, control *filesystem, t target) {
		var s sides[slice]
		groups, forget = append(groups, s.entrants(slices(own, workers), slices(other, workers), slices(control, workers))), append(forget, s.forget)
		finish = append(finish, func() []row {
			return []row{
				s.row(name, "calls/s", rateOf, t),
				s.row(name+": server CPU", "µs/call", cpuOf, target{}),
				s.row(name+": CPU of the client", "µs/call", clientOf, target{}),
			}
		})
	}
	command, err := h.filesystemCommand(ctx)
	if err != nil && !errors.Is(err, errMissing) {
		return nil, err
	}
	var sides []mcpSide
	if err != nil {
		h.notes = append(h.notes, fmt.Sprintf("read_file over stdio is not compared with the MCP file system server: %v.", err))
	} else {
		sides = []mcpSide{{name: "lean client", connect: connectLean}, {name: "client of the official SDK", connect: connectSDK, target: ratioAtLeast(3)}}
	}
	for i := range sides {
		sides[i].servers, err = h.startFilesystems(ctx, command, sides[i].connect)
		defer sides[i].servers.stop()
		if err != nil {
			return nil, err
		}
	}
	for _, n := range mcpFaceConcurrency {
		compare(fmt.Sprintf("read_file of 4 KiB over MCP and HTTP, %d at once (bare: a server of the SDK)", n), n, own, bare, control, ratioAtLeast(1))
		compare(fmt.Sprintf("read_file of 4 KiB over MCP and stdio, %d at once, lean client (bare: a server of the SDK)", n), n, lean, leanBare, leanControl, target{})
		for i, own := range []*filesystem{lean, stdio} {
			if len(sides) > 0 {
				compare(fmt.Sprintf("read_file of 4 KiB over MCP and stdio, %d at once, %s (bare: server-filesystem)", n, sides[i].name), n,
					own, sides[i].servers.first, sides[i].servers.second, sides[i].target)
			}
		}
	}
	if err := interleave(ctx, h.plan.warmups, groups...); err != nil {
		return nil, err
	}
	for _, f := range forget {
		f()
	}
	if err := interleave(ctx, h.plan.rounds, groups...); err != nil {
		return nil, err
	}
	var rows []row
	for _, f := range finish {
		rows = append(rows, f()...)
	}
	return rows, nil
}

// overHTTP starts a server and connects to where it says it serves MCP.
func (h *harness) overHTTP(ctx context.Context, command *exec.Cmd) (*filesystem, error) {
	s, err := h.start(ctx, command)
	if err != nil {
		return nil, err
	}
	address, err := s.httpAddress()
	if err != nil {
		s.stop()
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   "http://" + address + "/mcp",
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, // or connections would be made anew
	}, nil)
	if err != nil {
		s.stop()
		return nil, err
	}
	return &filesystem{server: s, mcpClient: faceClient{session}, path: work.FileName}, nil
}

// httpAddress returns where a server says that it serves HTTP.
func (s *server) httpAddress() (string, error) {
	log, err := os.ReadFile(s.log)
	if err != nil {
		return "", err
	}
	var serving struct{ HTTP string }
	for decoder := json.NewDecoder(bytes.NewReader(log)); serving.HTTP == ""; {
		if err := decoder.Decode(&serving); err != nil {
			return "", fmt.Errorf("%s does not say where it serves HTTP: %w", s.name, err)
		}
	}
	return serving.HTTP, nil
}

// overStdio starts an MCP server that serves read_file on stdio.
func (h *harness) overStdio(ctx context.Context, command *exec.Cmd, connect func(context.Context, *exec.Cmd) (mcpClient, error)) (*filesystem, error) {
	log, err := os.CreateTemp(h.dir, "stdio-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stderr = log
	client, err := connect(ctx, command)
	if err != nil {
		return nil, err
	}
	switch c := client.(type) {
	case sdkClient:
		client = faceClient(c)
	case *leanClient:
		c.tool = work.ReadFile
	}
	return &filesystem{
		server: &server{name: filepath.Base(command.Path), process: command, log: log.Name()}, mcpClient: client, path: work.FileName,
	}, nil
}

// faceClient calls read_file of toolserver, and of the bare server.
type faceClient struct{ *mcp.ClientSession }

func (c faceClient) readText(ctx context.Context, path string) (string, error) {
	result, err := c.CallTool(ctx, &mcp.CallToolParams{Name: work.ReadFile, Arguments: map[string]string{"path": path}})
	if err != nil {
		return "", err
	}
	if len(result.Content) == 1 && !result.IsError {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", fmt.Errorf("read_file over MCP answers %.200v", result.Content)
}

// readEnd reads the file and checks that its end came: toolserver numbers its lines.
func (f *filesystem) readEnd(text []byte) caller {
	end := string(text[len(text)-20 : len(text)-1])
	return func(ctx context.Context) error {
		got, err := f.readText(ctx, f.path)
		if err == nil && !strings.Contains(got, end) {
			err = fmt.Errorf("%s read %d bytes", f.name, len(got))
		}
		return err
	}
}

// wait does not say good-bye: the server has been killed.
func (c faceClient) wait() error { return nil }
