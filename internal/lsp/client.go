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
	size    int               // bytes of that
	last    time.Time         // when that was told
	warned  string            // what it last showed as an error, until somebody was told
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
	size      int // bytes
	version   int32
	versioned bool
}

// Bounds of what is kept of it.
const (
	maxWork        = 64
	maxReports     = 10_000
	maxDiagnostics = 1000     // of a file
	maxReported    = 32 << 20 // bytes of all reports
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
			c.working[token] = newWork(value.Title, value.Message, value.Percentage)
		}
	case "report":
		if w, ok := c.working[token]; ok {
			if value.Percentage == nil {
				value.Percentage = w.percent
			}
			c.working[token] = newWork(w.title, value.Message, value.Percentage)
		}
	case "end":
		delete(c.working, token)
	}
	c.wake()
	return nil
}

func newWork(title, message string, percent *uint32) work {
	w := work{title: clip(title), message: clip(message), percent: percent}
	if w.failed() {
		w.message = clipTo(message, maxTrouble)
	}
	return w
}

// clip makes a text of a server short and plain.
func clip(text string) string { return clipTo(text, 200) }

func clipTo(text string, most int) string {
	return strings.TrimSpace(output.Clean([]byte(text[:min(len(text), most)])))
}

// maxTrouble is how many bytes are told of what a server says of its troubles.
const maxTrouble = 1500

// diagnosing reports whether the work is to look for what is wrong with texts: other
// answers do not wait for it.
func (w work) diagnosing() bool {
	return strings.HasPrefix(w.title, "diagnosing ") || strings.HasPrefix(w.title, "Analyzing ") // as gopls calls it
}

// failed reports whether it is no work but a state: gopls tells in this way that it
// cannot load the workspace, for as long as it cannot.
func (w work) failed() bool { return strings.HasPrefix(w.title, "Error loading ") }

func (w work) String() string {
	if w.message == "" {
		return w.title
	}
	return w.title + ": " + w.message
}

// trouble returns what the server says that keeps it from knowing everything; "" for
// nothing. What it has shown once is told once.
func (c *client) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, token := range slices.Sorted(maps.Keys(c.working)) {
		if w := c.working[token]; w.failed() {
			list = append(list, w.String())
		}
	}
	if c.warned != "" && !strings.Contains(strings.Join(list, "\n"), c.warned) {
		list = append(list, c.warned)
	}
	c.warned = ""
	return clipTo(strings.Join(list, "\n"), maxTrouble)
}

// busy returns the work that a server has not finished, so that its answers may be incomplete; "" for
// none. The channel is closed when the work changes.
func (c *client) busy() (what string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, token := range slices.Sorted(maps.Keys(c.working)) {
		w := c.working[token]
		if w.diagnosing() || w.failed() {
			continue
		}
		text := w.String()
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
	r := report{size: len(path)}
	r.version, r.versioned = params.Version.Get()
	was, known := c.found[path]
	for i := range params.Diagnostics[:min(len(params.Diagnostics), maxDiagnostics)] {
		d := &params.Diagnostics[i]
		if r.size += sizeOf(d); c.size-was.size+r.size > maxReported {
			r.size -= sizeOf(d)
			break
		}
		r.list = append(r.list, *d)
	}
	if known || len(c.found) < maxReports {
		c.size += r.size - was.size
		c.found[path] = r
	}
	c.wake()
	return nil
}

// sizeOf returns about how many bytes a problem takes.
func sizeOf(d *protocol.Diagnostic) int {
	source, _ := d.Source.Get()
	n := 256 + len(source) + len(d.Data)
	switch m := d.Message.(type) {
	case protocol.String:
		n += len(m)
	case *protocol.MarkupContent:
		n += len(m.Value)
	}
	if code, ok := d.Code.(protocol.String); ok {
		n += len(code)
	}
	for i := range d.RelatedInformation {
		n += 128 + len(d.RelatedInformation[i].Message) + len(d.RelatedInformation[i].Location.URI)
	}
	return n
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

// ShowMessage implements [protocol.Client]: an error is kept for who asks next.
func (c *client) ShowMessage(_ context.Context, params *protocol.ShowMessageParams) error {
	if params.Type == protocol.MessageTypeError {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.warned = clipTo(params.Message, maxTrouble)
	}
	return nil
}

// The rest is taken and does nothing.

func (c *client) LogTrace(context.Context, *protocol.LogTraceParams) error     { return nil }
func (c *client) LogMessage(context.Context, *protocol.LogMessageParams) error { return nil }
func (c *client) Telemetry(context.Context, protocol.LSPAny) error             { return nil }

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
