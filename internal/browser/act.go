// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	json "github.com/go-json-experiment/json"

	"github.com/toolserver/toolserver/internal/tools"
)

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
	if _, ok := errors.AsType[*protocolError](err); ok || err == nil {
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
		if err := t.mouse(ctx, mouse(input.MouseMoved, x, y, input.None, 0), mouse(input.MousePressed, x, y, input.Left, 1)); err != nil {
			return err
		}
		// One after the other: the page says by the first ones whether something is carried.
		for i := 1.0; i <= 4; i++ {
			if err := t.mouse(ctx, mouse(input.MouseMoved, x+(toX-x)*i/4, y+(toY-y)*i/4, input.Left, 0)); err != nil {
				return err
			}
		}
		return t.mouse(ctx, mouse(input.MouseReleased, toX, toY, input.Left, 1))
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
	if b.files == nil {
		return Download{}, nil, tools.Failf("elsewhere", "Downloads cannot be kept: the browser runs on another machine.")
	}
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
	}
	d.taken = true
	if d.State != "completed" {
		return *d, nil, tools.Failf("download_cancelled", "The download of %s ended: %s.", d.Name, cmp.Or(d.Why, "the browser cancelled it"))
	}
	file, err := b.files.OpenFile(filepath.Join("downloads", d.GUID), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold it up
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
