// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestCrewTree draws crews of all sizes: nothing that agents or their models write moves the
// cursor, and the tree never has more room than there is.
func TestCrewTree(t *testing.T) {
	for _, size := range []int{1, 5, 32} {
		tree, at := new(crewTree), time.Unix(1, 0)
		take := func(name string, n *pb.Nested) {
			n.Stage, n.Agent = name, "agent\x1b[2J"
			tree.take(n, at)
		}
		var names []string
		for i := range size {
			name := fmt.Sprintf("stage\r%d\x1b[H", i)
			take(name, &pb.Nested{Kind: &pb.Nested_StageChanged{StageChanged: &pb.StageChanged{State: pb.StageState_STAGE_STATE_WAITING, DependsOn: names[max(0, i-2):]}}})
			names = append(names, name)
		}
		for i, name := range names {
			take(name, &pb.Nested{Kind: &pb.Nested_Begun{Begun: &pb.LoopBegun{}}})
			take(name, &pb.Nested{Kind: &pb.Nested_Turn{Turn: &pb.TurnBegun{Turn: 1}}})
			take(name, &pb.Nested{Kind: &pb.Nested_Text{Text: "\x1b]0;title\a\nline\rover"}})
			take(name, &pb.Nested{Kind: &pb.Nested_Call{Call: &pb.NestedCall{Tool: "a\x9bb", Input: "{\x00}", Error: "no\x1b"}}})
			if state := pb.StageState(1 + i%4); state != pb.StageState_STAGE_STATE_WAITING {
				take(name, &pb.Nested{Kind: &pb.Nested_StageChanged{StageChanged: &pb.StageChanged{State: state, Reason: "it broke\x1b[1A\n"}}})
			}
		}
		take("of no crew", &pb.Nested{Kind: &pb.Nested_Text{Text: "x"}})
		for _, width := range []int{1, 20, 80, 300} {
			for _, height := range []int{2, 6, 24, 100} {
				lines := tree.lines(at.Add(time.Second), width, height)
				if len(lines) > height {
					t.Errorf("%d lines of %d", len(lines), height)
				}
				for _, line := range lines {
					if plain := ourStyles.ReplaceAllString(line, ""); strings.ContainsAny(plain, "\x1b\r\n\a\x00\u009b") || columns(plain) > width {
						t.Errorf("%d columns: %q", width, line)
					}
				}
			}
		}
	}
}
