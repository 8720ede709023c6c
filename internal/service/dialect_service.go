// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/toolcall"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// dialectService answers DialectService: it translates, and runs nothing.
type dialectService struct {
	pb.UnimplementedDialectServiceServer
	tools *toolService
}

func dialectNamed(name string) (*toolcall.Dialect, error) {
	d, err := toolcall.Named(name)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return d, nil
}

// dialectOf returns the dialect of a session; empty where it or the session is not there.
func dialectOf(of *session.Session) string {
	if of == nil {
		return ""
	}
	return of.Settings().Dialect
}

func (s *dialectService) RenderTools(ctx context.Context, request *pb.RenderToolsRequest) (*pb.RenderToolsResponse, error) {
	of, err := s.tools.listed(ctx, request.GetSessionId())
	if err != nil {
		return nil, err
	}
	dialect, err := dialectNamed(cmp.Or(request.GetDialect(), dialectOf(of)))
	if err != nil {
		return nil, err
	}
	view := cmp.Or(request.GetView(), pb.ToolView_TOOL_VIEW_ACTIVE)
	if view == pb.ToolView_TOOL_VIEW_INDEX {
		return nil, invalid("view INDEX has no definitions: want ACTIVE, which has an index of the others, or FULL")
	}
	list := func(view pb.ToolView) ([]*pb.Tool, error) {
		all, err := s.tools.allPages(ctx, &pb.ListToolsRequest{
			SessionId: request.GetSessionId(), Names: request.GetNames(), Persona: request.GetPersona(), View: view,
		})
		return usable(all), err
	}
	chosen, err := list(view)
	if err != nil {
		return nil, err
	}
	rendered := &pb.RenderToolsResponse{Definitions: string(dialect.Tools(definitionsOf(chosen), toolcall.Options{Strict: request.GetStrict()}))}
	rendered.DefinitionTokens = costIn(dialect, rendered.Definitions, request.GetExactTokens())
	has := make(map[string]bool)
	for _, tool := range chosen {
		rendered.Names = append(rendered.Names, tool.GetName())
		has[tool.GetName()] = true
	}
	if view == pb.ToolView_TOOL_VIEW_ACTIVE {
		all, err := list(pb.ToolView_TOOL_VIEW_INDEX)
		if err != nil {
			return nil, err
		}
		for _, tool := range all {
			if !has[tool.GetName()] {
				rendered.Index += indexLine(tool)
			}
		}
	}
	rendered.IndexTokens = costIn(dialect, rendered.Index, request.GetExactTokens())
	return rendered, nil
}

// allPages returns all tools that a request asks for.
func (s *toolService) allPages(ctx context.Context, request *pb.ListToolsRequest) (list []*pb.Tool, err error) {
	for {
		page, err := s.ListTools(ctx, request)
		if err != nil {
			return nil, err
		}
		list = append(list, page.GetTools()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return list, nil
		}
	}
}

// usable returns the tools of a list that can be called: models are told of no others, for
// they have no place for the reason.
func usable(list []*pb.Tool) []*pb.Tool {
	return slices.DeleteFunc(slices.Clone(list), func(tool *pb.Tool) bool { return tool.GetUnavailableReason() != "" })
}

// definitionsOf returns what models are told of tools.
func definitionsOf(list []*pb.Tool) []toolcall.Tool {
	definitions := make([]toolcall.Tool, len(list))
	for i, tool := range list {
		definitions[i] = toolcall.Tool{
			Name: tool.GetName(), Description: strings.TrimSpace(cmp.Or(tool.GetDescription(), tool.GetSummary())), Schema: []byte(tool.GetInputSchema()),
		}
	}
	return definitions
}

// inDialect returns a list with its definitions in the dialect of a request, and what it
// costs.
func (s *toolService) inDialect(list *pb.ListToolsResponse, request *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	exact := request.GetExactTokens()
	if request.GetDialect() == "" {
		if exact {
			return nil, invalid("exact_tokens is set without a dialect: name the one whose tokens count, such as openai")
		}
		if list.Tokens == nil {
			list.Tokens = costOf(list.Tools, request.GetView())
		}
		return list, nil
	}
	dialect, err := dialectNamed(request.GetDialect())
	if err != nil {
		return nil, err
	}
	definitions := string(dialect.Tools(definitionsOf(usable(list.Tools)), toolcall.Options{}))
	exact = exact && len(definitions) <= toolcall.MaxCounted
	inDialect := &pb.ListToolsResponse{
		Tools: list.Tools, NextPageToken: list.NextPageToken, Version: list.Version,
		Definitions: definitions, Tokens: costIn(dialect, definitions, exact),
	}
	if request.GetExactTokens() {
		inDialect.Tools = nil // those of the list are everybody's
		for i, defined := range definitionsOf(list.Tools) {
			tool := proto.CloneOf(list.Tools[i])
			tool.Tokens = costIn(dialect, string(dialect.Tools([]toolcall.Tool{defined}, toolcall.Options{})), exact).GetTokens()
			inDialect.Tools = append(inDialect.Tools, tool)
		}
	}
	return inDialect, nil
}

// indexLine is what an index tells of a tool.
func indexLine(tool *pb.Tool) string { return tool.GetName() + ": " + tool.GetSummary() + "\n" }

// tokensOf returns about what the definition of a tool costs.
func tokensOf(tool *pb.Tool) int {
	return toolcall.AnyFamily().Tokens(fmt.Sprintf("{\"name\":%q,\"description\":%q,\"input_schema\":%s}", tool.Name, tool.Description, tool.InputSchema))
}

// costOf returns about what a list costs in its view.
func costOf(list []*pb.Tool, view pb.ToolView) *pb.TokenEstimate {
	any := toolcall.AnyFamily()
	cost := estimate(any, "")
	for _, tool := range list {
		if view == pb.ToolView_TOOL_VIEW_FULL || view == pb.ToolView_TOOL_VIEW_ACTIVE {
			cost.Tokens += tool.GetTokens()
		} else {
			cost.Tokens += uint32(any.Tokens(indexLine(tool)))
		}
	}
	return cost
}

// costIn returns what a text costs in a dialect: counted where that is asked for and
// possible, and estimated otherwise.
func costIn(dialect *toolcall.Dialect, text string, exact bool) *pb.TokenEstimate {
	family := dialect.Family()
	if exact {
		if n, tokenizer, ok := family.Count(text); ok {
			return &pb.TokenEstimate{Tokens: uint32(n), Family: family.Name, Basis: tokenizer}
		}
	}
	return estimate(family, text)
}

func estimate(family *toolcall.Family, text string) *pb.TokenEstimate {
	return &pb.TokenEstimate{Tokens: uint32(family.Tokens(text)), Family: family.Name, ErrorPercent: uint32(family.Error), Basis: family.Basis}
}

func (s *dialectService) RenderResults(_ context.Context, request *pb.RenderResultsRequest) (*pb.RenderResultsResponse, error) {
	dialect, err := dialectNamed(request.GetDialect())
	if err != nil {
		return nil, err
	}
	var results []toolcall.Result
	pictures := false // what they cost is not what their text would
	for _, r := range request.GetResults() {
		result := toolcall.Result{CallID: r.GetCallId(), Tool: r.GetTool(), Failed: r.GetFailed()}
		for _, c := range r.GetContent() {
			switch c := c.GetKind().(type) {
			case *pb.Content_Text:
				result.Content = append(result.Content, toolcall.Text(c.Text))
			case *pb.Content_Json:
				result.Content = append(result.Content, toolcall.Text(c.Json))
			case *pb.Content_Image:
				result.Content = append(result.Content, toolcall.Image{MediaType: c.Image.GetMediaType(), Data: c.Image.GetData()})
				pictures = true
			case *pb.Content_Artifact:
				result.Content = append(result.Content, toolcall.Text(fmt.Sprintf("(The artifact %s, %d bytes, is kept as %s.)",
					c.Artifact.GetName(), c.Artifact.GetSize(), c.Artifact.GetUri())))
			}
		}
		results = append(results, result)
	}
	response := &pb.RenderResultsResponse{Messages: string(dialect.Results(results))}
	counted := response.Messages
	if pictures {
		for i := range results {
			results[i].Content = slices.DeleteFunc(results[i].Content, func(c toolcall.Content) bool { _, is := c.(toolcall.Image); return is })
		}
		counted = string(dialect.Results(results))
	}
	response.Tokens = costIn(dialect, counted, request.GetExactTokens())
	return response, nil
}

func (s *dialectService) ParseCalls(stream grpc.BidiStreamingServer[pb.ParseCallsRequest, pb.ParseCallsResponse]) error {
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return invalid("there was no message: begin with start, then send chunks")
	}
	if err != nil {
		return err
	}
	if first.GetStart() == nil {
		return invalid("the first message is not start: begin with start, then send chunks")
	}
	parser, err := s.parser(stream.Context(), first.GetStart())
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return sendPieces(stream, parser.Close())
		}
		if err != nil {
			return err
		}
		chunk, ok := message.GetKind().(*pb.ParseCallsRequest_Chunk)
		if !ok {
			return invalid("want a chunk: start is the first message and no other")
		}
		if err := sendPieces(stream, parser.Write(chunk.Chunk)); err != nil {
			return err
		}
	}
}

// parser returns one that knows the tools of a session by all their names.
func (s *dialectService) parser(ctx context.Context, start *pb.ParseStart) (*toolcall.Parser, error) {
	of, err := s.tools.listed(ctx, start.GetSessionId())
	if err != nil {
		return nil, err
	}
	list, err := s.tools.allPages(ctx, &pb.ListToolsRequest{SessionId: start.GetSessionId(), View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		return nil, err
	}
	parser, err := toolcall.NewParser(cmp.Or(start.GetDialect(), dialectOf(of), toolcall.AnyText), definitionsOf(list))
	if err != nil {
		return nil, invalid("%v", err)
	}
	has := availableTo(ctx, of, s.tools.server.rules.Current())
	parser.Accepts = func(name string) bool { // an alias, or a name that another system has
		_, ours := s.tools.registry.Lookup(name, has)
		return ours || len(persona.Lookup(name)) > 0
	}
	return parser, nil
}

func sendPieces(stream grpc.BidiStreamingServer[pb.ParseCallsRequest, pb.ParseCallsResponse], pieces []toolcall.Piece) error {
	for _, piece := range pieces {
		m := new(pb.ParseCallsResponse)
		switch piece := piece.(type) {
		case toolcall.Text:
			m.Kind = &pb.ParseCallsResponse_Text{Text: string(piece)}
		case toolcall.Call:
			call := &pb.ExecuteToolRequest{Tool: piece.Tool, InputJson: piece.Input}
			if piece.ID != "" {
				call.CallId = &piece.ID
			}
			m.Kind = &pb.ParseCallsResponse_Call{Call: call}
		case toolcall.Broken:
			m.Kind = &pb.ParseCallsResponse_Broken{Broken: &pb.BrokenCall{CallId: piece.ID, Tool: piece.Tool, Raw: piece.Raw, Message: piece.Message}}
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}
