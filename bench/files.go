// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// readConcurrency is how many files are read at once.
var readConcurrency = []int{16, 64}

// An mcpSide is a way to call the MCP file system server.
type mcpSide struct {
	name    string
	connect func(context.Context, *exec.Cmd) (mcpClient, error)
	target  target
	servers *filesystems
}

// filesFigure is figure 9. All servers run in the directory that has the files.
func filesFigure(ctx context.Context, h *harness) ([]row, error) {
	text := lines(work.FileBytes)
	if err := os.WriteFile(filepath.Join(h.dir, work.FileName), text, 0o644); err != nil {
		return nil, err
	}
	servers, err := h.startTrio(ctx)
	if err != nil {
		return nil, err
	}
	defer servers.stop()
	filesystem, err := h.filesystemCommand(ctx)
	if err != nil && !errors.Is(err, errMissing) {
		return nil, err
	}
	var clients []mcpSide
	if err != nil {
		h.notes = append(h.notes, fmt.Sprintf("read_file is not compared with the MCP file system server: %v.", err))
	} else {
		clients = []mcpSide{
			{name: "MCP server-filesystem, client of the official SDK", connect: connectSDK, target: ratioAtLeast(5)},
			{name: "MCP server-filesystem, lean client", connect: connectLean},
		}
	}
	for i := range clients {
		clients[i].servers, err = h.startFilesystems(ctx, filesystem, clients[i].connect)
		defer clients[i].servers.stop()
		if err != nil {
			return nil, err
		}
	}

	var groups []group
	var forget []func()
	var finish []func() []row
	slices := func(call caller, s *server, workers int) func(context.Context) (slice, error) {
		return func(ctx context.Context) (slice, error) {
			sample, err := load(ctx, s, call, workers, h.plan.slice)
			h.foreign = append(h.foreign, sample.foreign)
			return sample, err
		}
	}
	compare := func(name string, workers int, own, other, control func(context.Context) (slice, error), t target) {
		var s sides[slice]
		groups, forget = append(groups, s.entrants(own, other, control)), append(forget, s.forget)
		finish = append(finish, func() []row {
			return []row{
				s.row(name, "calls/s", rateOf, t),
				s.row(name+": server CPU", "µs/call", cpuOf, target{}),
			}
		})
	}
	for _, n := range readConcurrency {
		own := slices(readFile(servers.subject, text), servers.subject, n)
		compare(fmt.Sprintf("read_file of 4 KiB, %d at once", n), n, own,
			slices(readFile(servers.bare, text), servers.bare, n), slices(readFile(servers.control, text), servers.control, n), ratioAtLeast(0.85))
		for _, c := range clients {
			first, second := c.servers.first, c.servers.second
			compare(fmt.Sprintf("read_file of 4 KiB, %d at once (bare: %s)", n, c.name), n, own,
				slices(first.read(text), first.server, n), slices(second.read(text), second.server, n), c.target)
		}
	}
	other, direct, err := adapted(ctx, servers.subject, text)
	if err != nil {
		return nil, err
	}
	compare("read_file as agent-code calls it, 16 at once (bare: called directly)", 16, slices(other, servers.subject, 16),
		slices(direct, servers.subject, 16), slices(direct, servers.subject, 16), ratioAtLeast(1/1.1))
	edits, err := h.editing(ctx, servers.subject)
	if err != nil {
		return nil, err
	}
	var s sides[float64]
	groups, forget = append(groups, s.entrants(edits.own, edits.bare, edits.bare)), append(forget, s.forget)
	finish = append(finish, func() []row {
		return []row{s.row("edit_file in 1 MiB (bare: read, write a temporary file, fsync, rename)", "ms", itself, ratioAtMost(2))}
	})

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

// lines returns so many bytes of lines as code has them.
func lines(size int) []byte {
	var text []byte
	for i := 0; len(text) < size; i++ {
		text = fmt.Appendf(text, "\tif value%d, err := measure(%d); err != nil { return err }\n", i, i)
	}
	text = text[:size]
	text[size-1] = '\n'
	return text
}

// readFile reads the file and checks that it came.
func readFile(s *server, text []byte) caller {
	return readBy(s, text, &pb.ExecuteToolRequest{Tool: work.ReadFile, InputJson: work.JSON(work.ReadFileInput{Path: work.FileName})})
}

// adapted returns two ways to read the file in one session: as another system calls the
// tool, and directly.
func adapted(ctx context.Context, s *server, text []byte) (other, direct caller, err error) {
	created, err := pb.NewSessionServiceClient(s.conn).CreateSession(ctx, &pb.CreateSessionRequest{
		Mode: pb.Mode_MODE_ACCEPT_EDITS, Level: pb.Level_LEVEL_WORKSPACE_WRITE, Persona: "agent-code",
	})
	if err != nil {
		return nil, nil, fmt.Errorf("a session with a persona: %w", err)
	}
	id := created.GetSession().GetSessionId()
	write := &pb.ExecuteToolRequest{SessionId: id, Tool: "FileWrite", InputJson: work.JSON(map[string]string{"file_path": work.FileName, "content": string(text)})}
	if err := follow(ctx, s.client, write, func(*pb.ExecuteToolResponse) error { return nil }); err != nil {
		return nil, nil, err
	}
	input := work.JSON(map[string]string{"file_path": work.FileName})
	return readBy(s, text, &pb.ExecuteToolRequest{SessionId: id, Tool: "FileRead", InputJson: input}),
		readBy(s, text, &pb.ExecuteToolRequest{SessionId: id, Tool: work.ReadFile, InputJson: work.JSON(work.ReadFileInput{Path: work.FileName})}), nil
}

func readBy(s *server, text []byte, request *pb.ExecuteToolRequest) caller {
	end := string(text[len(text)-20 : len(text)-1])
	return func(ctx context.Context) error {
		var last *pb.Finished
		err := follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
			if finished := message.GetEvent().GetFinished(); finished != nil {
				last = finished
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(last.GetContent()) != 1 {
			return fmt.Errorf("it read %v", last)
		}
		if got := last.GetContent()[0].GetText(); len(got) < len(text) || got[len(got)-20:len(got)-1] != end {
			return fmt.Errorf("it read %d bytes: …%q", len(got), got[max(0, len(got)-40):])
		}
		return nil
	}
}

// edits are the two ways to change a file of 1 MiB, each measured in
// milliseconds.
type edits struct {
	own, bare func(context.Context) (float64, error)
}

// editing changes one line of a file back and forth: through the server, and
// with as little as keeps a file whole when the machine fails.
func (h *harness) editing(ctx context.Context, s *server) (*edits, error) {
	const ask, done = "the line that is changed\n", "the line that was changed\n"
	half := lines(512 << 10)
	text := append(append(half[:len(half):len(half)], ask...), half...)
	created, err := pb.NewSessionServiceClient(s.conn).CreateSession(ctx, &pb.CreateSessionRequest{
		Mode: pb.Mode_MODE_ACCEPT_EDITS, Level: pb.Level_LEVEL_WORKSPACE_WRITE,
	})
	if err != nil {
		return nil, fmt.Errorf("a session that may edit: %w", err)
	}
	session, dir := created.GetSession().GetSessionId(), created.GetSession().GetWorkspace()
	for _, name := range []string{"own", "bare"} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	turns := func(edit func(ctx context.Context, from, to string) error) func(context.Context) (float64, error) {
		var n atomic.Int64
		rate := h.timed(func(ctx context.Context) error {
			if n.Add(1)%2 == 1 {
				return edit(ctx, ask, done)
			}
			return edit(ctx, done, ask)
		})
		return func(ctx context.Context) (float64, error) {
			perSecond, err := rate(ctx)
			return 1e3 / perSecond, err
		}
	}
	own := turns(func(ctx context.Context, from, to string) error {
		request := &pb.ExecuteToolRequest{SessionId: session, Tool: work.EditFile, InputJson: work.JSON(work.EditFileInput{
			Path: "own", Old: from, New: to,
		})}
		return follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
			if end := message.GetEvent().GetFinished(); end != nil && end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
				return fmt.Errorf("%v: %.200v", end.GetOutcome(), end.GetContent())
			}
			return nil
		})
	})
	bare := turns(func(_ context.Context, from, to string) error { return replaceIn(filepath.Join(dir, "bare"), from, to) })
	return &edits{own, bare}, nil
}

// replaceIn changes a file the plain way.
func replaceIn(path, from, to string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte(from)) != 1 {
		return errors.New("the text is not there once")
	}
	text = bytes.Replace(text, []byte(from), []byte(to), 1)
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
