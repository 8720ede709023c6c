// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.lsp.dev/protocol"

	"github.com/toolserver/toolserver/internal/output"
)

// A client is what a language server talks to: it takes note of what the server tells, and
// answers what it asks. Nothing here waits.
type client struct {
	protocol.UnimplementedClient
	server *Server
	folder protocol.WorkspaceFolder

	mu      sync.Mutex
	changed chan struct{} // closed when something below changes
	working map[string]work
	found   map[string]report // by path, what is wrong
	last    time.Time         // when that was told
	edits   *[]protocol.WorkspaceEdit
}

// work is something that takes a server long.
type work struct {
	title, message string
	percent        *uint32
}

// report is what a server has told of a file.
type report struct {
	list      []protocol.Diagnostic
	version   int32
	versioned bool
}

// Bounds of what is kept of it.
const (
	maxWork        = 64
	maxReports     = 10_000
	maxDiagnostics = 1000 // of a file
)

func newClient(server *Server) *client {
	return &client{server: server, changed: make(chan struct{}), working: make(map[string]work), found: make(map[string]report)}
}

// wake wakes those who wait for something to change. The client is locked.
func (c *client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Progress implements [protocol.Client].
func (c *client) Progress(_ context.Context, params *protocol.ProgressParams) error {
	var value struct {
		Kind, Title, Message string
		Percentage           *uint32
	}
	if json.Unmarshal(params.Value, &value) != nil {
		return nil
	}
	token := fmt.Sprint(params.Token)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch value.Kind {
	case "begin":
		if len(c.working) < maxWork {
			c.working[token] = work{clip(value.Title), clip(value.Message), value.Percentage}
		}
	case "report":
		if w, ok := c.working[token]; ok {
			w.message = clip(value.Message)
			if value.Percentage != nil {
				w.percent = value.Percentage
			}
			c.working[token] = w
		}
	case "end":
		delete(c.working, token)
	}
	c.wake()
	return nil
}

// clip makes a text of a server short and plain.
func clip(text string) string {
	return strings.TrimSpace(output.Clean([]byte(text[:min(len(text), 200)])))
}

// diagnosing reports whether the work is to look for what is wrong with texts: other
// answers do not wait for it.
func (w work) diagnosing() bool { return strings.HasPrefix(w.title, "diagnosing ") }

// busy returns what a server is busy with that answers may lack, and what tells that it has
// changed; "" for nothing.
func (c *client) busy() (what string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, token := range slices.Sorted(maps.Keys(c.working)) {
		w := c.working[token]
		if w.diagnosing() {
			continue
		}
		text := w.title
		if w.message != "" {
			text += ": " + w.message
		}
		if w.percent != nil {
			text += fmt.Sprintf(" (%d %%)", *w.percent)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; "), c.changed
}

// PublishDiagnostics implements [protocol.Client].
func (c *client) PublishDiagnostics(_ context.Context, params *protocol.PublishDiagnosticsParams) error {
	path := params.URI.FsPath()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	r := report{list: params.Diagnostics[:min(len(params.Diagnostics), maxDiagnostics)]}
	r.version, r.versioned = params.Version.Get()
	if _, known := c.found[path]; known || len(c.found) < maxReports {
		c.found[path] = r
	}
	c.wake()
	return nil
}

// Configuration implements [protocol.Client].
func (c *client) Configuration(_ context.Context, params *protocol.ConfigurationParams) ([]protocol.LSPAny, error) {
	list := make([]protocol.LSPAny, len(params.Items))
	for i, item := range params.Items {
		name := ""
		if item.Section != nil {
			name = *item.Section
		}
		text, err := json.Marshal(c.server.section(name))
		if err != nil {
			return nil, err
		}
		list[i] = text
	}
	return list, nil
}

// WorkspaceFolders implements [protocol.Client].
func (c *client) WorkspaceFolders(context.Context) ([]protocol.WorkspaceFolder, error) {
	return []protocol.WorkspaceFolder{c.folder}, nil
}

// ApplyEdit implements [protocol.Client]: what a command of a server would change is taken
// for who runs the command, and nothing is written.
func (c *client) ApplyEdit(_ context.Context, params *protocol.ApplyWorkspaceEditParams) (*protocol.ApplyWorkspaceEditResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.edits == nil || len(*c.edits) >= maxWork {
		why := "nobody asked for an edit"
		return &protocol.ApplyWorkspaceEditResult{FailureReason: &why}, nil
	}
	*c.edits = append(*c.edits, params.Edit)
	return &protocol.ApplyWorkspaceEditResult{Applied: true}, nil
}

// collect has edits of commands noted until done is called.
func (c *client) collect() (edits *[]protocol.WorkspaceEdit, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edits = new([]protocol.WorkspaceEdit)
	c.edits = edits
	return edits, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.edits = nil
	}
}

// The rest is taken and does nothing.

func (c *client) LogTrace(context.Context, *protocol.LogTraceParams) error       { return nil }
func (c *client) LogMessage(context.Context, *protocol.LogMessageParams) error   { return nil }
func (c *client) ShowMessage(context.Context, *protocol.ShowMessageParams) error { return nil }
func (c *client) Telemetry(context.Context, protocol.LSPAny) error               { return nil }

func (c *client) RegisterCapability(context.Context, *protocol.RegistrationParams) error { return nil }

func (c *client) UnregisterCapability(context.Context, *protocol.UnregistrationParams) error {
	return nil
}

func (c *client) WorkDoneProgressCreate(context.Context, *protocol.WorkDoneProgressCreateParams) error {
	return nil
}

func (c *client) ShowMessageRequest(context.Context, *protocol.ShowMessageRequestParams) (*protocol.MessageActionItem, error) {
	return nil, nil
}

func (c *client) DiagnosticRefresh(context.Context) error     { return nil }
func (c *client) CodeLensRefresh(context.Context) error       { return nil }
func (c *client) InlayHintRefresh(context.Context) error      { return nil }
func (c *client) InlineValueRefresh(context.Context) error    { return nil }
func (c *client) SemanticTokensRefresh(context.Context) error { return nil }
func (c *client) FoldingRangeRefresh(context.Context) error   { return nil }
