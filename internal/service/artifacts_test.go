// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/service"
	searchtools "github.com/toolserver/toolserver/internal/tools/search"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func withArtifacts(t *testing.T, config artifact.Config) func(*service.Config) {
	return func(c *service.Config) {
		config.Dir = t.TempDir()
		store, err := artifact.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		c.Artifacts = store
	}
}

// keep has an artifact made and returns the link to it.
func (c *client) keep(session, input string) *pb.ArtifactLink {
	c.t.Helper()
	request := asJSON("keeps", input)
	request.SessionId = session
	end := c.run(request)
	if len(end.GetContent()) != 2 {
		c.t.Fatalf("finished %v", end)
	}
	return end.GetContent()[1].GetArtifact()
}

// read returns the first message, all bytes, and how many messages there were.
func (c *client) read(uri string, offset, limit uint64) (first *pb.ReadArtifactResponse, data []byte, n int, err error) {
	stream, err := c.ReadArtifact(timeout(c.t), &pb.ReadArtifactRequest{Uri: uri, Offset: offset, Limit: limit})
	if err != nil {
		return nil, nil, 0, err
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return first, data, n, nil
		}
		if err != nil {
			return first, data, n, err
		}
		if response.GetOffset() != offset+uint64(len(data)) || len(response.GetData()) > 32_000 || (response.GetInfo() != nil) != (n == 0) {
			c.t.Errorf("message %d: %d bytes at %d, info %v", n, len(response.GetData()), response.GetOffset(), response.GetInfo())
		}
		if n++; n == 1 {
			first = response
		}
		data = append(data, response.GetData()...)
	}
}

func TestReadArtifact(t *testing.T) {
	s := serve(t, withTokens, withArtifacts(t, artifact.Config{MaxBytes: 200_000}))
	c, bob := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob")
	link := c.keep("", `{"bytes":100000}`)
	if link.GetSize() != 100_000 || link.GetName() != "numbers.txt" || link.GetMediaType() != "text/plain" || link.GetIncomplete() != "" {
		t.Errorf("link %v", link)
	}
	whole := bytes.Repeat([]byte("0123456789"), 10_000)
	for _, test := range []struct {
		offset, limit uint64
		want          []byte
		messages      int
	}{
		{0, 0, whole, 4},
		{0, 32_000, whole[:32_000], 1},
		{5, 10, whole[5:15], 1},
		{99_999, 0, whole[99_999:], 1},
		{100_000, 0, nil, 1},
	} {
		first, data, n, err := c.read(link.GetUri(), test.offset, test.limit)
		if err != nil || !bytes.Equal(data, test.want) || n != test.messages {
			t.Errorf("%d, %d: %d bytes in %d messages, %v", test.offset, test.limit, len(data), n, err)
		}
		if i := first.GetInfo(); i.GetSize() != 100_000 || !i.GetComplete() || i.GetMediaType() != "text/plain" || i.GetExpireTime() == nil {
			t.Errorf("info %v", i)
		}
	}
	_, _, _, err := c.read(link.GetUri(), 100_001, 0)
	wantCode(t, err, codes.OutOfRange, "100000")
	_, _, _, err = c.read("file:///etc/passwd", 0, 0)
	wantCode(t, err, codes.InvalidArgument, "artifact:")

	// Somebody else's is not told from none.
	_, _, _, theirs := bob.read(link.GetUri(), 0, 0)
	wantCode(t, theirs, codes.NotFound)
	never := strings.Repeat("a", len(link.GetUri())-len("artifact:"))
	_, _, _, err = bob.read("artifact:"+never, 0, 0)
	wantCode(t, err, codes.NotFound)
	if strings.ReplaceAll(theirs.Error(), strings.TrimPrefix(link.GetUri(), "artifact:"), never) != err.Error() {
		t.Errorf("%v, but %v for one that never was", theirs, err)
	}

	cut := c.keep("", `{"bytes":300000}`)
	if cut.GetSize() != 200_000 || cut.GetWrittenBytes() != 300_000 || cut.GetIncomplete() == "" {
		t.Errorf("one that is too large: %v", cut)
	}
	first, _, _, err := c.read(cut.GetUri(), 0, 1)
	if i := first.GetInfo(); err != nil || i.GetComplete() || i.GetIncomplete() == "" || i.GetWrittenBytes() != 300_000 {
		t.Errorf("one that is too large: %v, %v", i, err)
	}
}

// TestArtifactsEndWithTheirSession also when another session has its id by then.
func TestArtifactsEndWithTheirSession(t *testing.T) {
	c := serve(t, withArtifacts(t, artifact.Config{})).dial("")
	var uris []string
	for range 2 {
		if _, err := c.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "mine"}); err != nil {
			t.Fatal(err)
		}
		uri := c.keep("mine", `{"bytes":10}`).GetUri()
		if _, data, _, err := c.read(uri, 0, 0); err != nil || string(data) != "0123456789" {
			t.Errorf("%q, %v", data, err)
		}
		if _, err := c.CloseSession(timeout(t), &pb.CloseSessionRequest{SessionId: "mine"}); err != nil {
			t.Fatal(err)
		}
		uris = append(uris, uri)
	}
	other := c.keep("", `{"bytes":10}`).GetUri()
	for _, uri := range uris {
		_, _, _, err := c.read(uri, 0, 0)
		wantCode(t, err, codes.NotFound)
	}
	if _, _, _, err := c.read(other, 0, 0); err != nil {
		t.Errorf("of another session: %v", err)
	}
}

func TestWithoutArtifacts(t *testing.T) {
	c := serve(t).dial("")
	if got := text(c.run(asJSON("keeps", `{"bytes":10}`))); got != "nothing is kept" {
		t.Errorf("%q", got)
	}
	_, _, _, err := c.read("artifact:a", 0, 0)
	wantCode(t, err, codes.NotFound)
}

// TestArtifactsByTools reads artifacts as a model does: those of its session, and
// no others; what is wrong with a name says what would be right.
func TestArtifactsByTools(t *testing.T) {
	s := serve(t, withTokens, withArtifacts(t, artifact.Config{MaxBytes: 200_000}), withSearch(t))
	alice, bob := s.dial("alice-alice-alice"), s.dial("bob-bob-bob-bob-bob")
	if _, err := alice.CreateSession(timeout(t), &pb.CreateSessionRequest{SessionId: "other"}); err != nil {
		t.Fatal(err)
	}
	mine, empty, cut := alice.keep("", `{"bytes":5000}`), alice.keep("", `{"bytes":0}`), alice.keep("", `{"bytes":300000}`)
	never := "artifact:" + strings.Repeat("a", 26)
	for _, test := range []struct {
		name          string
		by            *client
		session, tool string
		input, code   string
		want          []string
	}{
		{"its own", alice, "", "read_file", `{"path":"MINE","column":4990}`, "", []string{"1\t9012345678"}},
		{"beyond its end", alice, "", "read_file", `{"path":"MINE","column":6000}`, "", []string{"line 1 ends before column 6000"}},
		{"an empty one", alice, "", "read_file", `{"path":"EMPTY"}`, "", []string{"(the file is empty)"}},
		{"an empty one, searched", alice, "", "grep", `{"path":"EMPTY","pattern":"1"}`, "", []string{"nothing matches in 1 file"}},
		{"one without its end", alice, "", "read_file", `{"path":"CUT","column":199990}`, "", []string{"(the end is missing, of 300000 bytes in all: only the first 200000 bytes"}},
		{"all that there are", alice, "", "list_dir", `{"path":"artifact:"}`, "", []string{mine.GetUri() + "\t5000\tnumbers.txt, kept until ", empty.GetUri() + "\t0\t", cut.GetUri()}},
		{"the first of them", alice, "", "list_dir", `{"path":"artifact:","limit":1}`, "", []string{cut.GetUri() + "\t", `go on with list_dir {"path":"artifact:","limit":1,"offset":1}`}},
		{"one that never was", alice, "", "read_file", `{"path":"NEVER"}`, "artifact_not_found", []string{"kept for 1h0m0s", mine.GetUri() + " (numbers.txt, 4.883 KiB)"}},
		{"malformed", alice, "", "read_file", `{"path":"artifact:../../etc/passwd"}`, "not_an_artifact", []string{"artifact: and 26 letters and digits", mine.GetUri()}},
		{"malformed, searched", alice, "", "grep", `{"path":"artifact:.","pattern":"x"}`, "not_an_artifact", nil},
		{"all at once", alice, "", "read_file", `{"path":"artifact:"}`, "not_a_file", []string{"name one of them", `list_dir {"path":"artifact:"}`}},
		{"as a PDF", alice, "", "read_file", `{"path":"MINE","pages":"1"}`, "not_a_pdf", nil},
		{"of another session", alice, "other", "read_file", `{"path":"MINE"}`, "artifact_not_found", []string{"belongs to another session", "It has none now"}},
		{"of another session, searched", alice, "other", "grep", `{"path":"MINE","pattern":"1"}`, "artifact_not_found", nil},
		{"all of another session", alice, "other", "grep", `{"path":"artifact:","pattern":"1"}`, "artifact_not_found", []string{"no artifacts"}},
		{"all of another session, listed", alice, "other", "list_dir", `{"path":"artifact:"}`, "artifact_not_found", nil},
		{"of another principal", bob, "", "read_file", `{"path":"MINE"}`, "artifact_not_found", []string{"It has none now"}},
	} {
		names := strings.NewReplacer("MINE", mine.GetUri(), "EMPTY", empty.GetUri(), "CUT", cut.GetUri(), "NEVER", never)
		request := asJSON(test.tool, names.Replace(test.input))
		request.SessionId = test.session
		end := test.by.run(request)
		got := text(end)
		if end.GetFailure().GetCode() != test.code {
			t.Errorf("%s: %v, want %q", test.name, end, test.code)
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %.300q lacks %q", test.name, got, want)
			}
		}
	}

	// All of the session are searched, and none of another.
	theirs := alice.keep("other", `{"bytes":50}`)
	found := text(alice.run(asJSON("grep", `{"path":"artifact:","pattern":"0","output_mode":"files_with_matches"}`)))
	if !strings.Contains(found, mine.GetUri()+"\n") || !strings.Contains(found, cut.GetUri()+"\n") || strings.Contains(found, theirs.GetUri()) {
		t.Errorf("found in %q", found)
	}

	// One that has expired says so, and a server without artifacts too.
	short := serve(t, withArtifacts(t, artifact.Config{TTL: time.Millisecond}))
	c := short.dial("")
	gone := asJSON("read_file", `{"path":"`+c.keep("", `{"bytes":10}`).GetUri()+`"}`)
	for ctx := timeout(t); ; {
		if end := c.run(gone); end.GetFailure().GetCode() == "artifact_not_found" {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("it is kept for ever")
		}
	}
	none := serve(t).dial("")
	if end := none.run(asJSON("read_file", `{"path":"`+never+`"}`)); end.GetFailure().GetCode() != "no_artifacts" {
		t.Errorf("without artifacts: %v", end)
	}
}

func withSearch(t *testing.T) func(*service.Config) {
	return func(c *service.Config) {
		if err := c.Registry.Replace("search", searchtools.Tools(search.NewPool(index.NewPool(index.Config{})))...); err != nil {
			t.Fatal(err)
		}
	}
}
