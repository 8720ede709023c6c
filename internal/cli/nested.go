// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// innermost returns the event of the call that something happened to: of a call of an agent,
// where a call began one.
func innermost(event *pb.Event) *pb.Event {
	for event.GetNested().GetCall().GetEvent() != nil {
		event = event.GetNested().GetCall().GetEvent()
	}
	return event
}

// nested shows what happens in the loop of an agent: its turns and calls, a line each,
// below those of who asked it.
func (v *textView) nested(n *pb.Nested, depth int) {
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if n.GetStage() != "" {
			text = "[" + n.GetStage() + "] " + text
		}
		v.note(strings.Repeat("  ", depth) + Visible(text))
	}
	if text, ok := n.GetKind().(*pb.Nested_Text); ok {
		v.said(n.GetChildLoopId(), text.Text, line)
		return
	}
	v.said(n.GetChildLoopId(), "\n", line)
	switch kind := n.GetKind().(type) {
	case *pb.Nested_Begun:
		line("%s begins: %s", n.GetAgent(), OneLine(kind.Begun.GetDescription()))
	case *pb.Nested_StageChanged:
		stageLine(kind.StageChanged, line)
	case *pb.Nested_Heard:
		line("  it hears: %s", OneLine(kind.Heard))
	case *pb.Nested_Call:
		v.nestedCall(kind.Call, depth+1, line)
	case *pb.Nested_Finished:
		delete(v.saying, n.GetChildLoopId())
		line("%s ends: %s, after %s", n.GetAgent(), strings.ReplaceAll(kind.Finished.GetOutcome(), "_", " "), usageText(kind.Finished.GetUsage()))
	}
}

// stageLine tells how a stage of a crew is. How its agent ended was told before.
func stageLine(c *pb.StageChanged, line func(format string, args ...any)) {
	switch c.GetState() {
	case pb.StageState_STAGE_STATE_WAITING:
		if len(c.GetDependsOn()) > 0 {
			line("waits for %s", strings.Join(c.GetDependsOn(), ", "))
		}
	case pb.StageState_STAGE_STATE_FAILED:
		line("failed: %s", OneLine(c.GetReason()))
	case pb.StageState_STAGE_STATE_SKIPPED:
		line("skipped: %s", OneLine(c.GetReason()))
	}
}

// inCrew shows what happens in a crew on a terminal: as a tree, but for what a person is
// asked or told.
func (v *textView) inCrew(n *pb.Nested, at time.Time) {
	if v.crew == nil {
		v.close() // the bar
		v.crew = &crewTree{to: v.stderr}
	}
	v.crew.take(n, at)
	inner := innermost(n.GetCall().GetEvent())
	switch inner.GetKind().(type) {
	case *pb.Event_ApprovalRequested, *pb.Event_ApprovalResolved, *pb.Event_UserMessage:
		v.show(inner)
	}
}

// said shows what a model writes, line by line.
func (v *textView) said(loop, text string, line func(format string, args ...any)) {
	if v.saying == nil {
		v.saying = make(map[string]string)
	}
	lines := strings.Split(v.saying[loop]+text, "\n")
	for _, whole := range lines[:len(lines)-1] {
		if strings.TrimSpace(whole) != "" {
			line("  | %s", strings.TrimRight(whole, " \t\r"))
		}
	}
	v.saying[loop] = lines[len(lines)-1]
}

// nestedCall shows how a call of an agent begins, waits and ends.
func (v *textView) nestedCall(call *pb.NestedCall, depth int, line func(format string, args ...any)) {
	if call.GetInput() != "" {
		line("  %s %.200s", call.GetTool(), OneLine(call.GetInput()))
	} else if call.GetEvent().GetAccepted() != nil { // of a runtime, whose inputs are not told
		line("  %s", call.GetTool())
	}
	if why := call.GetError(); why != "" {
		line("    was not run: %.300s", OneLine(why))
		return
	}
	switch kind := call.GetEvent().GetKind().(type) {
	case *pb.Event_Nested:
		v.nested(kind.Nested, depth+1)
	case *pb.Event_ApprovalRequested, *pb.Event_ApprovalResolved, *pb.Event_UserMessage:
		v.show(call.GetEvent())
	case *pb.Event_Finished:
		f := kind.Finished
		text := ""
		for _, c := range f.GetContent() {
			text += c.GetText() + " "
		}
		line("    %s: %.200s", outcomeText(f.GetOutcome()), OneLine(text))
	}
}

// usageText tells what a loop used.
func usageText(u *pb.LoopUsage) string {
	text := fmt.Sprintf("%s, %s, %d tokens read and %d written", counted(uint64(u.GetTurns()), "turn", "turns"), counted(uint64(u.GetCalls()), "call", "calls"), u.GetInputTokens(), u.GetOutputTokens())
	if u.GetDollars() > 0 {
		text += fmt.Sprintf(", %.4f dollars", u.GetDollars())
	}
	return text
}
