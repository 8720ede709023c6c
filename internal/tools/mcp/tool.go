// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// Bounds of what models are told in the words of a server.
const (
	maxSummary     = 200
	maxDescription = 8000
	maxRefused     = 50
)

// clean returns a text of a server without what a person would not see.
func clean(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "�"))
	return output.WithoutInvisible(text)
}

// offered returns the tools that were listed, as this server offers them. What a tool was
// when it was first seen is remembered; one that is another by now is withheld.
func (s *Source) offered(c *connection) []tools.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var offered []tools.Tool
	var refused []string
	var changed []source.Change
	refuse := func(format string, args ...any) {
		if len(refused) < maxRefused {
			refused = append(refused, fmt.Sprintf(format, args...))
		}
	}
	fresh, size := false, 0
	names := make(map[string]bool)
	for _, tool := range s.last {
		name, err := source.OwnName(tool.Name)
		if err != nil {
			refuse("%v", err)
			continue
		}
		if !s.server.Tools.has(name) {
			continue
		}
		made, bytes, err := s.tool(name, tool)
		if size += bytes; size > maxListBytes {
			refuse("tool %s and those after it: the tools describe themselves in more than %d bytes", name, maxListBytes)
			break
		}
		if err != nil {
			refuse("tool %s: %v", name, err)
			continue
		}
		now := pinOf(tool)
		switch was, known := s.pins.Tools[name]; {
		case !known && len(s.pins.Tools) >= maxPins:
			refuse("tool %s: the server has had more than %d tools, and no more are remembered", name, maxPins)
			continue
		case !known:
			s.pins.Tools[name], fresh = now, true
		case was.Digest != now.Digest:
			changed = append(changed, source.Change{Tool: name, Description: output.Short(clean(tool.Description), maxSummary*5), Before: clean(was.Description), Schema: was.Schema != now.Schema})
			made = withheld(s.server.Name, name)
		}
		names[name] = true
		offered = append(offered, made)
	}
	for _, tool := range s.besideTools(c) {
		if name := tool.Spec().Name; !names[name] && s.server.Tools.has(name) {
			offered = append(offered, tool)
		}
	}
	if fresh {
		if err := s.pins.save(); err != nil {
			s.options.Logger.Warn("what the tools of a source are cannot be remembered: a change while this server is down will not be noticed",
				zap.String("source", s.server.Name), zap.Error(err))
		}
	}
	if len(changed) > len(s.changed) {
		s.options.Logger.Warn("tools are not what they were when they were approved: they are withheld until an operator approves them",
			zap.String("source", s.server.Name), zap.Int("tools", len(changed)), zap.String("first", changed[0].Tool))
	}
	s.refused, s.changed = refused, changed
	return offered
}

// Approve has tools that changed offered as they are now.
func (s *Source) Approve(names []string) (approved []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := make(map[string]bool)
	for _, change := range s.changed {
		waiting[change.Tool] = true
	}
	for _, name := range names {
		if !waiting[name] {
			return nil, fmt.Errorf("%s has no tool %.60q that waits for an approval", s.server.Name, name)
		}
	}
	pinned := pins{file: s.pins.file, Tools: maps.Clone(s.pins.Tools)}
	for _, tool := range s.last {
		name, err := source.OwnName(tool.Name)
		if err == nil && waiting[name] && (len(names) == 0 || slices.Contains(names, name)) {
			pinned.Tools[name] = pinOf(tool)
			approved = append(approved, name)
		}
	}
	if len(approved) == 0 {
		return nil, nil
	}
	if err := pinned.save(); err != nil {
		return nil, fmt.Errorf("nothing was approved, for it cannot be remembered: %w", err)
	}
	s.pins = &pinned
	select {
	case s.reoffer <- struct{}{}:
	default:
	}
	return approved, nil
}

// has reports whether a tool is chosen.
func (c *Choice) has(name string) bool {
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			word, err := glob.CompileWord(pattern)
			return err == nil && word.Match(name)
		})
	}
	return (len(c.Include) == 0 || matches(c.Include)) && !matches(c.Exclude)
}

// says returns what is said of a tool: by the operator or, where that is trusted and the
// operator says nothing, by its server.
func (s *Source) says(name string, annotations *sdk.ToolAnnotations) source.Says {
	says := source.About(s.server.Says, name)
	if len(says.Tools) == 0 && s.server.TrustAnnotations && annotations != nil {
		says.ReadOnly = annotations.ReadOnlyHint
	}
	return says
}

// spec returns what is common to the tools of the source.
func (s *Source) spec(name, title, description string, says *source.Says) tools.Spec {
	description = output.Short(strings.TrimSpace(clean(description)), maxDescription)
	summary, _, _ := strings.Cut(description, "\n")
	if first, _, ok := strings.Cut(summary, ". "); ok {
		summary = first + "."
	}
	if summary == "" {
		summary = "A tool of " + s.server.Name + " that does not say what it does."
	}
	spec := tools.Spec{
		Name: name, Label: output.Short(oneLine(title), 80), Summary: output.Short(strings.TrimSpace(summary), maxSummary), Description: description,
		Category: s.server.Name, Kind: tools.MCP, Server: s.server.Name, DefaultTimeout: s.server.Timeout,
	}
	says.Level(&spec)
	spec.ConcurrencySafe = spec.Level == tools.ReadOnly
	return spec
}

func oneLine(text string) string { return strings.Join(strings.Fields(clean(text)), " ") }

// tool returns a tool of the server, and how many bytes describe it.
func (s *Source) tool(name string, tool *sdk.Tool) (_ tools.Tool, size int, err error) {
	text, err := json.Marshal(tool.InputSchema)
	if err != nil || tool.InputSchema == nil {
		text = nil
	}
	size = len(text) + min(len(tool.Description), maxDescription)
	input, err := schema.Object(text, true)
	if err != nil {
		return nil, size, err
	}
	says := s.says(name, tool.Annotations)
	title := tool.Title
	spec := s.spec(name, title, tool.Description, &says)
	if a := tool.Annotations; a != nil {
		if spec.Label == "" {
			spec.Label = output.Short(oneLine(a.Title), 80)
		}
		// What makes people more careful is believed of anybody.
		spec.Dangerous = !says.ReadOnly && a.DestructiveHint != nil && *a.DestructiveHint
	}
	var result *schema.Schema
	if tool.OutputSchema != nil {
		text, err := json.Marshal(tool.OutputSchema)
		if err == nil {
			size += len(text)
			result, err = schema.Object(text, false)
		}
		if err != nil {
			return nil, size, fmt.Errorf("of its result: %w", err)
		}
		spec.ResultSchema = result.Text
	}
	full := s.server.Name + tools.NamespaceMark + name
	return tools.NewForeign(tools.Foreign{
		Spec: spec, Schema: input.Text, Check: input.Check,
		Effects: func(env tools.Env, input json.RawMessage) []tools.Effect { return says.Effects(env, full, input) },
		Run: func(ctx context.Context, env tools.Env, input json.RawMessage, out tools.Sink) (tools.Result, error) {
			return s.run(ctx, env, tool.Name, input, result, out)
		},
	}), size, nil
}

// holdsText reports whether a text is the value of a key of a JSON object.
func holdsText(object any, text string) bool {
	keys, _ := object.(map[string]any)
	for _, value := range keys {
		if value == text {
			return true
		}
	}
	return false
}

// withheld returns what stands for a tool that is not what it was. Nothing that the server
// says of it reaches a model.
func withheld(server, name string) tools.Tool {
	reason := fmt.Sprintf("was changed by %s since it was approved: an operator has to look at it, and approves it by \"toolserver mcp approve %s %s\"", server, server, name)
	return tools.NewForeign(tools.Foreign{
		Spec: tools.Spec{
			Name: name, Summary: "Withheld: the tool is not what it was when it was approved.", Description: "Withheld: this tool " + reason + ".",
			Category: server, Kind: tools.MCP, Server: server, Level: tools.WorkspaceWrite,
		},
		Schema: json.RawMessage(`{"type":"object"}`), Unavailable: reason,
		Check: func(input json.RawMessage) (json.RawMessage, error) { return input, nil },
		Run: func(context.Context, tools.Env, json.RawMessage, tools.Sink) (tools.Result, error) {
			return tools.Result{}, tools.Failf("tool_changed", "The tool %s.", reason)
		},
	})
}

// run calls a tool of the server.
func (s *Source) run(ctx context.Context, env tools.Env, name string, input json.RawMessage, result *schema.Schema, out tools.Sink) (tools.Result, error) {
	token, call, c, end, err := s.begin(env, out)
	if err != nil {
		return tools.Result{}, err
	}
	defer end()
	params := &sdk.CallToolParams{Name: name, Arguments: input}
	params.SetProgressToken(token)
	answer, err := c.CallTool(ctx, params)
	if err != nil {
		return tools.Result{Content: s.declinations(call)}, s.explain(ctx, c, err)
	}
	made, err := resultOf(env, answer, result)
	made.Content = append(made.Content, s.declinations(call)...)
	return made, err
}

// resultOf returns the result of a call as ours.
func resultOf(env tools.Env, answer *sdk.CallToolResult, want *schema.Schema) (tools.Result, error) {
	content := contentOf(env, answer.Content)
	if answer.IsError {
		var words []string
		for _, c := range content {
			if text, ok := c.(tools.Text); ok {
				words = append(words, string(text))
			}
		}
		if len(words) == len(content) {
			content = nil // the failure says it all
		}
		message := cmp.Or(output.Short(strings.Join(words, "\n"), env.Shown()), "The tool failed, and did not say why.")
		return tools.Result{Content: content}, &tools.Failure{Code: "tool_failed", Message: message}
	}
	if answer.StructuredContent == nil {
		if want != nil {
			return tools.Result{Content: content}, tools.Failf("bad_result", "The tool returned no structured result, although it promises one.")
		}
		return tools.Result{Content: content}, nil
	}
	structured, err := json.Marshal(answer.StructuredContent)
	if err != nil {
		return tools.Result{}, err
	}
	if want != nil {
		if err := want.Validate(answer.StructuredContent); err != nil {
			return tools.Result{Content: content}, tools.Failf("bad_result", "The tool returned a result that its own schema does not allow: %v", err)
		}
	}
	// Servers repeat it as text, for clients that know no structured results.
	content = slices.DeleteFunc(content, func(c tools.Content) bool {
		text, ok := c.(tools.Text)
		return ok && (sameJSON([]byte(text), structured) || holdsText(answer.StructuredContent, string(text)))
	})
	return tools.Result{Content: append([]tools.Content{tools.JSON(structured)}, content...)}, nil
}

// sameJSON reports whether a text is the same value as one in the form of package json.
func sameJSON(text, canonical []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != canonical[0] || len(text) > 4*len(canonical)+1000 {
		return false
	}
	var value any
	if json.Unmarshal(text, &value) != nil {
		return false
	}
	same, err := json.Marshal(value)
	return err == nil && bytes.Equal(same, canonical)
}

// contentOf returns what a server returned, as ours.
func contentOf(env tools.Env, list []sdk.Content) (content []tools.Content) {
	for _, item := range list {
		switch c := item.(type) {
		case *sdk.TextContent:
			content = append(content, tools.Text(c.Text))
		case *sdk.ImageContent:
			content = append(content, binary(env, "image", c.MIMEType, c.Data))
		case *sdk.AudioContent:
			content = append(content, binary(env, "audio", c.MIMEType, c.Data))
		case *sdk.EmbeddedResource:
			if c.Resource != nil {
				content = append(content, resource(env, c.Resource)...)
			}
		case *sdk.ResourceLink:
			text := fmt.Sprintf("[resource %s, named %q", oneLine(c.URI), oneLine(c.Name))
			if c.MIMEType != "" {
				text += ", " + oneLine(c.MIMEType)
			}
			text += "; read_resource reads it]"
			if c.Description != "" {
				text += "\n" + output.Short(clean(c.Description), 1000)
			}
			content = append(content, tools.Text(text))
		}
	}
	return content
}

// resource returns the content of a resource.
func resource(env tools.Env, r *sdk.ResourceContents) []tools.Content {
	head := fmt.Sprintf("[resource %s", oneLine(r.URI))
	if r.MIMEType != "" {
		head += ", " + oneLine(r.MIMEType)
	}
	if r.Blob != nil {
		return []tools.Content{tools.Text(head + "]"), binary(env, "resource", r.MIMEType, r.Blob)}
	}
	return []tools.Content{tools.Text(head + "]\n" + r.Text)}
}

// images are the types of pictures that models see.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// binary returns bytes as a picture or, where they are none, as an artifact.
func binary(env tools.Env, name, mediaType string, data []byte) tools.Content {
	mediaType = strings.ToLower(oneLine(mediaType))
	if slices.Contains(images, mediaType) && len(data) > 0 {
		return tools.Image{MediaType: mediaType, Data: data}
	}
	if env.Artifacts != nil {
		if w, err := env.Artifacts.Create(name, output.Short(mediaType, 100)); err == nil {
			w.Write(data)
			return w.Close()
		}
	}
	return tools.Text(fmt.Sprintf("[%d bytes of %s, which are not kept]", len(data), mediaType))
}
