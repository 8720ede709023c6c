// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/toolcall"
)

var openAI = provider{
	name: "openai", prefix: "call_", wrongKey: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
	messages: map[int]string{
		429: "Rate limit reached for requests", 500: "The server had an error while processing your request. Sorry about that!", 503: "The engine is currently overloaded, please try again later",
		400: "This model's maximum context length is 128000 tokens. However, your messages resulted in 208310 tokens.",
	},
	key: func(h http.Header) (key, missing string) {
		key, _ = strings.CutPrefix(h.Get("Authorization"), "Bearer ")
		return key, "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth."
	},
	failure: func(status int, message string) object {
		kind, code := "invalid_request_error", any(nil)
		switch {
		case status == 401:
			code = "invalid_api_key"
		case status == 404:
			code = "model_not_found"
		case status == 429:
			kind, code = "requests", "rate_limit_exceeded"
		case status >= 500:
			kind = "server_error"
		case strings.Contains(message, "maximum context length"):
			code = "context_length_exceeded"
		}
		return object{"error": object{"message": message, "type": kind, "param": nil, "code": code}}
	},
	unknown: func(name string) string {
		return fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", name)
	},
	read: readOpenAI,
	message: func(r *Request, t *Turn) object {
		message := object{"role": "assistant", "content": nil, "refusal": nil}
		if t.Text != "" {
			message["content"] = t.Text
		}
		if len(t.Calls) > 0 {
			list := []object{}
			for _, c := range t.Calls {
				list = append(list, object{"id": c.ID, "type": "function", "function": object{"name": c.Tool, "arguments": string(c.Input)}})
			}
			message["tool_calls"] = list
		}
		return object{"id": completionID(r), "object": "chat.completion", "created": created, "model": r.Model, "usage": openAIUsage(t),
			"choices": []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": openAIStops[t.Stop]}}}
	},
	stream: streamOpenAI,
}

const created = 1700000000

func completionID(r *Request) string { return fmt.Sprintf("chatcmpl-%029d", r.Number+1) }

var openAIStops = map[model.Stop]string{model.Ended: "stop", model.Calling: "tool_calls", model.TooLong: "length", model.Refused: "content_filter"}

func openAIUsage(t *Turn) object {
	return object{"prompt_tokens": t.Usage.Input, "completion_tokens": t.Usage.Output, "total_tokens": t.Usage.Input + t.Usage.Output,
		"prompt_tokens_details": object{"cached_tokens": t.Usage.Cached}}
}

func streamOpenAI(s *stream, r *Request, t *Turn) {
	var options struct {
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	json.Unmarshal(r.Body, &options)
	counts := options.StreamOptions.IncludeUsage && !t.NoUsage
	emit := func(choices []object, usage any) {
		chunk := object{"id": completionID(r), "object": "chat.completion.chunk", "created": created, "model": r.Model, "choices": choices}
		if counts {
			chunk["usage"] = usage
		}
		data, err := json.Marshal(chunk)
		if err != nil {
			panic(err)
		}
		s.write(fmt.Appendf(nil, "data: %s\n\n", data))
	}
	delta := func(d object, reason any) {
		emit([]object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": reason}}, nil)
	}
	delta(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	flood(t.Flood, func(text string) { delta(object{"content": text}, nil) })
	if t.Text != "" {
		for _, part := range parts(t.Text) {
			delta(object{"content": part}, nil)
		}
	}
	for i, c := range t.Calls {
		delta(object{"tool_calls": []object{{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Tool, "arguments": ""}}}}, nil)
		for _, part := range parts(string(c.Input)) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": part}}}}, nil)
		}
	}
	if t.Then != nil {
		t.Then(s.ctx)
	}
	if t.Error != "" {
		data, _ := json.Marshal(object{"error": object{"message": "The stream ends here.", "type": t.Error, "param": nil, "code": nil}})
		s.write(fmt.Appendf(nil, "data: %s\n\n", data))
		return
	}
	delta(object{}, openAIStops[t.Stop])
	if counts {
		emit([]object{}, openAIUsage(t))
	}
	s.write([]byte("data: [DONE]\n\n"))
}

// openAIRequest has all that the API takes.
type openAIRequest struct {
	Model    string          `json:"model"`
	Messages []openAIMessage `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      *bool           `json:"strict"`
		} `json:"function"`
	} `json:"tools"`
	Stream              bool            `json:"stream"`
	StreamOptions       json.RawMessage `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	N                   *int            `json:"n"`
	Stop                json.RawMessage `json:"stop"`
	Seed                *int            `json:"seed"`
	ResponseFormat      json.RawMessage `json:"response_format"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	Metadata            json.RawMessage `json:"metadata"`
	User                string          `json:"user"`
}

type openAIMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	Refusal    *string         `json:"refusal"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  *[]struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

var isFunction = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`).MatchString

func readOpenAI(r *Request) error {
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return refuse("Unsupported media type: %q", kind)
	}
	var in openAIRequest
	if err := strict(r.Body, &in); err != nil {
		return refuse("Unrecognized request argument supplied, or invalid JSON: %s", err)
	}
	switch {
	case in.Model == "":
		return refuse("you must provide a model parameter")
	case len(in.Messages) == 0:
		return refuse("Invalid 'messages': empty array. Expected an array with minimum length 1")
	case len(in.StreamOptions) > 0 && !in.Stream:
		return refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case in.MaxTokens != nil && in.MaxCompletionTokens != nil:
		return refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	r.Model, r.Stream = in.Model, in.Stream
	for _, bound := range []*int{in.MaxTokens, in.MaxCompletionTokens} {
		if bound != nil {
			if r.MaxTokens = *bound; *bound < 1 {
				return refuse("Invalid 'max_tokens': integer below minimum value. Expected a value >= 1")
			}
		}
	}
	for i, t := range in.Tools {
		if t.Type != "function" || !isFunction(t.Function.Name) {
			return refuse("Invalid 'tools[%d].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$', or is too long", i)
		}
		r.Tools = append(r.Tools, toolcall.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	var open []string // calls without a response
	var last *model.Message
	add := func(m model.Message) {
		if last != nil && !last.FromModel && !m.FromModel { // results are messages of their own
			last.Text += m.Text
			last.Results = append(last.Results, m.Results...)
			return
		}
		r.Messages = append(r.Messages, m)
		last = &r.Messages[len(r.Messages)-1]
	}
	for i, m := range in.Messages {
		text, err := openAIText(m.Content)
		if err != nil {
			return refuse("Invalid type for 'messages[%d].content': %w", i, err)
		}
		null := len(m.Content) == 0 || string(m.Content) == "null"
		if m.Role != "tool" && len(open) > 0 {
			return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
		}
		switch {
		case m.Role != "assistant" && null:
			return refuse("Missing required parameter: 'messages[%d].content'", i)
		case m.Role == "system" || m.Role == "developer":
			r.System += text
		case m.Role == "user":
			add(model.Message{Text: text})
		case m.Role == "assistant":
			message := model.Message{FromModel: true, Text: text}
			if m.ToolCalls == nil && null {
				return refuse("Invalid value for 'content': expected a string, got null. (messages[%d])", i)
			}
			if m.ToolCalls != nil {
				if len(*m.ToolCalls) == 0 {
					return refuse("Invalid 'messages[%d].tool_calls': empty array. Expected an array with minimum length 1", i)
				}
				for j, c := range *m.ToolCalls {
					if c.ID == "" || c.Type != "function" || !isFunction(c.Function.Name) || c.Function.Arguments == nil || slices.Contains(open, c.ID) {
						return refuse("Invalid 'messages[%d].tool_calls[%d]': want id, type, function.name and function.arguments", i, j)
					}
					open = append(open, c.ID)
					message.Calls = append(message.Calls, toolcall.Call{ID: c.ID, Tool: c.Function.Name, Input: json.RawMessage(*c.Function.Arguments)})
				}
			}
			add(message)
		case m.Role == "tool":
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return refuse("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'. (messages[%d])", i)
			}
			open = slices.Delete(open, at, at+1)
			add(model.Message{Results: []toolcall.Result{{CallID: m.ToolCallID, Content: []toolcall.Content{toolcall.Text(text)}, Failed: strings.HasPrefix(text, "Error: ")}}})
		default:
			return refuse("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role)
		}
	}
	if len(open) > 0 {
		return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
	}
	if len(r.Messages) == 0 {
		r.Messages = []model.Message{{}}
	}
	return nil
}

// openAIText returns the text of a content: a string, or parts.
func openAIText(content json.RawMessage) (text string, err error) {
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var list []struct{ Type, Text string }
	if err := json.Unmarshal(content, &list); err != nil || len(list) == 0 {
		return "", refuse("expected a string, or an array of content parts")
	}
	for _, part := range list {
		if part.Type != "text" && part.Type != "image_url" {
			return "", refuse("Invalid value: %q", part.Type)
		}
		text += part.Text
	}
	return text, nil
}
