// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A Place is which step of which run something happened in, for those who watch.
type Place struct{ Run, Workflow, Step string }

// State is how a step is, for those who watch.
type State = pb.StageState

// How steps are.
const (
	Waiting = pb.StageState_STAGE_STATE_WAITING
	Done    = pb.StageState_STAGE_STATE_DONE
	Wrong   = pb.StageState_STAGE_STATE_FAILED
	Skipped = pb.StageState_STAGE_STATE_SKIPPED
)

const (
	maxText = 2 << 10 // of what those who watch are told of one thing
	maxName = 200
)

// Changed tells that a step is in another state.
func Changed(at Place, state State, reason string) tools.Report {
	return nested(at, &pb.Nested{Kind: &pb.Nested_StageChanged{StageChanged: &pb.StageChanged{State: state, Reason: output.Short(reason, maxText)}}})
}

// Happened tells an event of the call of a step; nil where it says nothing to those who watch.
func Happened(at Place, call *Call, event *pb.Event) tools.Report {
	message := &pb.NestedCall{CallId: call.ID, Tool: output.Short(call.Tool, maxName), Event: event}
	switch kind := event.GetKind().(type) {
	case *pb.Event_Accepted:
		message.Input = output.Short(string(call.Input), maxText)
	case *pb.Event_ApprovalRequested, *pb.Event_ApprovalResolved, *pb.Event_Nested, *pb.Event_Started:
	case *pb.Event_Finished:
		message.Event = proto.CloneOf(event)
		f := message.Event.GetFinished()
		f.DetailsJson = ""
		if text := textOf(kind.Finished); text != "" {
			f.Content = []*pb.Content{{Kind: &pb.Content_Text{Text: output.Short(text, maxText)}}}
		}
	default:
		return nil
	}
	return nested(at, &pb.Nested{Kind: &pb.Nested_Call{Call: message}})
}

func nested(at Place, n *pb.Nested) tools.Report {
	n.ChildLoopId, n.Agent, n.Stage = at.Run, output.Short(at.Workflow, maxName), output.Short(at.Step, maxName)
	encoded, err := proto.Marshal(n)
	if err != nil {
		return nil // a text that is none
	}
	return tools.Nested(encoded)
}
