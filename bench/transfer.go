// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// rangedFile is read in ranges; it is where all servers run.
const rangedFile = "ranged.bin"

// transferFigure is figure 12: files in and out.
func transferFigure(ctx context.Context, h *harness) ([]row, error) {
	if err := os.WriteFile(filepath.Join(h.dir, rangedFile), lines(mib), 0o644); err != nil {
		return nil, err
	}
	servers, err := h.startTrio(ctx)
	if err != nil {
		return nil, err
	}
	defer servers.stop()

	var reads sides[slice]
	side := func(s *server) func(context.Context) (slice, error) {
		return func(ctx context.Context) (slice, error) {
			sample, err := load(ctx, s, readRange(s), 16, h.plan.slice)
			h.foreign = append(h.foreign, sample.foreign)
			return sample, err
		}
	}
	ranged := reads.entrants(side(servers.subject), side(servers.bare), side(servers.control))
	if err := interleave(ctx, h.plan.warmups, ranged); err != nil {
		return nil, err
	}
	reads.forget()
	if err := interleave(ctx, h.plan.rounds, ranged); err != nil {
		return nil, err
	}

	if _, err := exec.LookPath("tar"); err != nil {
		return nil, fmt.Errorf("tar: %w", errMissing)
	}
	t, err := h.newTreeCopy(ctx, servers.subject)
	if err != nil {
		return nil, err
	}
	var up, down sides[float64]
	groups := []group{up.entrants(t.upload, t.pipe, t.pipe), down.entrants(t.download, t.pipe, t.pipe)}
	if err := interleave(ctx, 1, groups...); err != nil {
		return nil, err
	}
	up.forget()
	down.forget()
	if err := interleave(ctx, h.plan.floodRounds, groups...); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("a tree of %d files", t.files)
	return []row{
		reads.row("ReadFile, 4 KiB of 1 MiB, 16 at once", "calls/s", rateOf, ratioAtLeast(0.95)),
		reads.row("ReadFile, 4 KiB of 1 MiB, 16 at once: server CPU", "µs/call", cpuOf, target{}),
		up.row("upload of "+name+" by cp (bare: tar | tar)", "files/s", itself, ratioAtLeast(0.5)),
		down.row("download of "+name+" by cp (bare: tar | tar)", "files/s", itself, ratioAtLeast(0.5)),
	}, nil
}

// readRange reads a part of the file and checks that it came.
func readRange(s *server) caller {
	client := pb.NewWorkspaceServiceClient(s.conn)
	request := &pb.ReadFileRequest{Path: rangedFile, Offset: 512 << 10, Limit: 4096}
	return func(ctx context.Context) error {
		stream, err := client.ReadFile(ctx, request)
		if err != nil {
			return err
		}
		n := 0
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			n += len(m.GetData())
		}
		if n != 4096 {
			return fmt.Errorf("%d bytes came", n)
		}
		return nil
	}
}

// treeCopy copies a tree in several ways, each measured in files per second.
type treeCopy struct {
	h                *harness
	files            int
	source           string // what is copied
	session, address string
	workspace        string
	made             int
}

func (h *harness) newTreeCopy(ctx context.Context, s *server) (*treeCopy, error) {
	t := &treeCopy{h: h, files: h.plan.treeFiles, source: filepath.Join(h.dir, "tree-source"), address: s.conn.Target()}
	for i := range t.files {
		dir := filepath.Join(t.source, fmt.Sprint("d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), lines(100+i%2000), 0o644); err != nil {
			return nil, err
		}
	}
	created, err := pb.NewSessionServiceClient(s.conn).CreateSession(ctx, &pb.CreateSessionRequest{
		Mode: pb.Mode_MODE_ALLOW, Level: pb.Level_LEVEL_WORKSPACE_WRITE,
	})
	if err != nil {
		return nil, err
	}
	t.session, t.workspace = created.GetSession().GetSessionId(), created.GetSession().GetWorkspace()
	return t, t.copy(ctx, t.source, t.session+":tree")
}

func (t *treeCopy) copy(ctx context.Context, from, to string) error {
	return t.h.finish(ctx, t.h.command(t.h.release, "cp", "--address", t.address, from, to))
}

// finish runs a command to its end.
func (h *harness) finish(_ context.Context, command *exec.Cmd) error {
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%.500s", command, err, out)
	}
	return nil
}

// into measures one way into a directory that is new each time, and removes it.
func (t *treeCopy) into(parent string, do func(dir, name string) error) (float64, error) {
	t.made++
	name := fmt.Sprint("copy", t.made)
	dir := filepath.Join(parent, name)
	begin := time.Now()
	err := do(dir, name)
	took := time.Since(begin)
	last := filepath.Join(dir, fmt.Sprintf("d%d/f%d", (t.files-1)/100, t.files-1))
	if _, missing := os.Stat(last); err == nil {
		err = missing
	}
	return float64(t.files) / took.Seconds(), errors.Join(err, os.RemoveAll(dir))
}

func (t *treeCopy) upload(ctx context.Context) (float64, error) {
	return t.into(t.workspace, func(_, name string) error { return t.copy(ctx, t.source, t.session+":"+name) })
}

func (t *treeCopy) download(ctx context.Context) (float64, error) {
	return t.into(t.h.dir, func(dir, _ string) error { return t.copy(ctx, t.session+":tree", dir) })
}

func (t *treeCopy) pipe(ctx context.Context) (float64, error) {
	return t.into(t.h.dir, func(dir, _ string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return t.h.finish(ctx, t.h.command("/bin/sh", "-c", `tar cf - -C "$0" . | tar xf - -C "$1"`, t.source, dir))
	})
}
