// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/server"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// whole is a server with all its tools and services, and a client of it.
type whole struct {
	t         *testing.T
	workspace string
	session   string
	pb.ToolServiceClient
	pb.SessionServiceClient
	pb.WorkspaceServiceClient
}

func newWhole(t *testing.T, workspace string, change func(c *config.Config)) *whole {
	t.Helper()
	c := config.Default()
	c.Sessions.Workspace, c.Sessions.WorkspaceRoot, c.Sessions.Mode = workspace, t.TempDir(), tools.ModeAllow
	c.Sandbox.Helper = os.Getenv("TOOLSERVER_SANDBOX_HELPER")
	if change != nil {
		change(c)
	}
	conn := serveConfig(t, c)
	return &whole{t, workspace, "", pb.NewToolServiceClient(conn), pb.NewSessionServiceClient(conn), pb.NewWorkspaceServiceClient(conn)}
}

func (w *whole) context() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	w.t.Cleanup(cancel)
	return ctx
}

// call calls a tool, and returns all that it answers.
func (w *whole) call(tool string, input map[string]any) string {
	w.t.Helper()
	in, err := structpb.NewStruct(input)
	if err != nil {
		w.t.Fatal(err)
	}
	stream, err := w.ExecuteTool(w.context(), &pb.ExecuteToolRequest{Tool: tool, SessionId: w.session, Input: in})
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err.Error()
		}
		if end := response.GetEvent().GetFinished(); end != nil {
			text, err := json.Marshal(end)
			if err != nil {
				w.t.Fatal(err)
			}
			return end.GetOutcome().String() + " " + string(text)
		}
	}
}

// bash runs a command about which nobody is asked.
func (w *whole) bash(command string) string {
	w.t.Helper()
	answer := w.call("bash", map[string]any{"command": command, "description": "test"})
	if strings.Contains(answer, "DeadlineExceeded") {
		w.t.Errorf("%s: %s", command, answer)
	}
	return answer
}

// write sends a file.
func (w *whole) write(path, content string, mode uint32) (*pb.WriteFileResponse, error) {
	w.t.Helper()
	stream, err := w.WriteFile(w.context())
	if err != nil {
		w.t.Fatal(err)
	}
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Header{Header: &pb.WriteFileHeader{SessionId: w.session, Path: path, Mode: proto.Uint32(mode)}}})
	stream.Send(&pb.WriteFileRequest{Part: &pb.WriteFileRequest_Data{Data: []byte(content)}})
	return stream.CloseAndRecv()
}

// untar sends a tree.
func (w *whole) untar(dir string, files map[string]string) error {
	w.t.Helper()
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		out.Write([]byte(files[name]))
	}
	out.Close()
	stream, err := w.UploadTree(w.context())
	if err != nil {
		w.t.Fatal(err)
	}
	stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Header{Header: &pb.UploadTreeHeader{SessionId: w.session, Path: dir}}})
	stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Data{Data: archive.Bytes()}})
	_, err = stream.CloseAndRecv()
	return err
}

// everything returns all that a stream brings, or why it ended.
func everything[M interface{ GetData() []byte }](stream interface{ Recv() (M, error) }, err error) string {
	var all []byte
	for err == nil {
		var m M
		if m, err = stream.Recv(); err == nil {
			all = append(all, m.GetData()...)
		}
	}
	if errors.Is(err, io.EOF) {
		return string(all)
	}
	return string(all) + err.Error()
}

// TestPlantedByFiles has tools and uploads build what a command then moves to where
// git finds it, before any other command has run: it is not trusted because it was
// there.
func TestPlantedByFiles(t *testing.T) {
	tree := map[string]string{
		"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./evil\n",
		"hooks/pre-commit": "#!/bin/sh\necho evil\n", "objects/info/packs": "\n", "refs/heads/x/.keep": "",
	}
	ways := map[string]func(w *whole) error{
		"write_file": func(w *whole) error {
			for name, content := range tree {
				if answer := w.call("write_file", map[string]any{"path": "x/" + name, "content": content}); !strings.Contains(answer, "SUCCEEDED") {
					return errors.New(answer)
				}
			}
			return nil
		},
		"WriteFile": func(w *whole) error {
			for name, content := range tree {
				if _, err := w.write("x/"+name, content, 0o755); err != nil {
					return err
				}
			}
			return nil
		},
		"UploadTree": func(w *whole) error { return w.untar("x", tree) },
	}
	for way, build := range ways {
		for name, test := range map[string]struct{ command, at string }{
			"in place": {`mv x sub/.gi$(printf t)`, "sub/.git"}, // by its name, the policy refuses it
			"fresh":    {`git init -q fresh && d=fresh/.gi$(printf t) && rm -rf $d && mv x $d`, "fresh/.git"},
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWhole(t, t.TempDir(), nil)
				if err := os.Mkdir(filepath.Join(w.workspace, "sub"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := build(w); err != nil {
					t.Fatal(err)
				}
				answer := w.bash(test.command)
				if !strings.Contains(answer, "SUCCEEDED") || !strings.Contains(answer, test.at+"/hooks/pre-commit was made, and removed") || !strings.Contains(answer, "core.fsmonitor = ./evil would run programs later") {
					t.Errorf("answer %s", answer)
				}
				if _, err := os.Stat(filepath.Join(w.workspace, test.at, "hooks/pre-commit")); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the hook is there: %v", err)
				}
				config, err := os.ReadFile(filepath.Join(w.workspace, test.at, "config"))
				if err != nil || strings.Contains(string(config), "evil") {
					t.Errorf("configuration %q, %v", config, err)
				}
			})
		}
	}
}

// TestWhereConfigurationLeads has tools and uploads write where the configuration of a
// person's repository has git run or read something: it is refused as in .git/hooks, and
// nothing is written.
func TestWhereConfigurationLeads(t *testing.T) {
	w := newWhole(t, t.TempDir(), nil)
	begin := exec.Command("bash", "-c", `git init -q . && git config core.hooksPath scripts/hooks && git config include.path ../team.cfg &&
		mkdir -p tools && echo old >tools/hook && ln -s ../../tools/hook .git/hooks/pre-push &&
		git init -q --bare srv/x.git && git init -q other && git -C other config core.hooksPath own && mkdir wt && git -C other config core.worktree ../../wt`)
	begin.Dir = w.workspace
	if out, err := begin.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, path := range []string{
		"scripts/hooks/pre-commit", "team.cfg", "tools/hook", "srv/x.git/hooks/update", "srv/x.git/config", "srv/x.git/index", "other/own/pre-push", "wt/own/pre-push",
	} {
		before, _ := os.ReadFile(filepath.Join(w.workspace, path))
		for name, answer := range map[string]string{
			"write_file": w.call("write_file", map[string]any{"path": path, "content": "evil"}),
			"WriteFile":  func() string { _, err := w.write(path, "evil", 0o755); return fmt.Sprint(err) }(),
		} {
			if !strings.Contains(answer, "protected") || strings.Contains(answer, "SUCCEEDED") {
				t.Errorf("%s %s: %s", name, path, answer)
			}
		}
		// Where its directory may be written, it is told as left out.
		if err := w.untar(filepath.Dir(path), map[string]string{filepath.Base(path): "evil"}); err != nil && status.Code(err) != codes.PermissionDenied {
			t.Errorf("UploadTree %s: %v", path, err)
		}
		if after, _ := os.ReadFile(filepath.Join(w.workspace, path)); !bytes.Equal(before, after) {
			t.Errorf("%s has become %q", path, after)
		}
	}
	for _, test := range []struct {
		source, to string
		refused    bool
	}{{"mine", "scripts", true}, {"scripts2", "srv/y", false}} {
		if answer := w.call("write_file", map[string]any{"path": test.source + "/hooks/pre-commit", "content": "x"}); !strings.Contains(answer, "SUCCEEDED") {
			t.Errorf("%s: %s", test.source, answer)
		}
		if answer := w.call("move_file", map[string]any{"from": test.source, "to": test.to}); strings.Contains(answer, "SUCCEEDED") == test.refused {
			t.Errorf("%s to %s: %s", test.source, test.to, answer)
		}
	}
	if answer := w.call("write_file", map[string]any{"path": "scripts/build", "content": "x"}); !strings.Contains(answer, "SUCCEEDED") {
		t.Errorf("beside: %s", answer)
	}
}

// TestForgedIndex has a command put an index in its place that was sent, and with which
// git would write a hook.
func TestForgedIndex(t *testing.T) {
	const hook = ".git/hooks/pre-commit"
	entry := make([]byte, 40+20, 100)
	entry[26], entry[27] = 0o100755>>8, 0o100755&0xff
	entry = append(entry, 0, byte(len(hook)))
	entry = append(entry, hook...)
	index := "DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + string(entry) + strings.Repeat("\x00", 8-len(entry)%8) + strings.Repeat("\x00", 20)
	w := newWhole(t, t.TempDir(), nil)
	if _, err := w.write("x", index, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := w.bash(`git init -q . && cp x .gi$(printf t)/index && git ls-files`)
	if !strings.Contains(answer, `"Text":"`+hook+`\n`) { // it is one to git
		t.Errorf("git reads %s", answer)
	}
	if !strings.Contains(answer, ".git/index: its entry "+hook) || !strings.Contains(answer, "git reset makes it anew") {
		t.Errorf("answer %s", answer)
	}
	if _, err := os.Stat(filepath.Join(w.workspace, ".git/index")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the index is there: %v", err)
	}
}

// TestServersOwn has a server keep its own in the workspace: nobody who works there
// sees or changes it.
func TestServersOwn(t *testing.T) {
	const secret = "canary-6b1f"
	work := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(work, "state"))
	own := map[string]string{ // what there is, and what is closed
		"state/toolserver/own.txt": "state/toolserver", "kept/own.txt": "kept", "caches/own.txt": "caches", "others/own.txt": "others",
		"audit.jsonl.000000000007": "audit.jsonl.000000000007", "audit.jsonl.torn": "audit.jsonl.torn",
	}
	keep := func(path string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(work, path)), 0o700), os.WriteFile(filepath.Join(work, path), []byte(secret), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w := newWhole(t, work, func(c *config.Config) {
		c.Artifacts.Dir, c.Sessions.WorkspaceRoot, c.Sandbox.Caches.Dir = filepath.Join(work, "kept"), filepath.Join(work, "others"), filepath.Join(work, "caches")
		c.Audit.File = filepath.Join(work, "audit.jsonl")
	})
	for path := range own {
		keep(path)
	}
	if err := os.WriteFile(filepath.Join(work, "mine.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if answer := w.bash("cat mine.txt && echo written > new.txt"); !strings.Contains(answer, "SUCCEEDED") {
		t.Fatalf("commands do not run: %s", answer)
	}
	own["audit.jsonl"] = "audit.jsonl"
	ctx := w.context()
	w.StatFile(ctx, &pb.StatFileRequest{Path: secret}) // of which there is a record
	said := func(m proto.Message, err error) string { return fmt.Sprint(m, err) }
	answers := map[string]string{
		"grep all":     w.call("grep", map[string]any{"pattern": "canary", "output_mode": "content"}),
		"glob all":     w.call("glob", map[string]any{"pattern": "**/own.txt"}),
		"tree":         everything(w.DownloadTree(ctx, &pb.DownloadTreeRequest{})),
		"bash all":     w.bash("grep -rs canary . ; find . -name own.txt -o -name 'audit*' -size +0"),
		"bash rm":      w.bash("$(printf rm) -rf state kept caches others audit.jsonl*"),
		"list all":     said(w.ListFiles(ctx, &pb.ListFilesRequest{Recursive: true})),
		"move_file":    w.call("move_file", map[string]any{"from": "state", "to": "elsewhere"}),
		"bash symlink": w.bash("ln -s state/toolserver/own.txt l; cat l; ln audit.jsonl m; cat m"),
	}
	for path, dir := range own {
		for name, answer := range map[string]string{
			"read_file":    w.call("read_file", map[string]any{"path": path}),
			"grep":         w.call("grep", map[string]any{"pattern": "canary", "path": dir, "output_mode": "content"}),
			"glob":         w.call("glob", map[string]any{"pattern": "*", "path": dir}),
			"list_dir":     w.call("list_dir", map[string]any{"path": dir}),
			"write_file":   w.call("write_file", map[string]any{"path": path, "content": "changed"}),
			"delete_file":  w.call("delete_file", map[string]any{"path": dir, "recursive": true}),
			"StatFile":     said(w.StatFile(ctx, &pb.StatFileRequest{Path: path, Digest: true})),
			"ListFiles":    said(w.ListFiles(ctx, &pb.ListFilesRequest{Path: dir})),
			"ReadFile":     everything(w.ReadFile(ctx, &pb.ReadFileRequest{Path: path})),
			"DownloadTree": everything(w.DownloadTree(ctx, &pb.DownloadTreeRequest{Path: dir})),
			"WriteFile":    said(w.write(path, "changed", 0o600)),
			"RemoveFile":   said(w.RemoveFile(ctx, &pb.RemoveFileRequest{Path: dir, Recursive: true})),
			"UploadTree":   fmt.Sprint(w.untar(filepath.Dir(path), map[string]string{filepath.Base(path): "changed"})),
			"bash":         w.bash("cat " + path + "; echo changed >>" + path + "; chmod 777 " + path + "; mv " + path + " mine2; cat mine2; rm -f mine2"),
		} {
			answers[name+" "+path] = answer
		}
	}
	for name, answer := range answers {
		if strings.Contains(answer, secret) {
			t.Errorf("%s shows it: %s", name, answer)
		}
	}
	for path := range own {
		data, err := os.ReadFile(filepath.Join(work, path))
		if err != nil || path != "audit.jsonl" && string(data) != secret || !strings.Contains(string(data), secret) {
			t.Errorf("%s is %.200q, %v", path, data, err)
		}
	}
	for _, record := range bytes.Split(bytes.TrimSpace(must(os.ReadFile(filepath.Join(work, "audit.jsonl")))), []byte{'\n'}) {
		if !json.Valid(record) {
			t.Errorf("a record is %q", record)
		}
	}
}

// TestSecretFilesAreClosed has a file with a secret of the server in the workspace.
func TestSecretFilesAreClosed(t *testing.T) {
	work := t.TempDir()
	file := filepath.Join(work, "secret.txt")
	if err := os.WriteFile(file, []byte("canary-93ab"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWhole(t, work, func(c *config.Config) { c.Secrets = []config.Secret{{File: file}} })
	// Reversed, nobody masks it.
	if answer := w.bash("rev secret.txt; echo changed >secret.txt; echo ran"); strings.Contains(answer, "ba39-yranac") || !strings.Contains(answer, "ran") {
		t.Errorf("bash: %s", answer)
	}
	for _, tool := range []string{"read_file", "write_file"} {
		input := map[string]any{"path": "secret.txt"}
		if tool == "write_file" {
			input["content"] = "changed"
		}
		if answer := w.call(tool, input); strings.Contains(answer, "SUCCEEDED") {
			t.Errorf("%s: %s", tool, answer)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "canary-93ab" {
		t.Errorf("it is %q, %v", data, err)
	}
}

// TestOwnFilesElsewhere has a file with a secret of the server outside of the workspace,
// and a rule that lets commands read whatever they name, without namespaces.
func TestOwnFilesElsewhere(t *testing.T) {
	file, other := filepath.Join(t.TempDir(), "secret.txt"), filepath.Join(t.TempDir(), "other.txt")
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	if err := errors.Join(os.WriteFile(file, []byte("canary-51f0"), 0o600), os.WriteFile(other, []byte("not-ours"), 0o600),
		os.WriteFile(rules, []byte("version: 1\nrules:\n- {name: all, action: allow, tools: [\"*\"]}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := newWhole(t, t.TempDir(), func(c *config.Config) {
		c.Secrets, c.Policy.File, c.Sandbox.Namespaces = []config.Secret{{File: file}}, rules, false
	})
	// Reversed, nobody masks it.
	answer := w.bash("rev " + file + " 2>&1; rev " + other + "; echo ran")
	if strings.Contains(answer, "0f15-yranac") || !strings.Contains(answer, "ran") || !strings.Contains(answer, "sruo-ton") {
		t.Errorf("bash: %s", answer)
	}
}

// TestClosedFilesKeepTheirNames has commands rename what is above a file with a secret
// and above what is the server's own, which would have other names then.
func TestClosedFilesKeepTheirNames(t *testing.T) {
	work := t.TempDir()
	file := filepath.Join(work, "conf/keys/secret.txt")
	kept := filepath.Join(work, "var/kept/own.txt")
	for _, path := range []string{file, kept} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("canary-77c0"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w := newWhole(t, work, func(c *config.Config) {
		c.Secrets, c.Artifacts.Dir = []config.Secret{{File: file}}, filepath.Dir(kept)
	})
	answer := w.bash("mv -T conf c2; mv -T conf/keys k2; mv -T var v2; mv conf/keys/secret.txt s2; mkdir -p conf/more && echo x >conf/more/x && mv conf/more conf/m2 && cat conf/m2/x && echo ran")
	if !strings.Contains(answer, "ran") {
		t.Errorf("other files of the directory: %s", answer)
	}
	// Reversed, nobody masks it.
	answer = w.bash("find . -type f | xargs rev; rev conf/keys/secret.txt c2/keys/secret.txt k2/secret.txt s2 v2/kept/own.txt var/kept/own.txt; echo ran")
	if strings.Contains(answer, "0c77-yranac") || !strings.Contains(answer, "ran") {
		t.Errorf("bash: %s", answer)
	}
	for _, path := range []string{file, kept} {
		if data, err := os.ReadFile(path); err != nil || string(data) != "canary-77c0" {
			t.Errorf("%s is %q, %v", path, data, err)
		}
	}
}

// TestAuditLogRotates has the audit log of a workspace go on in a new file while a
// command runs: what was hidden from that stays hidden by its new name, and from the next
// command all of it is.
func TestAuditLogRotates(t *testing.T) {
	work := t.TempDir()
	log := filepath.Join(work, "log/audit.jsonl")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWhole(t, work, func(c *config.Config) { c.Audit.File, c.Audit.MaxBytes = log, 64<<10 })
	if answer := w.bash("echo ran; cat log/*"); !strings.Contains(answer, "ran") || strings.Contains(answer, `\"seq\"`) {
		t.Fatalf("before: %s", answer)
	}
	time.Sleep(50 * time.Millisecond) // a shell is made ready meanwhile, from which the next file is not hidden
	running := make(chan string)
	go func() {
		running <- w.bash("touch begun; until [ -e go ]; do sleep 0.05; done; cat log/audit.jsonl.0*; echo x >>$(ls log/audit.jsonl.0*); echo ran")
	}()
	there := func(pattern string) []string {
		files, err := filepath.Glob(filepath.Join(work, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	for len(there("begun")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	for i := 0; len(there("log/audit.jsonl.0*")) == 0; i++ {
		if i == 10_000 {
			t.Fatal("the log is still the first")
		}
		w.StatFile(w.context(), &pb.StatFileRequest{Path: "canary"})
	}
	full := must(os.ReadFile(there("log/audit.jsonl.0*")[0]))
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]string{"running": <-running, "next": w.bash("cat log/*; echo ran")} {
		if !strings.Contains(answer, "ran") || strings.Contains(answer, "canary") {
			t.Errorf("%s: %.1000s", name, answer)
		}
	}
	if now := must(os.ReadFile(there("log/audit.jsonl.0*")[0])); !bytes.Equal(now, full) {
		t.Error("the full file was changed")
	}
}

// TestServersOwnWithoutNamespaces has no command run that could not be kept from what
// is the server's own.
func TestServersOwnWithoutNamespaces(t *testing.T) {
	work := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(work, "state"))
	w := newWhole(t, work, func(c *config.Config) { c.Sandbox.Namespaces = false })
	if answer := w.bash("echo out"); !strings.Contains(answer, "the workspace has the server's own files in it") || strings.Contains(answer, "SUCCEEDED") {
		t.Errorf("answer %s", answer)
	}
	if answer := w.call("write_file", map[string]any{"path": "f", "content": "x"}); !strings.Contains(answer, "SUCCEEDED") {
		t.Errorf("answer %s", answer)
	}
}

// TestUploadsLeaveTheReserve has a client fill a file system: what commands leave of it
// is left.
func TestUploadsLeaveTheReserve(t *testing.T) {
	work := t.TempDir()
	if err := syscall.Mount("tmpfs", work, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(work, syscall.MNT_DETACH) })
	w := newWhole(t, work, nil)
	part := strings.Repeat("x", 1<<20)
	var err error
	n := 0
	for ; err == nil && n < 40; n++ {
		if n%2 == 0 {
			_, err = w.write(fmt.Sprint("f", n), part, 0o600)
		} else {
			err = w.untar("", map[string]string{fmt.Sprint("f", n): part})
		}
	}
	if code := status.Code(err); code != codes.ResourceExhausted || !strings.Contains(err.Error(), "sandbox.limits.reserved_space") {
		t.Errorf("the end was %v", err)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(work, &s); err != nil || s.Bavail*uint64(s.Bsize) < 3<<20 || n < 25 {
		t.Errorf("after %d files %d bytes are left: %v", n, s.Bavail*uint64(s.Bsize), err)
	}
	if _, err := w.RemoveFile(w.context(), &pb.RemoveFileRequest{Path: "f0"}); err != nil {
		t.Error(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// serveConfig serves as a configuration says, until the test ends, and returns a
// connection.
func serveConfig(t *testing.T, c *config.Config) *grpc.ClientConn {
	t.Helper()
	made, err := server.New(c, zap.NewNop(), prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- made.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.ShutDown(made, 0)
		<-served
	})
	return conn
}
