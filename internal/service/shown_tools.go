// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync/atomic"

	"google.golang.org/protobuf/proto"

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
	index, full atomic.Pointer[shownView]
}

// shownView is the list of all tools in one view, as a message and as its bytes.
type shownView struct {
	list *pb.ListToolsResponse
	wire []byte
}

// of returns the tools and, in the same order, the messages of a view.
func (s *shownTools) of(registry *tools.Registry, view pb.ToolView) ([]*tools.Entry, *pb.ListToolsResponse) {
	entries, revision := registry.All()
	now := s.current.Load()
	if now == nil || now.revision != revision {
		now = &shown{revision: revision, entries: entries}
		s.current.Store(now)
	}
	made := &now.index
	if view == pb.ToolView_TOOL_VIEW_FULL {
		made = &now.full
	}
	if made.Load() == nil {
		made.CompareAndSwap(nil, newShownView(entries, view)) // of two at once one counts
	}
	return now.entries, made.Load().list
}

func newShownView(entries []*tools.Entry, view pb.ToolView) *shownView {
	list := new(pb.ListToolsResponse)
	for _, entry := range entries {
		list.Tools = append(list.Tools, toolToProto(entry, view))
	}
	bytes, err := proto.Marshal(list)
	if err != nil { // a text that is not UTF-8: gRPC will say so when it is asked for
		return &shownView{list: list}
	}
	return &shownView{list, bytes}
}

// wireOf returns the bytes of a list that of has returned; nil for others.
func (s *shownTools) wireOf(list *pb.ListToolsResponse) []byte {
	now := s.current.Load()
	if now == nil {
		return nil
	}
	for _, view := range []*shownView{now.index.Load(), now.full.Load()} {
		if view != nil && view.list == list {
			return view.wire
		}
	}
	return nil
}
