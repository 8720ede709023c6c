// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// sourcesFigure is the figure of tools from elsewhere: calls of an MCP server through
// toolserver beside those of a client of the SDK, and what 2,000 tools of 20 servers cost.
func sourcesFigure(ctx context.Context, h *harness) ([]row, error) {
	calls, err := h.sourceCalls(ctx)
	if err != nil {
		return nil, err
	}
	many, err := h.manySources(ctx)
	return append(calls, many...), err
}

// sourceCalls has a file of 4 KiB read by the MCP file system server.
func (h *harness) sourceCalls(ctx context.Context) ([]row, error) {
	command, err := h.filesystemCommand(ctx)
	if err != nil {
		return nil, err
	}
	text := lines(work.FileBytes)
	if err := os.WriteFile(filepath.Join(h.dir, work.FileName), text, 0o600); err != nil {
		return nil, err
	}
	others, err := h.startFilesystems(ctx, command, connectSDK)
	defer others.stop()
	if err != nil {
		return nil, err
	}
	c := command()
	modules := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(c.Args[1]))))
	if modules, err = filepath.EvalSymlinks(modules); err != nil {
		return nil, err
	}
	script := filepath.Join(modules, "@modelcontextprotocol/server-filesystem/dist/index.js")
	files := filepath.Join(h.dir, "served")
	if err := os.MkdirAll(files, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(files, work.FileName), text, 0o600); err != nil {
		return nil, err
	}
	s, err := h.startHooked(ctx, fmt.Sprintf("mcp:\n  - {name: files, command: [%s, %s, %s], read: [%s, %[3]s], says: [{tools: ['*'], read_only: true}]}\n", c.Path, script, files, modules))
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.waitForTools(ctx, "files__"+mcpRead, 1); err != nil {
		return nil, err
	}
	request := &pb.ExecuteToolRequest{Tool: "files__" + mcpRead, InputJson: fmt.Appendf(nil, `{"path":%q}`, filepath.Join(files, work.FileName))}
	through := func(ctx context.Context) error {
		size := 0
		err := follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
			if finished := message.GetEvent().GetFinished(); finished != nil {
				if finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
					return fmt.Errorf("the call ended: %v", finished)
				}
				for _, content := range finished.GetContent() {
					size += len(content.GetText()) + len(content.GetJson())
				}
			}
			return nil
		})
		if err == nil && size < len(text) {
			err = fmt.Errorf("%d bytes were read", size)
		}
		return err
	}
	var rows []row
	for _, workers := range []int{1, 16} {
		var times sides[float64]
		side := func(call caller) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) { return perCall(ctx, call, workers, h.plan.slice) }
		}
		group := times.entrants(side(through), side(others.first.read(text)), side(others.second.read(text)))
		if err := interleave(ctx, h.plan.warmups, group); err != nil {
			return rows, err
		}
		times.forget()
		if err := interleave(ctx, h.plan.rounds, group); err != nil {
			return rows, err
		}
		rows = append(rows, times.row(fmt.Sprintf("a call of an MCP server, %d at once (bare: the client of the SDK)", workers), "µs", itself, ratioAtMost(1.15)))
	}
	return rows, nil
}

// perCall returns how many microseconds pass for each call, with so many at once.
func perCall(ctx context.Context, call caller, workers int, length time.Duration) (float64, error) {
	var group sync.WaitGroup
	counts, errs := make([]int, workers), make([]error, workers)
	begin := time.Now()
	for i := range workers {
		group.Go(func() {
			for time.Since(begin) < length && errs[i] == nil {
				errs[i] = call(ctx)
				counts[i]++
			}
		})
	}
	group.Wait()
	took, total := time.Since(begin), 0
	for _, n := range counts {
		total += n
	}
	return float64(took.Microseconds()) / float64(total), errors.Join(errs...)
}

// waitForTools waits until so many tools are listed whose names match.
func (s *server) waitForTools(ctx context.Context, name string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		list, err := s.client.ListTools(ctx, &pb.ListToolsRequest{Names: []string{name}})
		if err != nil {
			text, _ := os.ReadFile(s.log)
			return fmt.Errorf("waiting for %s: %w; the log:\n%s", name, err, text)
		}
		if len(list.GetTools()) >= n {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			continue // the next call says that the time is over
		}
	}
}

const (
	manyServers = 20
	toolsEach   = 100
)

// manyTools is an MCP server with as many tools.
const manyTools = `import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    result = {}
    if m["method"] == "initialize":
        result = {"protocolVersion": m["params"]["protocolVersion"], "serverInfo": {"name": "many", "version": "1"}, "capabilities": {"tools": {}}}
    elif m["method"] == "tools/list":
        result = {"tools": [{"name": "tool_%d" % i, "description": "One of many tools, of which it says a little.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}, "required": ["text"]}} for i in range(TOOLS)]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
`

// manySources measures what many tools of many servers cost, when nobody calls one.
func (h *harness) manySources(ctx context.Context) ([]row, error) {
	if _, err := exec.LookPath("python3"); err != nil {
		return nil, fmt.Errorf("%w: python3", errMissing)
	}
	script := filepath.Join(h.dir, "many.py")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(manyTools, "TOOLS", fmt.Sprint(toolsEach))), 0o600); err != nil {
		return nil, err
	}
	var config strings.Builder
	config.WriteString("mcp:\n")
	for i := range manyServers {
		fmt.Fprintf(&config, "  - {name: many%d, command: [python3, %s], read: [%[2]s]}\n", i, script)
	}
	file := filepath.Join(h.dir, "many.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	var later []float64
	for range h.plan.startupRounds {
		with, err := h.bear(ctx, func(address string) *exec.Cmd {
			return h.command(h.release, "serve", "--config", file, "--listen", address, "--admin", "off")
		})
		if err != nil {
			return nil, err
		}
		without, err := h.bear(ctx, func(address string) *exec.Cmd { return h.toolserver(h.release, address) })
		if err != nil {
			return nil, err
		}
		later = append(later, with.first-without.first)
	}
	rows := []row{row{
		Name: fmt.Sprintf("start with %d servers: how much later the first call is served", manyServers), Unit: "ms", Rounds: len(later), Toolserver: spreadOf(later),
	}.judge(valueAtMost(50))}

	s, err := h.startHooked(ctx, config.String())
	if err != nil {
		return rows, err
	}
	defer s.stop()
	for i := range manyServers {
		if err := s.waitForTools(ctx, fmt.Sprintf("many%d__*", i), toolsEach); err != nil {
			return rows, err
		}
	}
	few, err := h.startTrio(ctx)
	if err != nil {
		return rows, err
	}
	defer few.stop()
	perTool := func(s *server) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			tools, began := 0, time.Now()
			for time.Since(began) < h.plan.slice {
				for page := (&pb.ListToolsRequest{}); ; {
					list, err := s.client.ListTools(ctx, page)
					if err != nil {
						return 0, err
					}
					tools += len(list.GetTools())
					if page.PageToken = list.GetNextPageToken(); page.PageToken == "" {
						break
					}
				}
			}
			return float64(time.Since(began).Nanoseconds()) / float64(tools), nil
		}
	}
	var lists sides[float64]
	group := lists.entrants(perTool(s), perTool(few.subject), perTool(few.subject))
	if err := interleave(ctx, h.plan.warmups, group); err != nil {
		return rows, err
	}
	lists.forget()
	if err := interleave(ctx, h.plan.rounds, group); err != nil {
		return rows, err
	}
	return append(rows, lists.row("ListTools, index of 2,000 tools of 20 servers and the others (bare: of 100 tools)", "ns/tool", itself, ratioAtMost(2))), nil
}
