// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Bounds of what the caller's log takes of a loop: of a text, of the output of a call, and
// of the name of a tool.
const (
	maxText   = 2 << 10
	maxOutput = 8 << 10
	maxName   = 200
)

// usageOf returns what a loop has used.
func usageOf(r *Report) *pb.LoopUsage {
	return &pb.LoopUsage{
		Turns: uint32(r.Turns), Calls: uint32(r.Calls), InputTokens: uint64(r.Usage.Input), CachedTokens: uint64(r.Usage.Cached),
		OutputTokens: uint64(r.Usage.Output), Dollars: r.Usage.Dollars, Estimated: r.Usage.Estimated,
	}
}

// pass tells the caller of an event of the call, as much of it as the caller's log takes.
func (c *called) pass(event *pb.Event, tell func(*Update)) {
	nested := &pb.NestedCall{CallId: c.id, Tool: output.Short(c.Tool, maxName)}
	switch kind := event.GetKind().(type) {
	case *pb.Event_Heartbeat, *pb.Event_Skipped:
		return
	case *pb.Event_Output:
		data := kind.Output.GetData()
		if c.room <= 0 {
			return
		}
		if c.room -= len(data); c.room < 0 {
			kind.Output.Data = append(data[:len(data)+c.room:len(data)+c.room], " …\n"...)
		}
	case *pb.Event_PartialResult:
		return // the end has it
	case *pb.Event_ApprovalRequested:
		if a := kind.ApprovalRequested.GetApproval(); len(a.GetPreview().GetText()) > maxOutput {
			event = proto.CloneOf(event)
			preview := event.GetApprovalRequested().GetApproval().GetPreview()
			preview.Text = output.Short(preview.Text, maxOutput)
		}
	case *pb.Event_Finished:
		event = proto.CloneOf(event)
		shorten(event.GetFinished())
	}
	if !c.shown {
		c.shown, nested.Input = true, output.Short(string(c.Input), maxText)
	}
	nested.Event = event
	tell(&Update{Kind: &pb.Nested_Call{Call: nested}})
}

// shorten leaves of an ending what a person wants to see of it.
func shorten(f *pb.Finished) {
	f.DetailsJson = ""
	room := maxText
	var kept []*pb.Content
	for _, c := range f.GetContent() {
		text := textOf(c)
		if room <= 0 {
			break
		}
		kept = append(kept, &pb.Content{Kind: &pb.Content_Text{Text: output.Short(text, room)}})
		room -= len(text)
	}
	f.Content = kept
	if f.Failure != nil {
		f.Failure.Message = output.Short(f.Failure.Message, maxText)
		f.Failure.Problems = f.Failure.Problems[:min(len(f.Failure.Problems), 5)]
	}
}

// textOf returns content as text.
func textOf(c *pb.Content) string {
	switch kind := c.GetKind().(type) {
	case *pb.Content_Text:
		return kind.Text
	case *pb.Content_Json:
		return kind.Json
	case *pb.Content_Image:
		return fmt.Sprintf("(a picture, %s, %d bytes)", kind.Image.GetMediaType(), len(kind.Image.GetData()))
	case *pb.Content_Artifact:
		return fmt.Sprintf("(The artifact %s, %d bytes, is kept as %s.)", kind.Artifact.GetName(), kind.Artifact.GetSize(), kind.Artifact.GetUri())
	}
	return ""
}

// contentOf returns what a model is told of a result.
func contentOf(f *pb.Finished) (content []toolcall.Content) {
	for _, c := range f.GetContent() {
		if image := c.GetImage(); image != nil {
			content = append(content, toolcall.Image{MediaType: image.GetMediaType(), Data: image.GetData()})
		} else {
			content = append(content, toolcall.Text(textOf(c)))
		}
	}
	return content
}
