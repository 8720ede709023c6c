// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/service"
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
