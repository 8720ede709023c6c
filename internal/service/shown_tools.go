// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// shownTools keeps the messages that describe a registry's tools until the
// registry changes: they are the same for everybody. Nothing it returns must be
// changed.
type shownTools struct{ current atomic.Pointer[shown] }

// shown are the tools of one revision of the registry, each view of which is
// made when somebody asks for it.
type shown struct {
	revision    uint64
	entries     []*tools.Entry
	private     bool // some are not everybody's
	index, full atomic.Pointer[pb.ListToolsResponse]

	digesting sync.Once
	digests   [][32]byte // of the entries
}

// of returns the tools of now.
func (s *shownTools) of(registry *tools.Registry) *shown {
	entries, revision := registry.All()
	now := s.current.Load()
	if now == nil || now.revision != revision {
		now = &shown{revision: revision, entries: entries}
		now.private = slices.ContainsFunc(entries, func(e *tools.Entry) bool { return e.Spec.Private != tools.Private{} })
		s.current.Store(now)
	}
	return now
}

// version returns the version of a list that has those tools for which has reports
// true. It is made of everything that the tools tell, so that it is the same on every
// server.
func (now *shown) version(has func(*tools.Spec) bool) string {
	now.digesting.Do(func() {
		for _, entry := range now.entries {
			now.digests = append(now.digests, digestOf(toolToProto(entry, pb.ToolView_TOOL_VIEW_FULL)))
		}
	})
	h := sha256.New()
	for i, entry := range now.entries {
		if has(&entry.Spec) {
			h.Write(now.digests[i][:])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func everyTool(*tools.Spec) bool { return true }

// view returns, in the order of the tools, the messages of a view.
func (now *shown) view(view pb.ToolView) *pb.ListToolsResponse {
	made := &now.index
	if view == pb.ToolView_TOOL_VIEW_FULL {
		made = &now.full
	}
	if made.Load() == nil {
		made.CompareAndSwap(nil, now.newView(view)) // of two at once one counts
	}
	return made.Load()
}

func (now *shown) newView(view pb.ToolView) *pb.ListToolsResponse {
	list := &pb.ListToolsResponse{Version: now.version(everyTool)}
	for _, entry := range now.entries {
		list.Tools = append(list.Tools, toolToProto(entry, view))
	}
	list.Tokens = costOf(list.Tools, view)
	return list
}
