// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	json "github.com/go-json-experiment/json"

	"github.com/toolserver/toolserver/internal/tools"
)

// How long a page has.
const (
	answerTime = 15 * time.Second       // to do what it is asked
	quietTime  = 500 * time.Millisecond // for requests that an action began
	loadTime   = 10 * time.Second       // to load what an action has it load
)

var (
	errDialog   = errors.New("a dialog is open")
	errCrashed  = errors.New("the page crashed")
	errTabGone  = errors.New("the tab was closed")
	errNoAnswer = errors.New("the page does not answer")
)

// Current returns the tab that calls work on, which is opened if there is none.
func (b *Browser) Current(ctx context.Context) (*Tab, error) {
	b.mu.Lock()
	t := b.current
	b.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return b.Open(ctx)
}

// Tabs returns the tabs, and which of them is the current one.
func (b *Browser) Tabs() (tabs []*Tab, current *Tab) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.tabs), b.current
}

// Open opens a tab and makes it the current one.
func (b *Browser) Open(ctx context.Context) (*Tab, error) {
	b.mu.Lock()
	n := len(b.tabs)
	b.mu.Unlock()
	if most := b.set.config.Tabs; n >= most {
		return nil, tools.Failf("too_many_tabs", "There are %d tabs, which is all a browser may have. Close one that is no longer needed.", most)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	defer cancel()
	create := target.CreateTarget("about:blank").WithNewWindow(true) // there may be no window
	create.BrowserContextID = b.context
	id, err := create.Do(cdp.WithExecutor(ctx, executor{b.conn, ""}))
	if err != nil {
		return nil, err
	}
	var t *Tab
	err = b.wait(ctx, func() bool {
		at := slices.IndexFunc(b.tabs, func(t *Tab) bool { return t.target == id })
		if at >= 0 {
			t = b.tabs[at]
			b.current = t
		}
		return at >= 0
	})
	return t, err
}

// Choose makes a tab the current one.
func (b *Browser) Choose(id string) (*Tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, t := range b.tabs {
		if t.ID == id {
			b.current = t
			return t, nil
		}
		ids = append(ids, t.ID)
	}
	return nil, tools.Failf("no_such_tab", "There is no tab %s. There are: %s.", id, strings.Join(ids, ", "))
}

// CloseTab closes a tab.
func (b *Browser) CloseTab(ctx context.Context, t *Tab) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	defer cancel()
	if err := target.CloseTarget(t.target).Do(cdp.WithExecutor(ctx, executor{b.conn, ""})); err != nil {
		return err
	}
	return b.wait(ctx, func() bool { return !slices.Contains(b.tabs, t) })
}

// Replace opens a tab in the place of one that no longer answers.
func (b *Browser) Replace(ctx context.Context, t *Tab) (*Tab, error) {
	b.mu.Lock()
	b.tabs = slices.DeleteFunc(b.tabs, func(other *Tab) bool { return other == t })
	b.mu.Unlock()
	defer b.conn.post("", target.CommandCloseTarget, target.CloseTarget(t.target))
	return b.Open(ctx)
}

// A State is how a page stands.
type State struct {
	Tab, URL string
	Status   int64
	Loading  bool
	Crashed  bool
	Dialog   *Dialog
}

// State returns how the page stands.
func (t *Tab) State() State {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return State{t.ID, t.url, t.status, len(t.loading) > 0, t.crashed, t.dialog}
}

// Place returns the address of the current page; "" where there is none.
func (b *Browser) Place() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		return ""
	}
	return b.current.url
}

// broken returns what keeps the page from doing anything. The browser is locked.
func (t *Tab) broken() error {
	switch {
	case t.dialog != nil:
		return errDialog
	case t.crashed:
		return errCrashed
	case !slices.Contains(t.b.tabs, t):
		return errTabGone
	}
	return nil
}

// do has the page do something, as long as it can: until a dialog opens, it crashes, or
// does not answer in time.
func (t *Tab) do(ctx context.Context, f func(ctx context.Context) error) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(answerTime, func() { cancel(errNoAnswer) })
	defer timer.Stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		var why error
		if t.b.wait(limited, func() bool { why = t.broken(); return why != nil }) == nil {
			cancel(why)
		}
	}()
	err := f(cdp.WithExecutor(limited, executor{t.b.conn, t.session}))
	cancel(nil)
	<-watched
	return t.explain(ctx, err)
}

// explain says what a model can do about an error of a page.
func (t *Tab) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	switch {
	case errors.Is(err, errDialog):
		d := t.State().Dialog
		if d == nil {
			return err
		}
		return tools.Failf("dialog_open", "The page shows a dialog and waits: %s %s. Answer it with operation dialog and accept true or false.", d.Type, quoted(oneLine(d.Text)))
	case errors.Is(err, errCrashed):
		return tools.Failf("page_crashed", "The page of %s crashed, most likely by using too much memory. Navigate it to another address, or close it.", t.ID)
	case errors.Is(err, errTabGone):
		return tools.Failf("tab_closed", "The tab %s was closed. Choose another with operation tabs.", t.ID)
	case errors.Is(err, errNoAnswer):
		return tools.Failf("page_unresponsive", "The page of %s did not answer for %s: a script of it may run without end. Navigate to another address, or close the tab.", t.ID, answerTime)
	}
	return err
}

// settle waits for what an action began: a page that loads, or requests that end soon.
func (t *Tab) settle(ctx context.Context) error {
	err := t.do(ctx, func(ctx context.Context) error {
		object, _, err := runtime.Evaluate("new Promise(done => setTimeout(() => done(document.title), 0))").WithAwaitPromise(true).WithReturnByValue(true).Do(ctx)
		if err == nil {
			t.b.mu.Lock()
			t.title, t.titleAt = objectText(object), t.moves
			t.b.mu.Unlock()
		}
		return err
	})
	if failure, ok := errors.AsType[*tools.Failure](err); ok && failure.Code == "dialog_open" {
		return nil // which is told with the state of the page
	}
	if err != nil && ctx.Err() == nil && t.b.isGone() {
		return err
	}
	quiet, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	t.b.wait(quiet, func() bool { return len(t.inFlight) == 0 || t.broken() != nil })
	load, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	t.b.wait(load, func() bool { return len(t.loading) == 0 || t.broken() != nil })
	return ctx.Err()
}

// Navigate opens an address, and returns when it is loaded or that has taken so long.
func (t *Tab) Navigate(ctx context.Context, address string, long time.Duration) error {
	return t.load(ctx, long, func(ctx context.Context) error {
		var answer struct {
			Loader cdp.LoaderID `json:"loaderId"`
			Failed string       `json:"errorText"`
		}
		if err := cdp.Execute(ctx, page.CommandNavigate, page.Navigate(address), &answer); err != nil {
			return err
		}
		if answer.Failed != "" {
			return t.notLoaded(address, answer.Failed)
		}
		if answer.Loader == "" { // it stays on the page
			return nil
		}
		return t.b.wait(ctx, func() bool { return t.loader == answer.Loader })
	})
}

// Reload loads the page again.
func (t *Tab) Reload(ctx context.Context, long time.Duration) error {
	return t.load(ctx, long, func(ctx context.Context) error { return t.move(ctx, page.Reload()) })
}

// Go goes back or forward by so many pages.
func (t *Tab) Go(ctx context.Context, by int64, long time.Duration) error {
	return t.load(ctx, long, func(ctx context.Context) error {
		current, entries, err := page.GetNavigationHistory().Do(ctx)
		if err != nil {
			return err
		}
		at := current + by
		if at < 0 || at >= int64(len(entries)) {
			return tools.Failf("no_such_page", "There is no page to go to: this one is number %d of %d in the history of the tab.", current+1, len(entries))
		}
		return t.move(ctx, page.NavigateToHistoryEntry(entries[at].ID))
	})
}

// move sends a command that has the tab move to another address, and waits until it has.
func (t *Tab) move(ctx context.Context, command interface{ Do(context.Context) error }) error {
	t.b.mu.Lock()
	moves := t.moves
	t.b.mu.Unlock()
	if err := command.Do(ctx); err != nil {
		return err
	}
	return t.b.wait(ctx, func() bool { return t.moves > moves })
}

// load has a page begin to load, and waits until it has. One that does not answer is left
// alone: the state of the page says that it still loads.
func (t *Tab) load(ctx context.Context, long time.Duration, begin func(context.Context) error) error {
	b := t.b
	b.mu.Lock()
	if t.leaving = true; t.dialog != nil { // whoever leaves a page does not answer its questions
		b.conn.post(t.session, page.CommandHandleJavaScriptDialog, page.HandleJavaScriptDialog(false))
		t.dialog = nil
	}
	t.crashed, t.failed = false, ""
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		t.leaving = false
		b.mu.Unlock()
	}()
	limited, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	err := t.do(limited, begin)
	if err == nil {
		err = b.wait(limited, func() bool { return len(t.loading) == 0 || t.broken() != nil })
	}
	if errors.Is(err, errNoAnswer) && ctx.Err() == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && t.failed != "" {
		return tools.Failf("not_reached", "%s was not opened: %s", t.url, t.failed)
	}
	return err
}

// notLoaded says why an address was not opened.
func (t *Tab) notLoaded(address, failed string) error {
	if failed == "net::ERR_ABORTED" { // a download, or nothing to show
		return nil
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	why := t.b.refused[address]
	if host, ok := HostOf(address); ok && why == "" {
		why = t.b.refused[host.key()]
	}
	for _, text := range t.b.refused {
		if why == "" { // of an address that a name stands for, or that a page led to
			why = text
		}
	}
	if why != "" {
		return tools.Failf("not_reached", "%s was not opened: %s.", address, strings.TrimSuffix(why, "."))
	}
	return &tools.Failure{Code: "not_reached", Retryable: true, Message: fmt.Sprintf("%s was not opened: %s.", address, strings.TrimPrefix(failed, "net::"))}
}

// Answer answers the dialog of a page.
func (t *Tab) Answer(ctx context.Context, accept bool, text string) error {
	if t.State().Dialog == nil {
		return tools.Failf("no_dialog", "The page shows no dialog.")
	}
	t.b.mu.Lock()
	t.dialog = nil
	t.b.mu.Unlock()
	err := t.do(ctx, func(ctx context.Context) error {
		return page.HandleJavaScriptDialog(accept).WithPromptText(text).Do(ctx)
	})
	if err != nil {
		if failure, ok := errors.AsType[*tools.Failure](err); ok && failure.Code == "dialog_open" {
			return nil // the next one
		}
		return err
	}
	return t.settle(ctx)
}

// point returns where an element is, once it is in view and nothing covers it.
func (t *Tab) point(ctx context.Context, ref string) (x, y float64, err error) {
	e, err := t.element(ref)
	if err != nil {
		return 0, 0, err
	}
	// Commands are done in order, and where the first fails so does the second.
	t.b.conn.post(t.session, dom.CommandScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeeded().WithBackendNodeID(e.node))
	quads, err := dom.GetContentQuads().WithBackendNodeID(e.node).Do(ctx)
	if err != nil || len(quads) == 0 || len(quads[0]) < 8 {
		return 0, 0, t.gone(ref, err)
	}
	q := quads[0]
	x, y = (q[0]+q[2]+q[4]+q[6])/4, (q[1]+q[3]+q[5]+q[7])/4
	hit, _, _, err := dom.GetNodeForLocation(int64(x), int64(y)).WithIncludeUserAgentShadowDOM(false).Do(ctx)
	if err != nil || hit == e.node {
		return x, y, nil
	}
	var cover string
	if err := t.call(ctx, e.node, coverScript, &cover, hit); err == nil && cover != "" {
		return 0, 0, tools.Failf("covered", "%s cannot be used there: %s is in front of it. Close or move that first, or scroll.", ref, cover)
	}
	return x, y, nil
}

// coverScript tells what an element is that is in front of another; "" where that belongs to
// it, or the other way round.
const coverScript = `function(hit) {
	for (let at = hit; at; at = at.parentNode || at.host) if (at === this) return "";
	for (let at = this; at; at = at.parentNode || at.host) if (at === hit) return "";
	const label = hit.closest && hit.closest("label");
	if (label && label.control === this) return "";
	if (hit.ownerDocument !== this.ownerDocument) return "";
	return "<" + hit.nodeName.toLowerCase() + (hit.id ? " id=" + hit.id : "") + ">";
}`

// gone says that an element can no longer be used.
func (t *Tab) gone(ref string, err error) error {
	var protocol *protocolError
	if err == nil || errors.As(err, &protocol) {
		return tools.Failf("not_visible", "%s is not there any more, or is not visible: take a snapshot to see what there is.", ref)
	}
	return err
}

// call calls a function of JavaScript on a node, with others as arguments.
func (t *Tab) call(ctx context.Context, node cdp.BackendNodeID, script string, result any, others ...any) error {
	resolve := func(id cdp.BackendNodeID) (runtime.RemoteObjectID, error) {
		object, err := dom.ResolveNode().WithBackendNodeID(id).WithObjectGroup("toolserver").Do(ctx)
		if err != nil {
			return "", err
		}
		return object.ObjectID, nil
	}
	on, err := resolve(node)
	if err != nil {
		return err
	}
	defer t.b.conn.post(t.session, runtime.CommandReleaseObjectGroup, runtime.ReleaseObjectGroup("toolserver"))
	var arguments []*runtime.CallArgument
	for _, other := range others {
		argument := new(runtime.CallArgument)
		if id, ok := other.(cdp.BackendNodeID); ok {
			argument.ObjectID, err = resolve(id)
		} else {
			argument.Value, err = json.Marshal(other)
		}
		if err != nil {
			return err
		}
		arguments = append(arguments, argument)
	}
	object, failed, err := runtime.CallFunctionOn(script).WithObjectID(on).WithArguments(arguments).WithReturnByValue(true).WithUserGesture(true).Do(ctx)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return errors.New(oneLine(exceptionText(failed)))
	case result == nil:
		return nil
	}
	return json.Unmarshal([]byte(object.Value), result)
}

func mouse(kind input.MouseType, x, y float64, button input.MouseButton, clicks int64) *input.DispatchMouseEventParams {
	e := input.DispatchMouseEvent(kind, x, y).WithButton(button).WithClickCount(clicks)
	if button == input.Left && kind != input.MouseReleased {
		e = e.WithButtons(1)
	}
	return e
}

// mouse sends what a mouse does, and waits for the last of it: the page sees them in order.
func (t *Tab) mouse(ctx context.Context, events ...*input.DispatchMouseEventParams) error {
	last := len(events) - 1
	for _, e := range events[:last] {
		if err := t.b.conn.post(t.session, input.CommandDispatchMouseEvent, e); err != nil {
			return err
		}
	}
	return events[last].Do(ctx)
}

// Click clicks an element so many times.
func (t *Tab) Click(ctx context.Context, ref string, times int64) error {
	return t.act(ctx, func(ctx context.Context) error {
		x, y, err := t.point(ctx, ref)
		if err != nil {
			return err
		}
		events := []*input.DispatchMouseEventParams{mouse(input.MouseMoved, x, y, input.None, 0)}
		for i := range times {
			events = append(events, mouse(input.MousePressed, x, y, input.Left, i+1), mouse(input.MouseReleased, x, y, input.Left, i+1))
		}
		return t.mouse(ctx, events...)
	})
}

// act has the page do something, and waits for what that began. A dialog that it opens is
// told with the state of the page.
func (t *Tab) act(ctx context.Context, f func(context.Context) error) error {
	if t.State().Dialog != nil {
		return t.explain(ctx, errDialog)
	}
	err := t.do(ctx, f)
	if failure, ok := errors.AsType[*tools.Failure](err); ok && (failure.Code == "dialog_open" || failure.Code == "tab_closed") {
		return nil
	}
	if err != nil {
		return err
	}
	return t.settle(ctx)
}

// Hover moves the mouse over an element.
func (t *Tab) Hover(ctx context.Context, ref string) error {
	return t.act(ctx, func(ctx context.Context) error {
		x, y, err := t.point(ctx, ref)
		if err != nil {
			return err
		}
		return t.mouse(ctx, mouse(input.MouseMoved, x, y, input.None, 0))
	})
}

// Drag drags an element onto another.
func (t *Tab) Drag(ctx context.Context, from, to string) error {
	return t.act(ctx, func(ctx context.Context) error {
		toX, toY, err := t.point(ctx, to)
		if err != nil {
			return err
		}
		x, y, err := t.point(ctx, from)
		if err != nil {
			return err
		}
		events := []*input.DispatchMouseEventParams{mouse(input.MouseMoved, x, y, input.None, 0), mouse(input.MousePressed, x, y, input.Left, 1)}
		for i := 1.0; i <= 4; i++ {
			events = append(events, mouse(input.MouseMoved, x+(toX-x)*i/4, y+(toY-y)*i/4, input.Left, 0))
		}
		return t.mouse(ctx, append(events, mouse(input.MouseReleased, toX, toY, input.Left, 1))...)
	})
}

// Type replaces what is in a field by a text.
func (t *Tab) Type(ctx context.Context, ref, text string, submit bool) error {
	e, err := t.element(ref)
	if err != nil {
		return err
	}
	return t.act(ctx, func(ctx context.Context) error {
		var why string
		if err := t.call(ctx, e.node, focusScript, &why); err != nil {
			return t.gone(ref, err)
		}
		if why != "" {
			return tools.Failf("not_editable", "Nothing was typed: %s %s.", ref, why)
		}
		if text == "" {
			if err := t.key(ctx, "Delete"); err != nil {
				return err
			}
		} else if err := input.InsertText(text).Do(ctx); err != nil {
			return err
		}
		if submit {
			return t.key(ctx, "Enter")
		}
		return nil
	})
}

// focusScript focuses a field and selects what is in it, or tells why it is none.
const focusScript = `function() {
	const field = this.matches && this.matches("label") && this.control || this;
	if (field.disabled) return "is disabled";
	if (field.readOnly) return "is read-only";
	if (field.nodeName === "SELECT") return "is a list: use operation select";
	if (field.nodeName === "INPUT" && field.type === "file") return "takes files: use operation upload";
	if (!(field.nodeName === "INPUT" || field.nodeName === "TEXTAREA" || field.isContentEditable)) return "is no field that takes text";
	field.focus();
	if (field.select) field.select(); else getSelection().selectAllChildren(field);
	return "";
}`

// Press presses a key, or several at once such as Control+A.
func (t *Tab) Press(ctx context.Context, ref, keys string) error {
	var e element
	if ref != "" {
		var err error
		if e, err = t.element(ref); err != nil {
			return err
		}
	}
	return t.act(ctx, func(ctx context.Context) error {
		if ref != "" {
			if err := dom.Focus().WithBackendNodeID(e.node).Do(ctx); err != nil {
				return t.gone(ref, err)
			}
		}
		return t.key(ctx, keys)
	})
}

// key sends a key, with those that are held meanwhile.
func (t *Tab) key(ctx context.Context, keys string) error {
	parts := strings.Split(keys, "+")
	if strings.HasSuffix(keys, "++") || keys == "+" {
		parts = append(strings.Split(strings.TrimSuffix(strings.TrimSuffix(keys, "+"), "+"), "+"), "+")
	}
	name := parts[len(parts)-1]
	var held input.Modifier
	for _, part := range parts[:len(parts)-1] {
		switch strings.ToLower(part) {
		case "control", "ctrl":
			held |= input.ModifierCtrl
		case "shift":
			held |= input.ModifierShift
		case "alt":
			held |= input.ModifierAlt
		case "meta", "cmd", "command":
			held |= input.ModifierMeta
		case "":
		default:
			return tools.Failf("no_such_key", "There is no key %q that is held with another: want Control, Shift, Alt or Meta, such as in Control+A.", part)
		}
	}
	k, ok := namedKeys[strings.ToLower(name)]
	if !ok {
		runes := []rune(name)
		if len(runes) != 1 {
			return tools.Failf("no_such_key", "There is no key %q: want one character, or one of Enter, Tab, Escape, Backspace, Delete, Space, Home, End, PageUp, PageDown, ArrowUp, ArrowDown, ArrowLeft, ArrowRight, F1 to F12.", name)
		}
		k = key{name: name, text: name}
		if upper := strings.ToUpper(name)[0]; upper >= 'A' && upper <= 'Z' || upper >= '0' && upper <= '9' {
			k.code = int64(upper)
		}
	}
	down := input.DispatchKeyEvent(input.KeyDown).WithKey(k.name).WithCode(k.physical).WithWindowsVirtualKeyCode(k.code).WithModifiers(held)
	if k.text != "" && held&(input.ModifierCtrl|input.ModifierAlt|input.ModifierMeta) == 0 {
		down = down.WithText(k.text)
	}
	if held&input.ModifierCtrl != 0 && strings.EqualFold(k.name, "a") {
		down = down.WithCommands([]string{"selectAll"})
	}
	if err := down.Do(ctx); err != nil {
		return err
	}
	return input.DispatchKeyEvent(input.KeyUp).WithKey(k.name).WithCode(k.physical).WithWindowsVirtualKeyCode(k.code).WithModifiers(held).Do(ctx)
}

// A key is one as a page sees it.
type key struct {
	name, physical, text string
	code                 int64
}

var namedKeys = func() map[string]key {
	keys := map[string]key{"space": {" ", "Space", " ", 32}}
	for _, k := range []key{
		{"Enter", "Enter", "\r", 13}, {"Tab", "Tab", "", 9}, {"Escape", "Escape", "", 27}, {"Backspace", "Backspace", "", 8}, {"Delete", "Delete", "", 46},
		{"Home", "Home", "", 36}, {"End", "End", "", 35}, {"PageUp", "PageUp", "", 33}, {"PageDown", "PageDown", "", 34},
		{"ArrowUp", "ArrowUp", "", 38}, {"ArrowDown", "ArrowDown", "", 40}, {"ArrowLeft", "ArrowLeft", "", 37}, {"ArrowRight", "ArrowRight", "", 39},
	} {
		keys[strings.ToLower(k.name)] = k
	}
	for i := range 12 {
		name := "F" + strconv.Itoa(i+1)
		keys[strings.ToLower(name)] = key{name, name, "", int64(112 + i)}
	}
	return keys
}()

// Select chooses options of a list, by what they show or by their values.
func (t *Tab) Select(ctx context.Context, ref string, values []string) error {
	e, err := t.element(ref)
	if err != nil {
		return err
	}
	return t.act(ctx, func(ctx context.Context) error {
		var why string
		if err := t.call(ctx, e.node, selectScript, &why, values); err != nil {
			return t.gone(ref, err)
		}
		if why != "" {
			return tools.Failf("not_selected", "Nothing was selected: %s %s.", ref, clip(why))
		}
		return nil
	})
}

const selectScript = `function(values) {
	const list = this.nodeName === "OPTION" ? this.closest("select") : this;
	if (list.nodeName !== "SELECT") return "is no list of options: use operation click";
	if (values.length > 1 && !list.multiple) return "takes one value";
	const options = [...list.options], chosen = [];
	for (const value of values) {
		const option = options.find(o => o.value === value) || options.find(o => o.label.trim() === value.trim());
		if (!option) return "has no option " + JSON.stringify(value) + ", but " + options.slice(0, 50).map(o => JSON.stringify(o.label.trim())).join(", ");
		chosen.push(option);
	}
	for (const o of options) o.selected = chosen.includes(o);
	list.dispatchEvent(new Event("input", {bubbles: true}));
	list.dispatchEvent(new Event("change", {bubbles: true}));
	return "";
}`

// Scroll scrolls the page, or what is below an element, by pixels.
func (t *Tab) Scroll(ctx context.Context, ref string, x, y float64) error {
	return t.act(ctx, func(ctx context.Context) error {
		atX, atY := viewWidth/2.0, viewHeight/2.0
		if ref != "" {
			var err error
			if atX, atY, err = t.point(ctx, ref); err != nil {
				return err
			}
		}
		return input.DispatchMouseEvent(input.MouseWheel, atX, atY).WithDeltaX(x).WithDeltaY(y).Do(ctx)
	})
}

// Upload gives a file to a field that takes files.
func (t *Tab) Upload(ctx context.Context, ref, name string, content io.Reader) error {
	e, err := t.element(ref)
	if err != nil {
		return err
	}
	if t.b.files == nil {
		return tools.Failf("elsewhere", "Files cannot be uploaded: the browser runs on another machine.")
	}
	t.b.uploads++
	dir := filepath.Join("uploads", strconv.Itoa(t.b.uploads))
	if err := t.b.files.Mkdir(dir, 0o755); err != nil {
		return err
	}
	file, err := t.b.files.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return t.act(ctx, func(ctx context.Context) error {
		var fits bool
		if err := t.call(ctx, e.node, `function() { return this.nodeName === "INPUT" && this.type === "file" }`, &fits); err != nil {
			return t.gone(ref, err)
		}
		if !fits {
			return tools.Failf("no_file_field", "Nothing was uploaded: %s is no field that takes files. Fields that do are buttons such as \"Choose File\" in a snapshot.", ref)
		}
		return dom.SetFileInputFiles([]string{filepath.Join(t.b.seen, dir, name)}).WithBackendNodeID(e.node).Do(ctx)
	})
}

// Downloaded waits until the newest download that nobody has taken is complete, and returns it
// with its content, which the caller closes.
func (b *Browser) Downloaded(ctx context.Context, long time.Duration) (Download, io.ReadCloser, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	var d *Download
	err := b.wait(ctx, func() bool {
		for _, at := range slices.Backward(b.downloads) {
			if !at.taken {
				d = at
				return at.State != "inProgress"
			}
		}
		return false
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil && d == nil && errors.Is(err, errNoAnswer):
		return Download{}, nil, tools.Failf("no_download", "No page has begun a download within %s: click what begins it first.", long)
	case err != nil && errors.Is(err, errNoAnswer):
		return *d, nil, tools.Failf("download_unfinished", "The download of %s is not complete after %s: %.0f bytes of it are here. Call again to wait longer.", d.Name, long, d.Received)
	case err != nil:
		return Download{}, nil, err
	case b.files == nil:
		return *d, nil, tools.Failf("elsewhere", "Downloads cannot be kept: the browser runs on another machine.")
	}
	d.taken = true
	if d.State != "completed" {
		why := d.Why
		if why == "" {
			why = "the browser cancelled it"
		}
		return *d, nil, tools.Failf("download_cancelled", "The download of %s ended: %s.", d.Name, why)
	}
	file, err := b.files.Open(filepath.Join("downloads", d.GUID))
	if err != nil {
		return *d, nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return *d, nil, errors.New("what was downloaded is no file")
	}
	b.files.Remove(filepath.Join("downloads", d.GUID)) // it is open
	return *d, file, nil
}

// The largest image of a page, in pixels.
const maxHeight = 8000

// Screenshot returns an image of what is seen of the page, of all of it, or of an element,
// as PNG.
func (t *Tab) Screenshot(ctx context.Context, ref string, full bool) (png []byte, width, height int, err error) {
	err = t.do(ctx, func(ctx context.Context) error {
		shot := page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithCaptureBeyondViewport(full || ref != "")
		width, height = viewWidth, viewHeight
		switch {
		case ref != "":
			e, err := t.element(ref)
			if err != nil {
				return err
			}
			if err := dom.ScrollIntoViewIfNeeded().WithBackendNodeID(e.node).Do(ctx); err != nil {
				return t.gone(ref, err)
			}
			quads, err := dom.GetContentQuads().WithBackendNodeID(e.node).Do(ctx)
			if err != nil || len(quads) == 0 {
				return t.gone(ref, err)
			}
			_, _, _, _, view, _, err := page.GetLayoutMetrics().Do(ctx)
			if err != nil {
				return err
			}
			q := quads[0]
			left, top := min(q[0], q[2], q[4], q[6]), min(q[1], q[3], q[5], q[7])
			w, h := max(q[0], q[2], q[4], q[6])-left, max(q[1], q[3], q[5], q[7])-top
			shot = shot.WithClip(&page.Viewport{X: left + float64(view.PageX), Y: top + float64(view.PageY), Width: w, Height: min(h, maxHeight), Scale: 1})
			width, height = int(w), int(min(h, maxHeight))
		case full:
			_, _, _, _, _, size, err := page.GetLayoutMetrics().Do(ctx)
			if err != nil {
				return err
			}
			shot = shot.WithClip(&page.Viewport{Width: min(size.Width, maxHeight), Height: min(size.Height, maxHeight), Scale: 1})
			width, height = int(min(size.Width, maxHeight)), int(min(size.Height, maxHeight))
		}
		png, err = shot.Do(ctx)
		return err
	})
	return png, width, height, err
}

// PDF returns the page as it is printed.
func (t *Tab) PDF(ctx context.Context) (pdf []byte, err error) {
	err = t.do(ctx, func(ctx context.Context) error {
		var answer struct {
			Data string `json:"data"`
		}
		if err := cdp.Execute(ctx, page.CommandPrintToPDF, page.PrintToPDF().WithPrintBackground(true), &answer); err != nil {
			return err
		}
		pdf, err = base64.StdEncoding.DecodeString(answer.Data)
		return err
	})
	return pdf, err
}

// Text returns the text of the page, or of an element.
func (t *Tab) Text(ctx context.Context, ref string) (text, title string, err error) {
	var node cdp.BackendNodeID
	if ref != "" {
		e, err := t.element(ref)
		if err != nil {
			return "", "", err
		}
		node = e.node
	}
	err = t.do(ctx, func(ctx context.Context) error {
		if ref != "" {
			if err := t.call(ctx, node, `function() { return String(this.innerText === undefined ? this.textContent : this.innerText).slice(0, 2000000) }`, &text); err != nil {
				return t.gone(ref, err)
			}
			return nil
		}
		var both []string
		if err := t.value(ctx, `[document.title, document.body ? document.body.innerText.slice(0, 2000000) : ""]`, &both); err != nil || len(both) != 2 {
			return err
		}
		title, text = both[0], both[1]
		return nil
	})
	return text, title, err
}

// Title returns the title of the page.
func (t *Tab) Title(ctx context.Context) (title string) {
	t.b.mu.Lock()
	title, known := t.title, t.title != "" && t.titleAt == t.moves
	t.title = "" // the next call asks again
	t.b.mu.Unlock()
	if known {
		return oneLine(title)
	}
	t.do(ctx, func(ctx context.Context) error { return t.value(ctx, "document.title", &title) })
	return oneLine(title)
}

// value evaluates an expression of ours.
func (t *Tab) value(ctx context.Context, expression string, result any) error {
	object, failed, err := runtime.Evaluate(expression).WithReturnByValue(true).Do(ctx)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return errors.New(oneLine(exceptionText(failed)))
	}
	return json.Unmarshal([]byte(object.Value), result)
}

// Evaluate runs a script in the page and returns its value as JSON, or as text.
func (t *Tab) Evaluate(ctx context.Context, script string) (value string, err error) {
	if t.State().Dialog != nil {
		return "", t.explain(ctx, errDialog)
	}
	err = t.do(ctx, func(ctx context.Context) error {
		object, failed, err := runtime.Evaluate(script).WithReturnByValue(true).WithAwaitPromise(true).WithReplMode(true).WithUserGesture(true).Do(ctx)
		switch {
		case err != nil:
			return err
		case failed != nil:
			return tools.Failf("script_failed", "The script failed: %s", clip(exceptionText(failed)))
		}
		value = objectText(object)
		return nil
	})
	if err != nil {
		return "", err
	}
	return value, t.settle(ctx)
}

// WaitFor returns when the page shows a text, or no longer does.
func (t *Tab) WaitFor(ctx context.Context, text string, gone bool, long time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	for {
		var found bool
		quotedText, err := json.Marshal(text)
		if err != nil {
			return err
		}
		// The page itself tells of a change, and now and then it is asked all the same.
		err = t.do(limited, func(ctx context.Context) error {
			object, failed, err := runtime.Evaluate(fmt.Sprintf(waitScript, quotedText, gone)).WithAwaitPromise(true).WithReturnByValue(true).Do(ctx)
			if err != nil || failed != nil {
				return errors.Join(err, errors.New("the page changed"))
			}
			return json.Unmarshal([]byte(object.Value), &found)
		})
		if err == nil && found {
			return nil
		}
		if failure, ok := errors.AsType[*tools.Failure](err); ok && ctx.Err() == nil && limited.Err() == nil {
			return failure
		}
		if limited.Err() != nil || t.b.isGone() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			what := "does not show"
			if gone {
				what = "still shows"
			}
			return tools.Failf("not_shown", "After %s the page %s %s. Take a snapshot to see what there is.", long, what, quoted(oneLine(text)))
		}
		t.b.wait(limited, func() bool { return len(t.loading) == 0 || t.broken() != nil })
	}
}

const waitScript = `new Promise(done => {
	const text = %s, gone = %v;
	const holds = () => (document.body ? document.body.innerText : "").includes(text) !== gone;
	if (holds()) return done(true);
	const end = value => { observer.disconnect(); clearTimeout(timer); done(value) };
	const observer = new MutationObserver(() => { if (holds()) end(true) });
	observer.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
	const timer = setTimeout(() => end(holds()), 1000);
})`

// WaitLoaded returns when the page has loaded or, with idle, has no request under way.
func (t *Tab) WaitLoaded(ctx context.Context, idle bool, long time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	err := t.b.wait(limited, func() bool { return len(t.loading) == 0 && (!idle || len(t.inFlight) == 0) || t.broken() != nil })
	if ctx.Err() == nil && errors.Is(err, errNoAnswer) {
		return tools.Failf("still_loading", "After %s the page still loads. What there is can be used: take a snapshot.", long)
	}
	return err
}

// Console returns what the page wrote to its console; Requests what it asked for.
func (t *Tab) Console() []Message {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return slices.Clone(t.console)
}

// Requests returns what the page asked for, and what came of it.
func (t *Tab) Requests() []Request {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	list := make([]Request, len(t.requests))
	for i, r := range t.requests {
		list[i] = *r
	}
	return list
}

// Refused returns what was refused to pages during the call that runs.
func (b *Browser) Refused() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, why := range b.refused {
		if !slices.Contains(list, why) {
			list = append(list, why)
		}
	}
	slices.Sort(list)
	return list
}
