// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// artifacts gives the sessions what they keep artifacts in.
type artifacts struct {
	store *artifact.Store

	mu    sync.Mutex
	known map[*session.Session]bool // whose end is waited for
}

// of returns what a call of a session keeps artifacts in; nil where none are kept.
func (a *artifacts) of(s *session.Session) tools.Artifacts {
	if a == nil {
		return nil
	}
	return sessionArtifacts{a, s}
}

// enter sees to it that the artifacts of a session end with it.
func (a *artifacts) enter(s *session.Session) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[s] {
		return nil
	}
	if !s.AfterClose(func() { a.leave(s) }) {
		return artifact.ErrClosed
	}
	a.known[s] = true
	return nil
}

func (a *artifacts) leave(s *session.Session) {
	a.mu.Lock()
	delete(a.known, s)
	a.mu.Unlock()
	if !s.Suspended() {
		a.store.End(artifactsOf(s))
	}
}

// artifactsOf tells a session also from a later one with its id.
func artifactsOf(s *session.Session) artifact.SessionID {
	return artifact.SessionID{Owner: string(s.Owner), Session: s.ID + " " + strconv.FormatInt(s.Ref().Epoch, 10)}
}

type sessionArtifacts struct {
	all     *artifacts
	session *session.Session
}

// Create begins an artifact of the session.
func (a sessionArtifacts) Create(name, mediaType string) (tools.ArtifactWriter, error) {
	if err := a.all.enter(a.session); err != nil {
		return nil, err
	}
	w, err := a.all.store.Create(artifactsOf(a.session), name, mediaType)
	if err != nil {
		return nil, err
	}
	return artifactWriter{w}, nil
}

// Find returns an artifact of the session.
func (a sessionArtifacts) Find(uri string) (tools.KeptArtifact, error) {
	id, _ := strings.CutPrefix(uri, tools.ArtifactScheme)
	if !artifact.IsID(id) {
		return tools.KeptArtifact{}, tools.Failf("not_an_artifact",
			"%.80q is not the URI of an artifact: that is %s and 26 letters and digits, as the answer has it that it belongs to. %s", uri, tools.ArtifactScheme, a.known())
	}
	info, path, err := a.all.store.Find(artifactsOf(a.session), id)
	if err != nil {
		return tools.KeptArtifact{}, tools.Failf("artifact_not_found",
			"%s: this session has no such artifact. It never was, belongs to another session, or is no longer kept: artifacts are kept for %s, and the oldest make room for new ones. %s",
			uri, a.all.store.TTL(), a.known())
	}
	return keptArtifact(info, path), nil
}

// known tells which artifacts there are.
func (a sessionArtifacts) known() string {
	all := a.All()
	if len(all) == 0 {
		return "It has none now: make the call again whose output it was."
	}
	const most = 5
	names := make([]string, 0, most)
	for _, k := range all[:min(len(all), most)] {
		names = append(names, fmt.Sprintf("%s (%s, %s)", k.URI, k.Name, output.Size(k.Size)))
	}
	if len(all) > most {
		names = append(names, fmt.Sprintf("and %d more, which list_dir %s lists", len(all)-most, `{"path":"artifact:"}`))
	}
	return "It has " + strings.Join(names, ", ") + "."
}

// All returns the artifacts of the session.
func (a sessionArtifacts) All() []tools.KeptArtifact {
	list, paths := a.all.store.List(artifactsOf(a.session))
	all := make([]tools.KeptArtifact, len(list))
	for i, info := range list {
		all[i] = keptArtifact(info, paths[i])
	}
	return all
}

func keptArtifact(info artifact.Info, path string) tools.KeptArtifact {
	dir, file := filepath.Split(path)
	return tools.KeptArtifact{
		Artifact: artifactOf(info), Dir: filepath.Clean(dir), File: file, Writing: info.Expires.IsZero(), Expires: info.Expires,
	}
}

type artifactWriter struct{ *artifact.Writer }

// Close returns what is kept.
func (w artifactWriter) Close() tools.Artifact { return artifactOf(w.Writer.Close()) }

func artifactOf(info artifact.Info) tools.Artifact {
	a := tools.Artifact{
		URI: tools.ArtifactScheme + info.ID, Name: info.Name, MediaType: info.MediaType,
		Size: info.Size, Incomplete: info.Incomplete,
	}
	if info.Incomplete != "" {
		a.Written = info.Written
	}
	return a
}

func (s *toolService) ReadArtifact(request *pb.ReadArtifactRequest, stream grpc.ServerStreamingServer[pb.ReadArtifactResponse]) error {
	id, ok := strings.CutPrefix(request.GetUri(), tools.ArtifactScheme)
	if !ok {
		return invalid("uri %.80q is not that of an artifact: it begins with %q", request.GetUri(), tools.ArtifactScheme)
	}
	if s.server.artifacts == nil {
		return artifact.ErrNotFound
	}
	info, reader, err := s.server.artifacts.store.Read(string(principalOf(stream.Context()).Owner()), id, request.GetOffset(), request.GetLimit())
	if err != nil {
		return err
	}
	defer reader.Close()
	out := sending(stream, s.server.files.limits.Idle, nil)
	defer out.stop()
	offset := request.GetOffset()
	response := &pb.ReadArtifactResponse{Info: artifactToProto(&info)}
	for buffer := make([]byte, executor.MaxChunk); ; {
		n, err := io.ReadFull(reader, buffer)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		response.Offset, response.Data = offset, buffer[:n]
		if n > 0 || response.Info != nil {
			if err := out.send(response); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		offset += uint64(n)
		response = new(pb.ReadArtifactResponse)
	}
}

func artifactToProto(info *artifact.Info) *pb.ArtifactInfo {
	m := &pb.ArtifactInfo{
		Name: info.Name, MediaType: info.MediaType, Size: info.Size, Complete: info.Complete,
		Incomplete: info.Incomplete, WrittenBytes: info.Written,
	}
	if !info.Expires.IsZero() {
		m.ExpireTime = timestamppb.New(info.Expires)
	}
	return m
}
