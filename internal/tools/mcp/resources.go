// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// Names of the tools for what a server has beside tools.
const (
	listResources = "list_resources"
	readResource  = "read_resource"
	getPrompt     = "get_prompt"
)

type listInput struct {
	Cursor string `json:"cursor,omitempty" jsonschema:"where to go on, from an earlier answer" check:"max=4096"`
}

type readInput struct {
	URI string `json:"uri" jsonschema:"the resource, as list_resources or a result named it" check:"min=1,max=8192"`
}

type promptInput struct {
	Name      string            `json:"name,omitempty" jsonschema:"the prompt; leave it out for a list of them" check:"max=256"`
	Arguments map[string]string `json:"arguments,omitempty" jsonschema:"what the prompt is made of"`
}

// besideTools returns tools for the resources and the prompts of the server, if it has any.
func (s *Source) besideTools(c *connection) (list []tools.Tool) {
	caps := c.InitializeResult().Capabilities
	if caps == nil {
		return nil
	}
	if caps.Resources != nil {
		list = append(list,
			beside(s, listResources, "List the resources of "+s.server.Name+": what it has to read, by address.", s.listResources),
			beside(s, readResource, "Read a resource of "+s.server.Name+" by its address.", s.readResource))
	}
	if caps.Prompts != nil {
		list = append(list, beside(s, getPrompt, "Get a prompt of "+s.server.Name+", or the list of its prompts.", s.getPrompt))
	}
	return list
}

// beside returns a tool that is no tool of the server. It changes nothing but what the
// server does in secret, and that is why it is judged like the others.
func beside[In any](s *Source, name, description string, run func(ctx context.Context, c *connection, env tools.Env, in In) (tools.Result, error)) tools.Tool {
	says := s.says(name, nil)
	spec := s.spec(name, "", description, &says)
	full := s.server.Name + tools.NamespaceMark + name
	return tools.New(spec,
		func(env tools.Env, in In) []tools.Effect {
			if says.ReadOnly || says.Complete {
				return nil
			}
			return []tools.Effect{{Kind: tools.UsesTool, Tool: full}}
		},
		func(ctx context.Context, env tools.Env, in In, out tools.Sink) (tools.Result, error) {
			_, _, c, end, err := s.begin(env, out)
			if err != nil {
				return tools.Result{}, err
			}
			defer end()
			result, err := run(ctx, c, env, in)
			if err != nil {
				err = s.explain(ctx, c, err)
			}
			return result, err
		})
}

func (s *Source) listResources(ctx context.Context, c *connection, env tools.Env, in listInput) (tools.Result, error) {
	page, err := c.ListResources(ctx, &sdk.ListResourcesParams{Cursor: in.Cursor})
	if err != nil {
		return tools.Result{}, err
	}
	var b strings.Builder
	for _, r := range page.Resources {
		if r != nil {
			line(&b, r.URI, r.Name, r.MIMEType, r.Description)
		}
	}
	if in.Cursor == "" {
		// Those of a kind are made by filling in an address; a server need not have any.
		if templates, err := c.ListResourceTemplates(ctx, nil); err == nil {
			for _, t := range templates.ResourceTemplates {
				if t != nil {
					line(&b, t.URITemplate+" (fill in)", t.Name, t.MIMEType, t.Description)
				}
			}
		}
	}
	if b.Len() == 0 {
		b.WriteString("There are no resources.\n")
	}
	if page.NextCursor != "" {
		fmt.Fprintf(&b, "\nThere are more: go on with the cursor %s\n", output.Short(oneLine(page.NextCursor), 4096))
	}
	return tools.TextResult(strings.TrimSuffix(b.String(), "\n")), nil
}

// line writes one of a list.
func line(b *strings.Builder, at, name, mediaType, description string) {
	fmt.Fprintf(b, "%s", output.Short(oneLine(at), 1000))
	for _, more := range []string{name, mediaType, description} {
		if more = output.Short(oneLine(more), 300); more != "" {
			b.WriteString(" · " + more)
		}
	}
	b.WriteString("\n")
}

func (s *Source) readResource(ctx context.Context, c *connection, env tools.Env, in readInput) (tools.Result, error) {
	answer, err := c.ReadResource(ctx, &sdk.ReadResourceParams{URI: in.URI})
	if err != nil {
		return tools.Result{}, err
	}
	var result tools.Result
	for _, r := range answer.Contents {
		if r != nil {
			result.Content = append(result.Content, resource(env, r)...)
		}
	}
	if len(result.Content) == 0 {
		return tools.TextResult("The resource is empty."), nil
	}
	return result, nil
}

func (s *Source) getPrompt(ctx context.Context, c *connection, env tools.Env, in promptInput) (tools.Result, error) {
	if in.Name == "" {
		return s.listPrompts(ctx, c)
	}
	answer, err := c.GetPrompt(ctx, &sdk.GetPromptParams{Name: in.Name, Arguments: in.Arguments})
	if err != nil {
		return tools.Result{}, err
	}
	var result tools.Result
	if text := output.Short(clean(answer.Description), 1000); text != "" {
		result.Content = append(result.Content, tools.Text(text))
	}
	for _, m := range answer.Messages {
		if m == nil {
			continue
		}
		result.Content = append(result.Content, tools.Text("["+oneLine(string(m.Role))+"]"))
		result.Content = append(result.Content, contentOf(env, []sdk.Content{m.Content})...)
	}
	return result, nil
}

func (s *Source) listPrompts(ctx context.Context, c *connection) (tools.Result, error) {
	page, err := c.ListPrompts(ctx, nil)
	if err != nil {
		return tools.Result{}, err
	}
	var b strings.Builder
	for _, p := range page.Prompts {
		if p == nil {
			continue
		}
		line(&b, p.Name, "", "", p.Description)
		for _, a := range p.Arguments {
			if a == nil {
				continue
			}
			need := "optional"
			if a.Required {
				need = "required"
			}
			fmt.Fprintf(&b, "  %s (%s)", output.Short(oneLine(a.Name), 200), need)
			if a.Description != "" {
				b.WriteString(": " + output.Short(oneLine(a.Description), 300))
			}
			b.WriteString("\n")
		}
	}
	if b.Len() == 0 {
		b.WriteString("There are no prompts.")
	}
	return tools.TextResult(strings.TrimSuffix(b.String(), "\n")), nil
}
