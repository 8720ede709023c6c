// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// RenderTools returns tools of the session as a dialect has them, such as "anthropic" or
// "hermes"; empty: the session's. They are those that are named or, where none is, those
// that are active, with an index of the others.
func (c *Client) RenderTools(ctx context.Context, dialect string, names ...string) (rendered *pb.RenderToolsResponse, err error) {
	request := &pb.RenderToolsRequest{SessionId: c.session, Dialect: dialect, Names: names}
	if len(names) > 0 {
		request.View = pb.ToolView_TOOL_VIEW_FULL
	}
	err = c.again(ctx, func() (err error) {
		rendered, err = c.Dialects.RenderTools(ctx, request)
		return err
	})
	return rendered, err
}

// RenderResults returns the results of one turn as a dialect has them: the next message
// to the model. [BatchResult.ForModel] and [Unread] make them.
func (c *Client) RenderResults(ctx context.Context, dialect string, results ...*pb.CallResult) (rendered *pb.RenderResultsResponse, err error) {
	err = c.again(ctx, func() (err error) {
		rendered, err = c.Dialects.RenderResults(ctx, &pb.RenderResultsRequest{Dialect: dialect, Results: results})
		return err
	})
	return rendered, err
}

// Parse reads what a model writes, its text or the stream of its provider, and yields text,
// calls and broken calls in their order, each as soon as it is complete: [Batch.Add] takes
// a call, so that it runs while the model still writes. The dialect may be "auto". An error
// of the reader or of the connection ends it: nothing is read twice.
func (c *Client) Parse(ctx context.Context, dialect string, model io.Reader) iter.Seq2[*pb.ParseCallsResponse, error] {
	return func(yield func(*pb.ParseCallsResponse, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stream, err := c.Dialects.ParseCalls(ctx)
		if err == nil {
			err = stream.Send(&pb.ParseCallsRequest{Kind: &pb.ParseCallsRequest_Start{Start: &pb.ParseStart{SessionId: c.session, Dialect: dialect}}})
		}
		if err != nil && !errors.Is(err, io.EOF) { // which Recv explains
			yield(nil, err)
			return
		}
		go func() {
			chunk := make([]byte, 32<<10)
			for {
				n, err := model.Read(chunk)
				if n > 0 && stream.Send(&pb.ParseCallsRequest{Kind: &pb.ParseCallsRequest_Chunk{Chunk: chunk[:n]}}) != nil {
					return // which Recv explains
				}
				if err == io.EOF {
					stream.CloseSend()
					return
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		}()
		for {
			piece, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if cause := context.Cause(ctx); err != nil && cause != nil {
				err = cause
			}
			if !yield(piece, err) || err != nil {
				return
			}
		}
	}
}

// Add adds a call that [Client.Parse] found, and returns its id.
func (b *Batch) Add(parsed *pb.ExecuteToolRequest) (string, error) {
	request := proto.CloneOf(parsed)
	if request.GetCallId() == "" {
		request.CallId = new(newID("call"))
	}
	return request.GetCallId(), b.add(request)
}

// ForModel returns the result as RenderResults takes it.
func (r BatchResult) ForModel() *pb.CallResult {
	result := &pb.CallResult{
		CallId: r.CallID, Tool: r.Tool, Content: r.Finished.GetContent(), Failed: r.Finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED,
	}
	if r.Err != nil {
		result.Content = textContent(status.Convert(r.Err).Message())
	}
	return result
}

// Unread returns the result of a call that could not be read, for the model to correct.
func Unread(broken *pb.BrokenCall) *pb.CallResult {
	return &pb.CallResult{CallId: broken.GetCallId(), Tool: broken.GetTool(), Failed: true, Content: textContent(broken.GetMessage())}
}

func textContent(text string) []*pb.Content {
	return []*pb.Content{{Kind: &pb.Content_Text{Text: text}}}
}
