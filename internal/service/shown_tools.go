// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync/atomic"

	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// shownTools keeps the messages that describe a registry's tools until the
// registry changes: they are the same for everybody.
type shownTools struct{ current atomic.Pointer[shown] }

type shown struct {
	revision    uint64
	entries     []*tools.Entry
	index, full []*pb.Tool
}

// of returns the tools and, in the same order, the messages of a view. Neither
// must be changed.
func (s *shownTools) of(registry *tools.Registry, view pb.ToolView) ([]*tools.Entry, []*pb.Tool) {
	entries, revision := registry.All()
	now := s.current.Load()
	if now == nil || now.revision != revision {
		now = &shown{revision: revision, entries: entries}
		for _, entry := range entries {
			now.index = append(now.index, toolToProto(entry, pb.ToolView_TOOL_VIEW_INDEX))
			now.full = append(now.full, toolToProto(entry, pb.ToolView_TOOL_VIEW_FULL))
		}
		s.current.Store(now)
	}
	if view == pb.ToolView_TOOL_VIEW_FULL {
		return now.entries, now.full
	}
	return now.entries, now.index
}
