// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
)

var anthropic = provider{
	name: "anthropic", prefix: "toolu_", wrongKey: "invalid x-api-key",
	messages: map[int]string{
		429: "This request would exceed your account's rate limit. Please try again later.", 500: "Internal server error", 529: "Overloaded",
		401: "invalid x-api-key", 413: "Request exceeds the maximum size", 400: "prompt is too long: 208310 tokens > 200000 maximum",
	},
	key: func(h http.Header) (key, missing string) {
		if token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok { // as newer clients have it
			return token, ""
		}
		return h.Get("X-Api-Key"), "x-api-key header is required"
	},
	failure: func(status int, message string) object {
		kind := map[int]string{401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
			429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error"}[status]
		if kind == "" {
			kind = "invalid_request_error"
			if status >= 500 {
				kind = "api_error"
			}
		}
		return object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_1"}
	},
	unknown: func(name string) string { return "model: " + name },
	read:    readAnthropic,
	message: func(r *Request, t *Turn) object {
		content := []object{}
		if t.Text != "" {
			content = append(content, object{"type": "text", "text": t.Text})
		}
		for _, c := range t.Calls {
			content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": c.Input})
		}
		return object{"id": messageID(r), "type": "message", "role": "assistant", "model": r.Model, "content": content,
			"stop_reason": anthropicStops[t.Stop], "stop_sequence": nil, "usage": anthropicUsage(t, t.Usage.Output)}
	},
	stream: streamAnthropic,
}

func messageID(r *Request) string { return fmt.Sprintf("msg_%024d", r.Number+1) }

var anthropicStops = map[model.Stop]string{model.Ended: "end_turn", model.Calling: "tool_use", model.TooLong: "max_tokens", model.Refused: "refusal"}

func anthropicUsage(t *Turn, output int64) object {
	return object{"input_tokens": t.Usage.Input - t.Usage.Cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": t.Usage.Cached,
		"output_tokens": output, "service_tier": "standard"}
}

func streamAnthropic(s *stream, r *Request, t *Turn) {
	emit := func(kind string, fields object) {
		fields["type"] = kind
		data, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		s.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, data))
	}
	message := object{"id": messageID(r), "type": "message", "role": "assistant", "model": r.Model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil}
	if !t.NoUsage {
		message["usage"] = anthropicUsage(t, 1)
	}
	emit("message_start", object{"message": message})
	index := 0
	block := func(start object, field, kind string, list []string) {
		emit("content_block_start", object{"index": index, "content_block": start})
		if index == 0 {
			emit("ping", object{})
		}
		for _, part := range list {
			emit("content_block_delta", object{"index": index, "delta": object{"type": kind, field: part}})
		}
		emit("content_block_stop", object{"index": index})
		index++
	}
	if t.Flood > 0 {
		emit("content_block_start", object{"index": index, "content_block": object{"type": "text", "text": ""}})
		flood(t.Flood, func(text string) {
			emit("content_block_delta", object{"index": index, "delta": object{"type": "text_delta", "text": text}})
		})
		emit("content_block_stop", object{"index": index})
		index++
	}
	if t.Text != "" {
		block(object{"type": "text", "text": ""}, "text", "text_delta", parts(t.Text))
	}
	for _, c := range t.Calls {
		block(object{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": object{}}, "partial_json", "input_json_delta", append([]string{""}, parts(string(c.Input))...))
	}
	if t.Then != nil {
		t.Then(s.ctx)
	}
	if t.Error != "" {
		emit("error", object{"error": object{"type": t.Error, "message": "The stream ends here."}})
		return
	}
	end := object{"delta": object{"stop_reason": anthropicStops[t.Stop], "stop_sequence": nil}}
	if !t.NoUsage {
		end["usage"] = object{"output_tokens": t.Usage.Output}
	}
	emit("message_delta", end)
	emit("message_stop", object{})
}

// anthropicRequest has all that the API takes.
type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens *int               `json:"max_tokens"`
	Messages  []anthropicMessage `json:"messages"`
	System    anthropicContent   `json:"system"`
	Tools     []struct {
		Type         string          `json:"type"`
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl json.RawMessage `json:"cache_control"`
		Strict       bool            `json:"strict"`
	} `json:"tools"`
	Stream        bool            `json:"stream"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
	StopSequences []string        `json:"stop_sequences"`
	Metadata      json.RawMessage `json:"metadata"`
	Thinking      json.RawMessage `json:"thinking"`
	ServiceTier   string          `json:"service_tier"`
	OutputConfig  json.RawMessage `json:"output_config"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content anthropicContent `json:"content"`
}

// anthropicContent is blocks, or a text in place of one.
type anthropicContent []anthropicBlock

type anthropicBlock struct {
	Type         string           `json:"type"`
	Text         *string          `json:"text"`
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Input        json.RawMessage  `json:"input"`
	ToolUseID    string           `json:"tool_use_id"`
	Content      anthropicContent `json:"content"`
	IsError      bool             `json:"is_error"`
	Source       *anthropicSource `json:"source"`
	CacheControl json.RawMessage  `json:"cache_control"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func (c *anthropicContent) UnmarshalJSON(text []byte) error {
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		*c = anthropicContent{{Type: "text", Text: &plain}}
		return nil
	}
	return strict(text, (*[]anthropicBlock)(c))
}

// strict decodes JSON and refuses keys that nobody knows.
func strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

var (
	isTool = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`).MatchString
	isID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`).MatchString
)

func readAnthropic(r *Request) error {
	version := r.Header.Get("Anthropic-Version")
	if version != "2023-06-01" && version != "2026-10-21" {
		return refuse("anthropic-version: %q is not a valid version", version)
	}
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return refuse("content-type: %q is not application/json", kind)
	}
	var in anthropicRequest
	if err := strict(r.Body, &in); err != nil {
		return refuse("%s: Extra inputs are not permitted, or invalid JSON", err)
	}
	switch {
	case version == "2026-10-21" && (in.Temperature != nil || in.TopP != nil || in.TopK != nil):
		return refuse("temperature, top_p, top_k: Extra inputs are not permitted")
	case in.Model == "":
		return refuse("model: Field required")
	case in.MaxTokens == nil:
		return refuse("max_tokens: Field required")
	case *in.MaxTokens < 1:
		return refuse("max_tokens: must be greater than or equal to 1")
	case len(in.Messages) == 0:
		return refuse("messages: at least one message is required")
	}
	r.Model, r.MaxTokens, r.Stream = in.Model, *in.MaxTokens, in.Stream
	marks := 0
	mark := func(control json.RawMessage) {
		if len(control) > 0 {
			marks++
		}
	}
	for i, b := range in.System {
		if b.Type != "text" || b.Text == nil || *b.Text == "" {
			return refuse("system.%d: text content blocks must be non-empty", i)
		}
		r.System += *b.Text
		mark(b.CacheControl)
	}
	names := make(map[string]bool)
	for i, t := range in.Tools {
		var schema struct{ Type string }
		switch json.Unmarshal(t.InputSchema, &schema); {
		case !isTool(t.Name):
			return refuse("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case names[t.Name]:
			return refuse("tools: Tool names must be unique.")
		case schema.Type != "object":
			return refuse("tools.%d.custom.input_schema.type: Field required", i)
		}
		names[t.Name] = true
		mark(t.CacheControl)
		r.Tools = append(r.Tools, toolcall.Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	ids := make(map[string]bool)
	var open []string // calls of the message before
	for i, m := range in.Messages {
		role := []string{"user", "assistant"}[i%2]
		if m.Role != role {
			return refuse("messages.%d: roles must alternate between \"user\" and \"assistant\", beginning with \"user\": found %q", i, m.Role)
		}
		if len(m.Content) == 0 {
			return refuse("messages.%d: all messages must have non-empty content", i)
		}
		message := model.Message{FromModel: role == "assistant"}
		answered := make(map[string]bool)
		var calls []string
		for j, b := range m.Content {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			mark(b.CacheControl)
			switch {
			case b.Type == "text" && b.Text != nil:
				if strings.TrimSpace(*b.Text) == "" {
					return refuse("%s: text content blocks must contain non-whitespace text", at)
				}
				message.Text += *b.Text
			case b.Type == "tool_use" && message.FromModel:
				if !isID(b.ID) || !isTool(b.Name) || !bytes.HasPrefix(b.Input, []byte("{")) {
					return refuse("%s.tool_use: id, name and input are required", at)
				}
				if ids[b.ID] {
					return refuse("%s: `tool_use` ids must be unique", at)
				}
				ids[b.ID] = true
				calls = append(calls, b.ID)
				message.Calls = append(message.Calls, toolcall.Call{ID: b.ID, Tool: b.Name, Input: b.Input})
			case b.Type == "tool_result" && !message.FromModel:
				if !slices.Contains(open, b.ToolUseID) {
					return refuse("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message", at, b.ToolUseID)
				}
				if message.Text != "" || answered[b.ToolUseID] {
					return refuse("%s: `tool_result` blocks come first, one for each `tool_use`", at)
				}
				answered[b.ToolUseID] = true
				result, err := b.result()
				if err != nil {
					return refuse("%s: %w", at, err)
				}
				message.Results = append(message.Results, result)
			case b.Type == "image" && !message.FromModel && b.Source != nil:
			default:
				return refuse("%s: Input tag %q is not expected here", at, b.Type)
			}
		}
		for _, id := range open {
			if !answered[id] {
				return refuse("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, id)
			}
		}
		if message.FromModel && i == len(in.Messages)-1 && strings.TrimRight(message.Text, " \n\t") != message.Text {
			return refuse("messages: final assistant content cannot end with trailing whitespace")
		}
		open = calls
		r.Messages = append(r.Messages, message)
	}
	if len(open) > 0 {
		return refuse("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", len(in.Messages)-1, open[0])
	}
	if marks > 4 {
		return refuse("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	return nil
}

// result returns what a block says of a call.
func (b *anthropicBlock) result() (toolcall.Result, error) {
	result := toolcall.Result{CallID: b.ToolUseID, Failed: b.IsError}
	for _, part := range b.Content {
		switch {
		case part.Type == "text" && part.Text != nil:
			result.Content = append(result.Content, toolcall.Text(*part.Text))
		case part.Type == "image" && part.Source != nil:
			data, err := base64.StdEncoding.DecodeString(part.Source.Data)
			if err != nil || part.Source.Type != "base64" || part.Source.MediaType == "" {
				return result, refuse("source: want base64 with its media_type")
			}
			result.Content = append(result.Content, toolcall.Image{MediaType: part.Source.MediaType, Data: data})
		default:
			return result, refuse("Input tag %q is not expected in a `tool_result`", part.Type)
		}
	}
	return result, nil
}
