// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/recording"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

var items = []recording.Item{
	{Session: &pb.Session{SessionId: "s1"}},
	{Tool: &pb.Tool{Name: "bash", InputSchema: `{"type":"object"}`}},
	{Execution: &pb.Execution{ExecutionId: "x1", Tool: "bash", InputJson: `{"command":"ls"}`}},
	{Event: &pb.Event{ExecutionId: "x1", Sequence: 1, Kind: &pb.Event_Started{Started: &pb.Started{}}}},
	{Event: &pb.Event{ExecutionId: "x1", Sequence: 2, Kind: &pb.Event_Finished{Finished: &pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED}}}},
}

// written returns a file of items.
func written(t testing.TB) string {
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, recording.Header{Time: time.Unix(1, 0).UTC(), Server: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if err := w.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func read(text string) (got []recording.Item, err error) {
	r, err := recording.NewReader(strings.NewReader(text))
	for err == nil {
		var item recording.Item
		if item, err = r.Next(); err == nil {
			got = append(got, item)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, err
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	got, err := read(written(t))
	if err != nil || len(got) != len(items) {
		t.Fatalf("%d items, %v", len(got), err)
	}
	for i := range got {
		same := func(a, b proto.Message) bool { return proto.Equal(a, b) }
		if !same(got[i].Session, items[i].Session) || !same(got[i].Tool, items[i].Tool) || !same(got[i].Execution, items[i].Execution) || !same(got[i].Event, items[i].Event) {
			t.Errorf("item %d is %v", i, got[i])
		}
	}
}

// TestWrongFiles: what is wrong with a file is said, with its line.
func TestWrongFiles(t *testing.T) {
	whole := written(t)
	lines := strings.SplitAfter(whole, "\n")
	without := func(i int) string { return strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "") }
	swap := func(old, to string) string { return strings.Replace(whole, old, to, 1) }
	for name, c := range map[string]struct{ file, want string }{
		"empty":            {"", "no recording"},
		"text":             {"hello\n", "no recording"},
		"binary":           {strings.Repeat("\x00", 1<<20), "no recording"},
		"other JSON":       {`{"a":1}` + "\n", "no recording"},
		"newer":            {swap(`"toolserverRecording":1`, `"toolserverRecording":2`), "version 2.*use a newer toolserver"},
		"cut in a line":    {whole[:len(whole)-20], "cut off after line 6"},
		"cut after a line": {strings.Join(lines[:4], ""), "cut off after line 4"},
		"a line is gone":   {without(2), "line 6 .*6 lines are before it"},
		"no execution":     {without(3), "line 4 .*execution \"x1\", which has no line before it"},
		"twice":            {swap(lines[3], lines[3]+lines[3]), "line 5 .*there twice"},
		"backwards":        {swap(`"sequence":"2"`, `"sequence":"1"`), "event 1 of execution x1 comes after event 1"},
		"unknown kind":     {swap(`{"tool":`, `{"tol":`), `line 3 .*no kind "tol"`},
		"two kinds":        {swap(`{"tool":`, `{"end":{},"tool":`), "line 3 .*2 members"},
		"no message":       {swap(`{"name":"bash"`, `{"name":7`), "line 3 .*no tool of the contract"},
		"no event":         {swap(`"started":{}`, `"later":{}`), "line 5 .*no kind that this program knows"},
		"behind the end":   {whole + "{}\n", "line 8 .*behind the end"},
		"long":             {lines[0] + `{"tool":"` + strings.Repeat("a", recording.MaxLine), "line 2 .*more than 8388608 bytes"},
		"a long header":    {`{"toolserverRecording":1,"server":"` + strings.Repeat("a", 1<<20) + "\"}\n", "no recording"},
	} {
		_, err := read(c.file)
		if err == nil || !matches(c.want, err.Error()) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// matches reports whether the parts of a pattern, with .* between them, are in text in order.
func matches(pattern, text string) bool {
	for part := range strings.SplitSeq(pattern, ".*") {
		_, after, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// TestLaterFields: a server may know more than this program.
func TestLaterFields(t *testing.T) {
	if _, err := read(strings.Replace(written(t), `"sequence":"1"`, `"sequence":"1","new":{"a":1}`, 1)); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	os.WriteFile(one, []byte(written(t)), 0o600)
	os.WriteFile(two, []byte(strings.ReplaceAll(written(t), "x1", "x2")), 0o600)
	all, err := recording.Load(one, two)
	if err != nil || len(all.Calls) != 2 || len(all.Tools) != 1 || len(all.Sessions) != 2 || !all.Calls[1].Whole() {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := recording.Load(one, one); err == nil || !strings.Contains(err.Error(), "give each once") {
		t.Errorf("the same file twice: %v", err)
	}
	if _, err := recording.Load(filepath.Join(dir, "three")); err == nil {
		t.Error("a file that is not there was loaded")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f))
	f.Fuzz(func(t *testing.T, text string) {
		items, err := read(text)
		if err == nil && len(items) > strings.Count(text, "\n") {
			t.Errorf("%d items of %d bytes", len(items), len(text))
		}
	})
}
