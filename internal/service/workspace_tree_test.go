// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// entry is one of an archive.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, ""}
}

func archive(entries ...entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			panic(err)
		}
		io.WriteString(w, e.content)
	}
	w.Close()
	return b.Bytes()
}

// tree uploads an archive of entries.
func (f *fileClient) tree(path string, entries ...entry) (*pb.UploadTreeResponse, error) {
	return f.untar(&pb.UploadTreeHeader{Path: path}, archive(entries...))
}

func (f *fileClient) untar(header *pb.UploadTreeHeader, data []byte) (*pb.UploadTreeResponse, error) {
	stream, err := f.UploadTree(timeout(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	if header != nil {
		stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Header{Header: header}})
	}
	for part := range slices.Chunk(data, 10_000) {
		stream.Send(&pb.UploadTreeRequest{Part: &pb.UploadTreeRequest_Data{Data: part}})
	}
	return stream.CloseAndRecv()
}

// download fetches a tree, as lines about its entries.
func (f *fileClient) download(request *pb.DownloadTreeRequest) (lines []string, summary *pb.TreeSummary, err error) {
	f.t.Helper()
	stream, err := f.DownloadTree(timeout(f.t), request)
	if err != nil {
		f.t.Fatal(err)
	}
	var data bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		data.Write(m.GetData())
		summary = m.GetSummary()
	}
	if summary.GetSha256() != sha(data.String()) || summary.GetArchiveBytes() != uint64(data.Len()) {
		f.t.Errorf("summary of %d bytes: %v", data.Len(), summary)
	}
	for r := tar.NewReader(&data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, summary, nil
		}
		if err != nil {
			f.t.Fatal(err)
		}
		content, _ := io.ReadAll(r)
		lines = append(lines, fmt.Sprintf("%c %o %s%s %.20s", h.Typeflag, h.Mode, h.Name, h.Linkname, content))
	}
}

func leftOut(summary *pb.TreeSummary) string {
	var b strings.Builder
	for _, l := range summary.GetLeftOut() {
		fmt.Fprintf(&b, "%s: %s\n", l.GetPath(), l.GetReason())
	}
	return b.String()
}

func TestTreeThereAndBack(t *testing.T) {
	f := serveFiles(t)
	large := strings.Repeat("large", 200_000)
	sent := []entry{
		dir("src"), file("src/main.go", "package main\n"), dir("src/empty"), file("big", large), symlink("link", "src/main.go"),
		file("no/directory/said/so", ""), file(strings.Repeat("long/", 60)+"name", "l"), file("bad\xffname", "b"),
	}
	sent[1].Mode = 0o750
	got, err := f.tree("to", sent...)
	if err != nil {
		t.Fatal(err)
	}
	if s := got.GetSummary(); s.GetFiles() != 5 || s.GetLinks() != 1 || s.GetDirectories() != 66 || s.GetFileBytes() != uint64(13+len(large)+2) || s.GetLeftOutCount() != 0 {
		t.Errorf("uploaded: %v", s)
	}
	if f.onDisk("to/link") != "package main\n" {
		t.Error("the link leads elsewhere")
	}
	lines, summary, err := f.download(&pb.DownloadTreeRequest{Path: "to", Exclude: []string{"long", "no/dir*"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0 644 bad\xffname b", "0 644 big largelargelargelarge", "2 777 linksrc/main.go ", "5 755 no/ ", "5 755 src/ ", "5 755 src/empty/ ", "0 750 src/main.go package main\n"}
	if !slices.Equal(lines, want) {
		t.Errorf("downloaded %q, want %q", lines, want)
	}
	if summary.GetFiles() != 3 || summary.GetDirectories() != 3 {
		t.Errorf("summary: %v", summary)
	}

	// Again, over what is there, with one file changed; then undone.
	sent[1] = file("src/main.go", "package other\n")
	if got, err = f.tree("to", sent...); err != nil || got.GetSummary().GetLeftOutCount() != 0 || got.GetSummary().GetDirectories() != 0 {
		t.Fatalf("again: %v, %v", got, err)
	}
	if f.onDisk("to/src/main.go") != "package other\n" {
		t.Error("the file was not replaced")
	}
	if done := f.run(asJSON("undo", `{}`)); done.GetOutcome() != pb.Outcome_OUTCOME_FAILED {
		t.Errorf("an upload was taken back unnamed: %v", done)
	}
	if done := f.run(asJSON("undo", `{"call":"`+got.GetChangeId()+`"}`)); done.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		t.Fatalf("undo: %v", done)
	}
	if f.onDisk("to/src/main.go") != "package main\n" {
		t.Error("undo did not bring the file back")
	}
}

// TestUploadRepository takes the data of a repository, and nothing of it that git runs.
func TestUploadRepository(t *testing.T) {
	f := serveFiles(t)
	object := strings.Repeat("0f", 19)
	taken := []string{
		".git/HEAD", ".git/packed-refs", ".git/refs/heads/main", ".git/refs/remotes/origin/HEAD", ".git/logs/HEAD", ".git/logs/refs/heads/a/b",
		".git/objects/ab/" + object, ".git/objects/pack/pack-" + object + ".pack", "sub/.git/HEAD",
	}
	refused := []string{
		".git/index", ".git/refs/b/HEAD", ".git/refs/b/config", ".git/refs/b/objects/x", ".git/refs/hooks/pre-commit", ".git/objects/b/HEAD", ".git/objects/ab/config",
		".git/config", ".git/config.worktree", ".git/commondir", ".git/hooks/pre-commit", ".git/info/attributes", ".git/objects/info/alternates",
		".git/modules/m/config", ".git/objects/.git/hooks/post-checkout", ".GIT/objects/x", "node_modules/m/.git/objects/x", "other/.git", ".git/HEAD.lock",
	}
	entries := []entry{dir(".git"), dir(".git/refs"), symlink(".git/logs/link", "../hooks")}
	for _, name := range slices.Concat(taken, refused) {
		entries = append(entries, file(name, "x"))
	}
	got, err := f.tree("", entries...)
	if err != nil {
		t.Fatal(err)
	}
	out := leftOut(got.GetSummary())
	for _, name := range refused {
		if _, err := os.Lstat(filepath.Join(f.server.workspace, name)); err == nil || !strings.Contains(out, name+": ") {
			t.Errorf("%s was taken; left out:\n%s", name, out)
		}
	}
	for _, name := range taken {
		if f.onDisk(name) != "x" {
			t.Errorf("%s was left out:\n%s", name, out)
		}
	}
	s := got.GetSummary()
	if n := s.GetLeftOutCount(); int(n) != len(refused)+1 || s.GetAlwaysLeftOutCount() != n {
		t.Errorf("%d left out, %d always:\n%s", n, s.GetAlwaysLeftOutCount(), out)
	}
	for _, l := range s.GetLeftOut() {
		if !l.GetAlways() {
			t.Errorf("%s is not always left out: %s", l.GetPath(), l.GetReason())
		}
	}
}

// TestUploadRepositoryConfig makes a configuration of what runs nothing, once.
func TestUploadRepositoryConfig(t *testing.T) {
	f := serveFiles(t)
	const config = "[core]\n\trepositoryformatversion = 1\n\tfsmonitor = evil\n[extensions]\n\tobjectFormat = sha256\n"
	got, err := f.tree("", dir("r/.git"), dir("r/.git/hooks"), file("r/.git/HEAD", "ref: refs/heads/main\n"), file("r/.git/config", config))
	if err != nil {
		t.Fatal(err)
	}
	const made = "[core]\n\trepositoryformatversion = \"1\"\n[extensions]\n\tobjectformat = \"sha256\"\n"
	if on := f.onDisk("r/.git/config"); on != made {
		t.Errorf("made: %q", on)
	}
	if out := leftOut(got.GetSummary()); !strings.HasPrefix(out, "r/.git/config: it was taken without core.fsmonitor: ") || strings.Count(out, "\n") != 1 || got.GetSummary().GetFiles() != 2 {
		t.Errorf("left out: %s; %v", out, got)
	}
	// One that is there stays, also where a link leads to it, and no single file takes its place.
	got, err = f.tree("", file("r/.git/config", "[core]\n\tbare = false\n"), symlink("l", "r/.git"), file("l/config", "[core]\n\tbare = false\n"))
	if err != nil || f.onDisk("r/.git/config") != made || got.GetSummary().GetAlwaysLeftOutCount() != 2 {
		t.Errorf("again: %v, %v", got, err)
	}
	if _, err := f.write(&pb.WriteFileHeader{Path: "other/.git/config"}, "[core]\n\tbare = false\n"); err == nil {
		t.Error("a single file was taken")
	}
	// What the operator protects stays protected, and that is no matter of course.
	f = serveFiles(t, withPolicy(t, "protected: ['**/.git/config']\n"))
	got, err = f.tree("", file(".git/config", config))
	if err != nil || got.GetSummary().GetLeftOutCount() != 1 || got.GetSummary().GetFiles() != 0 {
		t.Errorf("protected: %v, %v", got, err)
	}
}

// TestUploadIndex takes an index that is read as git will read it and leads nowhere.
func TestUploadIndex(t *testing.T) {
	index := func(name string) string {
		entry := strings.Repeat("\x00", 24) + "\x00\x00\x81\xa4" + strings.Repeat("\x00", 12) + strings.Repeat("\x11", 20) + "\x00" + string(rune(len(name))) + name
		entry += strings.Repeat("\x00", 8-len(entry)%8)
		return "DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + entry + strings.Repeat("\x22", 20)
	}
	config := file("r/.git/config", "[core]\n\trepositoryformatversion = 0\n")
	good, evil := index("main.go"), index(".git/hooks/pre-commit")
	for _, test := range []struct {
		what    string
		entries []entry
		taken   bool
	}{
		{"of files", []entry{config, file("r/.git/index", good)}, true},
		{"of hooks", []entry{config, file("r/.git/index", evil)}, false},
		{"before it is known how it is read", []entry{file("r/.git/index", good), config}, false},
		{"through a link", []entry{config, symlink("l", "r/.git"), file("l/index", evil)}, false},
		{"that is another", []entry{config, file("r/.git/index", good), file("r/.git/index", evil)}, true},
		{"none that git writes", []entry{config, file("r/.git/index", "x")}, false},
	} {
		f := serveFiles(t)
		got, err := f.tree("", test.entries...)
		if err != nil {
			t.Fatal(err)
		}
		there, err := os.ReadFile(filepath.Join(f.server.workspace, "r/.git/index"))
		if test.taken && string(there) != good || !test.taken && err == nil {
			t.Errorf("%s: %q, %v; left out:\n%s", test.what, there, err, leftOut(got.GetSummary()))
		}
		if out := leftOut(got.GetSummary()); !test.taken && !strings.Contains(out, `"git reset" makes it again`) {
			t.Errorf("%s: left out: %s", test.what, out)
		}
	}
}

// TestAlwaysLeftOut: what is always left out hides nothing else.
func TestAlwaysLeftOut(t *testing.T) {
	f := serveFiles(t)
	var entries []entry
	for i := range 1200 {
		entries = append(entries, file(fmt.Sprintf("node_modules/m%d", i), "x"))
	}
	got, err := f.tree("", append(entries, file("/absolute", "x"))...)
	if err != nil {
		t.Fatal(err)
	}
	s := got.GetSummary()
	if s.GetLeftOutCount() != 1201 || s.GetAlwaysLeftOutCount() != 1200 || len(s.GetLeftOut()) != 501 {
		t.Errorf("%d left out, %d always, %d told", s.GetLeftOutCount(), s.GetAlwaysLeftOutCount(), len(s.GetLeftOut()))
	}
	if last := s.GetLeftOut()[len(s.GetLeftOut())-1]; last.GetPath() != "/absolute" || last.GetAlways() {
		t.Errorf("the last: %v", last)
	}
}

func TestHostileArchives(t *testing.T) {
	outside := t.TempDir()
	f := serveFiles(t)
	os.Symlink(outside, filepath.Join(f.server.workspace, "out"))
	os.Mkdir(filepath.Join(f.server.workspace, "there"), 0o700)
	hard := entry{tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "/etc/passwd"}, ""}
	device := entry{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}
	pipe := entry{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, ""}
	got, err := f.tree("",
		file("../above", "x"), file("/etc/absolute", "x"), file("a/../../b", "x"), file("out/through", "x"), dir("out"), file("out", "x"),
		symlink("l1", "/etc"), symlink("l2", "../.."), symlink("l3", "out/secret"), symlink("deep/l4", "../../x"), hard, device, pipe,
		file("there", "x"), file(".git/hooks/pre-commit", "x"), symlink("git", ".git"), file("git/config", "x"), file(".toolserver-tmp-mine", "x"),
		symlink("ok", "there"), file("ok/fine", "fine"), file("esc\x1b[2J", "e"))
	if err != nil {
		t.Fatal(err)
	}
	out := leftOut(got.GetSummary())
	for _, want := range []string{
		`../above: its name has ".."`, "/etc/absolute: its name is absolute", `a/../../b: its name has ".."`, "out/through: it lies behind a link", "out: there is a link in its place",
		`l1: it is a link to "/etc"`, `l2: it is a link to "../.."`, `l3: it is a link to "out/secret"`, `deep/l4: it is a link to "../../x"`,
		"hard: it is a hard link", "null: it is neither", "pipe: it is neither", "there: there: not a regular file", ".git/hooks/pre-commit: ", "git/config: ", ".toolserver-tmp-mine: the server keeps",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("left out:\n%swant %q", out, want)
		}
	}
	if s := got.GetSummary(); s.GetFiles() != 2 || s.GetLeftOutCount() != 17 {
		t.Errorf("%v", s)
	}
	if f.onDisk("there/fine") != "fine" {
		t.Error("a link inside was not followed")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("written outside: %v", entries)
	}
}

// checksum is that of the header of an entry.
func checksum(header []byte) (sum int) {
	for i, b := range header {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int(b)
	}
	return sum
}

func TestBadArchives(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) {
		c.Files.MaxFileBytes, c.Files.MaxTreeBytes, c.Files.MaxTreeEntries = 20_000, 30_000, 50
	})
	good := archive(file("a", strings.Repeat("x", 3000)), file("b", "y"))
	bomb := archive(entry{tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: 1 << 50, Format: tar.FormatPAX}, ""})
	huge := archive(file("n", "")) // a header of 2 MiB for the name of the next
	huge[156] = 'x'
	copy(huge[124:], "00010000000\x00")
	copy(huge[148:], fmt.Sprintf("%06o\x00 ", checksum(huge[:512])))
	var many []entry
	for i := range 51 {
		many = append(many, file(fmt.Sprint("many", i), ""))
	}
	sum := sha(string(good))
	for name, try := range map[string]struct {
		header *pb.UploadTreeHeader
		data   []byte
		code   codes.Code
		words  string
	}{
		"empty":            {&pb.UploadTreeHeader{}, nil, codes.InvalidArgument, "no end"},
		"no header":        {nil, good, codes.InvalidArgument, "header"},
		"gzip":             {&pb.UploadTreeHeader{}, append([]byte("\x1f\x8b"), bytes.Repeat([]byte("z"), 2000)...), codes.InvalidArgument, "not compressed"},
		"cut in a file":    {&pb.UploadTreeHeader{}, good[:2000], codes.InvalidArgument, "middle of an entry"},
		"cut at an entry":  {&pb.UploadTreeHeader{}, good[:512+3072], codes.InvalidArgument, "no end"},
		"huge file":        {&pb.UploadTreeHeader{}, bomb, codes.ResourceExhausted, "20000"},
		"too many":         {&pb.UploadTreeHeader{}, archive(many...), codes.ResourceExhausted, "50 entries"},
		"too much":         {&pb.UploadTreeHeader{}, archive(file("c", strings.Repeat("c", 20_000)), file("d", strings.Repeat("d", 20_000))), codes.ResourceExhausted, "30000"},
		"endless":          {&pb.UploadTreeHeader{}, append(archive(), make([]byte, 100_000)...), codes.ResourceExhausted, "60000"},
		"another digest":   {&pb.UploadTreeHeader{Sha256: sha("x")}, good, codes.DataLoss, sum},
		"into a file":      {&pb.UploadTreeHeader{Path: "file"}, good, codes.FailedPrecondition, "file"},
		"out of workspace": {&pb.UploadTreeHeader{Path: ".."}, good, codes.PermissionDenied, "outside"},
		"no real end":      {&pb.UploadTreeHeader{}, append(archive(file(strings.Repeat("n/", 2500)+"n", "")), 1), codes.InvalidArgument, "no end"},
		"huge header":      {&pb.UploadTreeHeader{}, huge, codes.InvalidArgument, "middle of an entry"},
	} {
		t.Run(name, func(t *testing.T) {
			f.server.write("file", "f")
			_, err := f.untar(try.header, try.data)
			wantCode(t, err, try.code, try.words)
		})
	}
	if _, err := f.untar(&pb.UploadTreeHeader{Sha256: sum}, good); err != nil {
		t.Error(err)
	}
	filepath.WalkDir(f.server.workspace, func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(path, ".toolserver-tmp-") {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}

func TestTreesAndPolicy(t *testing.T) {
	f := serveFiles(t, func(c *service.Config) {
		c.Policy = rulesOf(t, "version: 1\nrules:\n  - {name: secrets, action: deny, reads: ['**/*.key'], writes: ['**/*.key'], reason: Keys stay.}\n  - {name: drafts, action: ask, reads: ['drafts/**']}\n")
	})
	got, err := f.tree("", file("a.txt", "a"), file("sub/b.key", "b"), file("drafts/d", "d"))
	if err != nil || leftOut(got.GetSummary()) != "sub/b.key: Keys stay. (rule secrets)\n" {
		t.Fatalf("uploaded: %v, %v", got, err)
	}
	f.server.write("c.key", "c")
	lines, summary, err := f.download(new(pb.DownloadTreeRequest))
	if err != nil || strings.Join(lines, ",") != "0 644 a.txt a" {
		t.Errorf("downloaded %q, %v", lines, err)
	}
	if out := leftOut(summary); !strings.Contains(out, "c.key: Keys stay. (rule secrets)") || !strings.Contains(out, "drafts: ") || summary.GetLeftOutCount() != 2 {
		t.Errorf("left out %q", out)
	}
}

// TestDeniedDuringADownload reads slowly, while a policy comes into force that denies
// what has not been sent yet.
func TestDeniedDuringADownload(t *testing.T) {
	f := serveFiles(t)
	f.server.write("a", strings.Repeat("a", 16<<20)) // more than is under way
	f.server.write("b.txt", "b")
	stream, err := f.DownloadTree(timeout(t), new(pb.DownloadTreeRequest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := f.server.ReplacePolicy(rulesOf(t, "version: 1\nrules: [{name: late, action: deny, reads: ['b.txt']}]\n")); err != nil {
		t.Fatal(err)
	}
	var summary *pb.TreeSummary
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		summary = message.GetSummary()
	}
	if summary.GetFiles() != 1 || !strings.HasPrefix(leftOut(summary), "b.txt: ") {
		t.Errorf("downloaded: %v", summary)
	}
}

func TestAuditOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(audit.Options{Config: audit.Config{File: path}})
	if err != nil {
		t.Fatal(err)
	}
	f := serveFiles(t, func(c *service.Config) { c.Audit = log })
	f.write(&pb.WriteFileHeader{Path: "x"}, "hello")
	f.write(&pb.WriteFileHeader{Path: "../x"}, "hello")
	f.read(&pb.ReadFileRequest{Path: "x", Digest: true})
	f.tree("", file("t", "tree"), file("../u", "u"))
	f.server.shutdown()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"step":"transfer"`) {
			lines = append(lines, line)
		}
	}
	wants := [][]string{
		{`"tool":"workspace_write"`, `"action":"allow"`, `"outcome":"succeeded"`, `"path":"x"`, `"bytes":5`, `"digest":"` + sha("hello"), `"count":1`},
		{`"tool":"workspace_write"`, `"action":"deny"`, `"outcome":"permissiondenied"`, `"path":"../x"`, "outside"},
		{`"tool":"workspace_read"`, `"outcome":"succeeded"`, `"bytes":5`, `"digest":"` + sha("hello")},
		{`"tool":"workspace_write"`, `"path":"."`, `"bytes":4`, `"count":1`, "1 entry was left out"},
	}
	if len(lines) != len(wants) {
		t.Fatalf("%d records: %q", len(lines), lines)
	}
	for i, want := range wants {
		for _, word := range want {
			if !strings.Contains(lines[i], word) {
				t.Errorf("record %d is %s, want %s", i, lines[i], word)
			}
		}
	}
}

// TestChangesOfClients: what the client brought is where the changes of calls begin.
func TestChangesOfClients(t *testing.T) {
	f := serveFiles(t)
	if _, err := f.tree("", file("a", "one\n"), file("b", "b\n")); err != nil {
		t.Fatal(err)
	}
	list := func() string { return f.run(asJSON("list_changes", `{}`)).GetContent()[0].GetText() }
	if got := list(); !strings.HasPrefix(got, "No file differs") || !strings.Contains(got, "\nchange-1 (by the client, no call): created a, created b\n") {
		t.Errorf("after an upload:\n%s", got)
	}
	f.run(asJSON("write_file", `{"path":"a","content":"one\ntwo\n"}`))
	if got := list(); !strings.HasPrefix(got, "changed  a (+1 -0 lines)\n\n") {
		t.Errorf("after an edit:\n%s", got)
	}
	if _, err := f.tree("", file("a", "three\n")); err != nil {
		t.Fatal(err)
	}
	if got := list(); !strings.HasPrefix(got, "No file differs") {
		t.Errorf("after another upload:\n%s", got)
	}
	f.run(asJSON("write_file", `{"path":"a","content":"three\nfour\n"}`))
	if got := list(); !strings.HasPrefix(got, "changed  a (+1 -0 lines)\n\n") {
		t.Errorf("after another edit:\n%s", got)
	}
}

// TestNothingToUndo: what changes nothing asks nobody.
func TestNothingToUndo(t *testing.T) {
	for _, mode := range []pb.Mode{pb.Mode_MODE_ACCEPT_EDITS, pb.Mode_MODE_ASK, pb.Mode_MODE_PLAN} {
		f := serveFiles(t)
		f.mode(mode)
		for _, input := range []string{`{}`, `{"call":"x"}`, `{"back_to":"x"}`} {
			done := f.run(asJSON("undo", input))
			if done.GetOutcome() != pb.Outcome_OUTCOME_FAILED || done.GetFailure().GetCode() != "nothing_to_undo" {
				t.Errorf("%s: undo %s: %v", mode, input, done)
			}
		}
	}
}
