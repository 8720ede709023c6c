// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// personaOf returns the system whose tools a list shows, nil for our own, and which of
// ours the session chose beside them. The session may be nil.
func personaOf(asked string, of *session.Session) (_ *persona.System, chosen tools.Selection, err error) {
	if of != nil {
		asked, chosen = cmp.Or(asked, of.Settings().Persona), of.Settings().Tools
	}
	if asked == "" {
		return nil, chosen, nil
	}
	system, ok := persona.Named(asked)
	if !ok {
		return nil, chosen, invalid("persona %.64q: want one of %s", asked, strings.Join(persona.Names(), ", "))
	}
	return system, chosen, nil
}

// inPersona returns the tools of a system that a session can call, by name, and those of
// ours that it has chosen by their names, and those from elsewhere; of all these, those that mean something that is
// wanted.
func (s *toolService) inPersona(system *persona.System, chosen tools.Selection, has, wanted func(*tools.Spec) bool, view pb.ToolView) *pb.ListToolsResponse {
	list := new(pb.ListToolsResponse)
	for _, theirs := range system.Tools {
		var ours *tools.Entry // the one that needs most
		isWanted := false
		for _, meaning := range theirs.Means {
			entry, ok := s.registry.Lookup(meaning.Tool, has)
			if !ok {
				continue
			}
			isWanted = isWanted || wanted(&entry.Spec)
			if ours == nil || entry.Spec.Level > ours.Spec.Level {
				ours = entry
			}
		}
		if ours == nil || !isWanted {
			continue
		}
		tool := toolToProto(ours, pb.ToolView_TOOL_VIEW_INDEX)
		tool.Name, tool.Aliases, tool.Label, tool.Summary = theirs.Name, theirs.Aliases, theirs.Name, theirs.Description
		if view == pb.ToolView_TOOL_VIEW_FULL {
			tool.Description, tool.InputSchema = theirs.Description, string(theirs.Schema())
			tool.Tokens = uint32(tokensOf(tool))
		}
		list.Tools = append(list.Tools, tool)
	}
	entries, _ := s.registry.All()
	for _, entry := range entries {
		taken := func(t *pb.Tool) bool { return t.Name == entry.Spec.Name }
		if has(&entry.Spec) && wanted(&entry.Spec) && (entry.Spec.Kind != tools.Builtin || chosen.Names(&entry.Spec)) && !slices.ContainsFunc(list.Tools, taken) {
			list.Tools = append(list.Tools, toolToProto(entry, view))
		}
	}
	slices.SortFunc(list.Tools, func(a, b *pb.Tool) int { return strings.Compare(a.Name, b.Name) })
	list.Version = versionOf(list.Tools)
	return list
}

// versionOf returns the version of a list: it is made of everything that the tools tell.
func versionOf(list []*pb.Tool) string {
	h := sha256.New()
	for _, tool := range list {
		digest := digestOf(tool)
		h.Write(digest[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func digestOf(tool *pb.Tool) [32]byte {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(tool)
	if err != nil { // a text that is not UTF-8: its bytes do not count
		text = []byte(tool.Name)
	}
	return sha256.Sum256(text)
}
