// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser has the tool that uses a browser.
package browser

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed browser.md
var browserDoc string

//go:embed browser_help.md
var browserHelp string

type browserInput struct {
	Operation string   `json:"operation" jsonschema:"what to do"`
	URL       string   `json:"url,omitempty" check:"max=8192" jsonschema:"of navigate, and of a new tab"`
	Ref       string   `json:"ref,omitempty" check:"max=20" jsonschema:"an element of the last snapshot, such as e12"`
	ToRef     string   `json:"to_ref,omitempty" check:"max=20" jsonschema:"where drag ends"`
	Text      string   `json:"text,omitempty" check:"max=100000" jsonschema:"to type, to wait for, or to answer a prompt with"`
	Submit    bool     `json:"submit,omitempty" jsonschema:"press Enter after typing"`
	Key       string   `json:"key,omitempty" check:"max=40" jsonschema:"to press, such as Enter or Control+A"`
	Values    []string `json:"values,omitempty" check:"max=100" jsonschema:"options to select"`
	Count     int64    `json:"count,omitempty" check:"min=1,max=3" jsonschema:"clicks; default 1"`
	Direction string   `json:"direction,omitempty" check:"enum=up|down|left|right" jsonschema:"of scroll; default down"`
	Pixels    int64    `json:"pixels,omitempty" check:"min=1,max=100000" jsonschema:"to scroll; default 600"`
	Path      string   `json:"path,omitempty" check:"max=4096" jsonschema:"file of the workspace: to upload, or to write a download, screenshot or pdf to"`
	Full      bool     `json:"full,omitempty" jsonschema:"screenshot: of the whole page; snapshot: all, not what changed"`
	Accept    bool     `json:"accept,omitempty" jsonschema:"the dialog; otherwise it is dismissed"`
	Gone      bool     `json:"gone,omitempty" jsonschema:"wait until text is no longer shown"`
	State     string   `json:"state,omitempty" check:"enum=loaded|idle" jsonschema:"to wait for"`
	Action    string   `json:"action,omitempty" check:"enum=list|new|select|close" jsonschema:"of tabs; default list"`
	Tab       string   `json:"tab,omitempty" check:"max=20" jsonschema:"to select or close, such as t2"`
	Script    string   `json:"script,omitempty" check:"max=100000" jsonschema:"JavaScript to evaluate"`
	TimeoutMS int64    `json:"timeout_ms,omitempty" check:"min=1,max=600000" jsonschema:"to wait for a page, text or download; default 30000"`
}

// The time that pages have, and what a call has beside it.
const (
	defaultWait = 30 * time.Second
	callRoom    = 60 * time.Second
)

func (in *browserInput) wait() time.Duration {
	return cmp.Or(time.Duration(in.TimeoutMS)*time.Millisecond, defaultWait)
}

// Timeout is how long the call may run.
func (in *browserInput) Timeout() time.Duration { return in.wait() + callRoom }

// needs are the fields that operations cannot do without.
var needs = map[string][]string{
	"navigate": {"url"}, "click": {"ref"}, "type": {"ref"}, "press": {"key"}, "select": {"ref", "values"}, "hover": {"ref"},
	"drag": {"ref", "to_ref"}, "upload": {"ref", "path"}, "pdf": {"path"}, "evaluate": {"script"},
}

// Check finds what the schema cannot tell.
func (in *browserInput) Check() (problems []tools.Problem) {
	missing := map[string]bool{
		"url": in.URL == "", "ref": in.Ref == "", "to_ref": in.ToRef == "", "key": in.Key == "", "values": len(in.Values) == 0, "path": in.Path == "", "script": in.Script == "",
	}
	for _, field := range needs[in.Operation] {
		if missing[field] {
			problems = append(problems, tools.Problem{Pointer: "/" + field, Message: "is missing: operation " + in.Operation + " needs it"})
		}
	}
	if in.Operation == "wait" && in.Text == "" && in.State == "" {
		problems = append(problems, tools.Problem{Pointer: "/text", Message: "is missing: operation wait needs a text, or state"})
	}
	if in.Operation == "tabs" && (in.Action == "select" || in.Action == "close") && in.Tab == "" {
		problems = append(problems, tools.Problem{Pointer: "/tab", Message: "is missing: which tab is meant, such as t2?"})
	}
	if in.URL != "" && in.URL != blank {
		if host, ok := browser.HostOf(in.URL); !ok || strings.HasPrefix(strings.ToLower(in.URL), "ws") {
			problems = append(problems, tools.Problem{Pointer: "/url", Message: "is no address that is opened: want one that begins with https:// or http://, or about:blank. Files of the workspace are read with other tools"})
		} else if strings.ContainsAny(host.Name, " %\\") {
			problems = append(problems, tools.Problem{Pointer: "/url", Message: "has no name of a host"})
		}
	}
	return problems
}

const blank = "about:blank"

// acting are the operations that have a page do what it would do for a person: it may send
// something to its host.
var acting = []string{"back", "forward", "reload", "click", "type", "press", "select", "drag", "upload", "dialog", "evaluate"}

// Tools returns the tool that uses browsers.
func Tools(browsers *browser.Set) []tools.Tool { return []tools.Tool{Browser(browsers)} }

// Browser returns the tool that uses a browser.
func Browser(browsers *browser.Set) tools.Tool {
	spec := tools.Spec{
		Name:    "browser",
		Aliases: []string{"Browser", "web_browser"},
		Label:   "Use a browser",
		Summary: "Open web pages in a real browser, look at them, click, type, upload, download and take screenshots.",

		Description:          browserDoc,
		Help:                 browserHelp,
		Category:             "web",
		Level:                tools.WorkspaceWrite,
		LeastLevel:           tools.ReadOnly,
		RequiredCapabilities: []string{browser.Capability},
		DefaultTimeout:       defaultWait + callRoom,
		Examples: []tools.Example{
			{Summary: "Open a page", Input: json.RawMessage(`{"operation":"navigate","url":"https://example.com/"}`)},
			{Summary: "See what is on it", Input: json.RawMessage(`{"operation":"snapshot"}`)},
			{Summary: "Fill a field and press Enter", Input: json.RawMessage(`{"operation":"type","ref":"e3","text":"lamp","submit":true}`)},
			{Summary: "See it as a person does", Input: json.RawMessage(`{"operation":"screenshot"}`)},
		},
	}
	tool := tools.New(spec,
		func(env tools.Env, in browserInput) []tools.Effect { return effects(browsers, env, &in) },
		func(ctx context.Context, env tools.Env, in browserInput, _ tools.Sink) (tools.Result, error) {
			return run(ctx, browsers, env, &in)
		})
	names := operations
	if browsers.Config().Evaluate {
		names = append(slices.Clone(names), "evaluate")
	}
	tool = tools.WithChoices(tool, "operation", names...)
	if !browsers.Available() {
		tool = tools.WithUnavailable(tool, browser.Unavailable)
	}
	return tool
}

// operations are those that need no leave of the operator.
var operations = []string{
	"navigate", "back", "forward", "reload", "snapshot", "text", "screenshot", "pdf", "click", "type", "press", "select", "hover", "drag",
	"scroll", "upload", "download", "dialog", "wait", "tabs", "console", "network",
}

// reached returns the hosts that a call is to reach: those that were judged, also if the
// page is another one by now.
func reached(browsers *browser.Set, env tools.Env, in *browserInput) []browser.Host {
	return env.Once(reachedKey{}, func() any { return named(browsers, env, in) }).([]browser.Host)
}

type reachedKey struct{}

// named returns the hosts that a call names, or that the page is from.
func named(browsers *browser.Set, env tools.Env, in *browserInput) (hosts []browser.Host) {
	add := func(address string) {
		if host, ok := browser.HostOf(address); ok && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if in.Operation == "navigate" || in.Operation == "tabs" && in.Action == "new" {
		add(in.URL)
	}
	known := browsers.Known(env.Session)
	if known != nil && slices.Contains(acting, in.Operation) {
		add(known.Place())
		if in.Operation == "click" {
			add(known.LinkOf(in.Ref))
		}
	}
	return hosts
}

// effects tells what a call would touch. Where a page leads by itself is judged when it
// does.
func effects(browsers *browser.Set, env tools.Env, in *browserInput) (list []tools.Effect) {
	for _, host := range reached(browsers, env, in) {
		list = append(list, tools.Effect{Kind: tools.ReachesHost, Host: host.Name, Port: host.Port, Own: browsers.Own(host)})
	}
	if in.Path != "" {
		switch in.Operation {
		case "upload":
			list = append(list, env.Reads(in.Path)...)
		case "download", "screenshot", "pdf":
			list = append(list, env.Writes(in.Path)...)
		}
	}
	return list
}

// details is what a runtime is told.
type details struct {
	Tab    string `json:"tab,omitempty"`
	URL    string `json:"url,omitempty"`
	Title  string `json:"title,omitempty"`
	Status int64  `json:"status,omitempty"`
	Time   string `json:"time"`

	Width  int    `json:"width,omitempty"` // of an image
	Height int    `json:"height,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of a file
	Size   int64  `json:"size,omitempty"`

	Changes bool `json:"changes,omitempty"` // a snapshot shows what changed
	Foreign bool `json:"foreign"`           // the content comes from pages
}

// run performs a call.
func run(ctx context.Context, browsers *browser.Set, env tools.Env, in *browserInput) (result tools.Result, err error) {
	d := details{Time: time.Now().UTC().Format(time.RFC3339), Foreign: true}
	notes, err := browsers.Use(ctx, env, reached(browsers, env, in), func(b *browser.Browser) error {
		t, err := b.Current(ctx)
		if err != nil {
			return err
		}
		content, err := perform(ctx, env, b, t, in, &d)
		result.Content = content
		tell(b, &result, &d, err)
		return err
	})
	for _, note := range notes {
		result.Content = append(result.Content, tools.Text("("+note+")"))
	}
	result.Details, _ = json.Marshal(d)
	return result, err
}

// tell adds how the page stands, and what was refused to it.
func tell(b *browser.Browser, result *tools.Result, d *details, err error) {
	_, t := b.Tabs()
	if t == nil {
		return
	}
	state := t.State()
	d.Tab, d.URL, d.Status = state.Tab, state.URL, state.Status
	var words []string
	switch {
	case state.Crashed:
		words = append(words, "The page crashed.")
	case state.Dialog != nil && err == nil:
		words = append(words, fmt.Sprintf("The page shows a dialog and waits: %s %q. Answer it with operation dialog.", state.Dialog.Type, state.Dialog.Text))
	case state.Loading:
		words = append(words, "The page still loads.")
	}
	if refused := b.Refused(); len(refused) > 0 && err == nil {
		words = append(words, "Not reached: "+strings.Join(refused, "; "))
	}
	if len(words) > 0 {
		result.Content = append(result.Content, tools.Text("("+strings.Join(words, " ")+")"))
	}
}
