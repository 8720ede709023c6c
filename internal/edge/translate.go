// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// pageSize is how many tools a page has.
const pageSize = 200

// listTools returns a page of the tools of the session.
func (s *session) listTools(ctx context.Context, params *mcp.ListToolsParams) (mcp.Result, error) {
	request := &pb.ListToolsRequest{SessionId: s.sessionID(), View: pb.ToolView_TOOL_VIEW_FULL, PageSize: pageSize}
	if params != nil {
		request.PageToken = params.Cursor
	}
	response, err := s.tools.ListTools(ctx, request)
	if err != nil {
		return nil, errorOf(err)
	}
	result := &mcp.ListToolsResult{Tools: make([]*mcp.Tool, 0, len(response.GetTools())), NextCursor: response.GetNextPageToken()}
	for _, tool := range response.GetTools() {
		if tool.GetUnavailableReason() == "" { // clients have no place for the reason
			result.Tools = append(result.Tools, toolOf(tool))
		}
	}
	if s.hasTasks() {
		return asTasks(result), nil
	}
	return result, nil
}

// toolOf describes a tool for a client. What the annotations say, the server knows of its
// tools; a call is judged by what it does.
func toolOf(t *pb.Tool) *mcp.Tool {
	reads := t.GetLevel() == pb.Level_LEVEL_READ_ONLY
	reaches := t.GetKind() != pb.ToolKind_TOOL_KIND_BUILTIN || slices.Contains(t.GetRequiredCapabilities(), "commands") && !reads
	destroys := t.GetDangerous() && !reads
	tool := &mcp.Tool{
		Name: t.GetName(), Title: t.GetLabel(), Description: t.GetDescription(), InputSchema: json.RawMessage(t.GetInputSchema()),
		Annotations: &mcp.ToolAnnotations{Title: t.GetLabel(), ReadOnlyHint: reads, IdempotentHint: reads, DestructiveHint: &destroys, OpenWorldHint: &reaches},
	}
	if isObject(t.GetResultSchema()) {
		tool.OutputSchema = json.RawMessage(t.GetResultSchema())
	}
	return tool
}

// isObject reports whether a schema is one of objects: the protocol takes no others for
// results.
func isObject(schema string) bool {
	var top struct {
		Type any `json:"type"`
	}
	return schema != "" && json.Unmarshal([]byte(schema), &top) == nil && top.Type == "object"
}

// textResult is a result of one text, as most are, that is encoded at once: of a
// [mcp.CallToolResult] the SDK encodes the text three times over, each piece on its own and
// then as part of the next.
type textResult struct {
	mcp.ResultBase
	Content [1]textPiece `json:"content"`
	IsError bool         `json:"isError,omitempty"`
}

type textPiece struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// resultOf returns how a call ended, for the model behind the client.
func resultOf(meta mcp.Meta, f *pb.Finished) mcp.Result {
	result := &mcp.CallToolResult{
		Content: make([]mcp.Content, 0, len(f.GetContent())), IsError: f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED,
		Meta: meta,
	}
	var structured []string
	for _, content := range f.GetContent() {
		switch kind := content.GetKind().(type) {
		case *pb.Content_Text:
			result.Content = append(result.Content, &mcp.TextContent{Text: kind.Text})
		case *pb.Content_Json:
			structured = append(structured, kind.Json)
			result.Content = append(result.Content, &mcp.TextContent{Text: kind.Json})
		case *pb.Content_Image:
			result.Content = append(result.Content, &mcp.ImageContent{MIMEType: kind.Image.GetMediaType(), Data: kind.Image.GetData()})
		case *pb.Content_Artifact:
			result.Content = append(result.Content, linkTo(kind.Artifact))
		}
	}
	if len(structured) == 1 && strings.HasPrefix(strings.TrimSpace(structured[0]), "{") {
		result.StructuredContent = json.RawMessage(structured[0])
	}
	if result.IsError {
		result.Meta["toolserver/outcome"] = strings.ToLower(strings.TrimPrefix(f.GetOutcome().String(), "OUTCOME_"))
		if len(result.Content) == 0 {
			result.Content = append(result.Content, &mcp.TextContent{Text: f.GetFailure().GetMessage()})
		}
	}
	if len(result.Content) == 1 && result.StructuredContent == nil {
		if text, ok := result.Content[0].(*mcp.TextContent); ok {
			return &textResult{mcp.ResultBase{Meta: result.Meta}, [1]textPiece{{"text", text.Text}}, result.IsError}
		}
	}
	return result
}

// linkTo returns a link to an artifact, which resources/read reads.
func linkTo(a *pb.ArtifactLink) *mcp.ResourceLink {
	size := int64(a.GetSize())
	return &mcp.ResourceLink{URI: a.GetUri(), Name: a.GetName(), MIMEType: a.GetMediaType(), Size: &size, Description: a.GetIncomplete()}
}

// maxResource is how many bytes of an artifact are read as a resource.
const maxResource = 4 << 20

// readResource reads an artifact that a result links to.
func (s *session) readResource(ctx context.Context, uri string) (mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.tools.ReadArtifact(ctx, &pb.ReadArtifactRequest{Uri: uri, Limit: maxResource})
	if err != nil {
		return nil, resourceError(uri, err)
	}
	var data []byte
	var info *pb.ArtifactInfo
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, resourceError(uri, err)
		}
		if response.GetInfo() != nil {
			info = response.GetInfo()
		}
		data = append(data, response.GetData()...)
	}
	if info.GetSize() > maxResource {
		return nil, invalidParams("%s has %d bytes, of which a resource has at most %d: call read_file with this path, offset and limit, or grep", uri, info.GetSize(), maxResource)
	}
	contents := &mcp.ResourceContents{URI: uri, MIMEType: info.GetMediaType()}
	if kind, _, _ := mime.ParseMediaType(info.GetMediaType()); utf8.Valid(data) && !strings.HasPrefix(kind, "image/") {
		contents.Text = string(data)
	} else {
		contents.Blob = data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// resourceError is why an artifact cannot be read.
func resourceError(uri string, err error) error {
	if code := status.Code(err); code == codes.NotFound || code == codes.InvalidArgument {
		return mcp.ResourceNotFoundError(uri)
	}
	return errorOf(err)
}

// codeRefused is the code of errors that JSON-RPC has none for: data tells more.
const codeRefused = -32000

// errorOf returns an error of the chain as one of the protocol.
func errorOf(err error) error {
	s := status.Convert(err)
	code := int64(codeRefused)
	switch s.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.OutOfRange, codes.AlreadyExists:
		code = jsonrpc.CodeInvalidParams
	case codes.Internal, codes.Unknown:
		code = jsonrpc.CodeInternalError
	}
	data, _ := json.Marshal(map[string]string{"status": s.Code().String()})
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf("%s: %s", s.Code(), s.Message()), Data: data}
}
