// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

const (
	maxUpload = 256 << 20
	maxImage  = 3 << 20 // bytes of an image that is shown
)

// perform has a tab do what a call asks for.
func perform(ctx context.Context, env tools.Env, b *browser.Browser, t *browser.Tab, in *browserInput, d *details) ([]tools.Content, error) {
	done := func(what string, err error) ([]tools.Content, error) {
		if err != nil {
			return nil, err
		}
		return []tools.Content{tools.Text(what + place(ctx, b, d))}, nil
	}
	switch in.Operation {
	case "navigate":
		var err error
		hangs := !t.Answers(ctx)
		if !hangs {
			err = t.Navigate(ctx, in.URL, in.wait())
			failure, ok := errors.AsType[*tools.Failure](err)
			hangs = ok && slices.Contains([]string{"tab_closed", "page_unresponsive"}, failure.Code)
		}
		if hangs { // it cannot be led elsewhere
			if t, err = b.Replace(ctx, t); err == nil {
				err = t.Navigate(ctx, in.URL, in.wait())
			}
		}
		return done("Opened ", err)
	case "back":
		return done("Went back to ", t.Go(ctx, -1, in.wait()))
	case "forward":
		return done("Went forward to ", t.Go(ctx, 1, in.wait()))
	case "reload":
		return done("Loaded again: ", t.Reload(ctx, in.wait()))
	case "click":
		return done("Clicked "+in.Ref+" on ", t.Click(ctx, in.Ref, cmp.Or(in.Count, 1)))
	case "type":
		return done("Typed into "+in.Ref+" on ", t.Type(ctx, in.Ref, in.Text, in.Submit))
	case "press":
		return done("Pressed "+in.Key+" on ", t.Press(ctx, in.Ref, in.Key))
	case "select":
		return done("Selected in "+in.Ref+" on ", t.Select(ctx, in.Ref, in.Values))
	case "hover":
		return done("The mouse is over "+in.Ref+" on ", t.Hover(ctx, in.Ref))
	case "drag":
		return done("Dragged "+in.Ref+" to "+in.ToRef+" on ", t.Drag(ctx, in.Ref, in.ToRef))
	case "scroll":
		x, y := scrolled(in)
		return done("Scrolled ", t.Scroll(ctx, in.Ref, x, y))
	case "dialog":
		what := "Dismissed the dialog of "
		if in.Accept {
			what = "Accepted the dialog of "
		}
		return done(what, t.Answer(ctx, in.Accept, in.Text))
	case "wait":
		if in.Text != "" {
			return done("It is so on ", t.WaitFor(ctx, in.Text, in.Gone, in.wait()))
		}
		return done("It is so on ", t.WaitLoaded(ctx, in.State == "idle", in.wait()))
	case "snapshot":
		return snapshot(ctx, env, t, in, d)
	case "text":
		text, title, err := t.Text(ctx, in.Ref)
		d.Title = title
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(text) == "" {
			return []tools.Content{tools.Text("(There is no text.)")}, nil
		}
		return foreign(env, t, text, "page.txt"), nil
	case "screenshot":
		return screenshot(ctx, env, t, in, d)
	case "pdf":
		data, err := t.PDF(ctx)
		if err != nil {
			return nil, err
		}
		return write(env, in.Path, bytes.NewReader(data), d)
	case "upload":
		return upload(ctx, env, b, t, in, d)
	case "download":
		return download(ctx, env, b, in, d)
	case "tabs":
		return tabs(ctx, b, in)
	case "console":
		return console(env, t), nil
	case "network":
		return requests(env, t), nil
	case "evaluate":
		value, err := t.Evaluate(ctx, in.Script)
		if err != nil {
			return nil, err
		}
		return foreign(env, t, value, "value.txt"), nil
	}
	return nil, fmt.Errorf("there is no operation %s", in.Operation) // the schema has none
}

// foreign marks what a page says, as much as an answer shows of it.
func foreign(env tools.Env, t *browser.Tab, text, name string) []tools.Content {
	return env.BeginUntrusted(t.State().URL, text, name)
}

// place names the page that the tab shows now.
func place(ctx context.Context, b *browser.Browser, d *details) string {
	_, t := b.Tabs()
	if t == nil {
		return "no page."
	}
	state := t.State()
	if state.Dialog == nil && !state.Crashed && !state.Loading {
		d.Title = t.Title(ctx)
	}
	text := state.URL
	if d.Title != "" {
		text += fmt.Sprintf(" %q", d.Title)
	}
	if state.Status >= 400 {
		text += fmt.Sprintf(" (status %d)", state.Status)
	}
	return text
}

func scrolled(in *browserInput) (x, y float64) {
	by := float64(cmp.Or(in.Pixels, 600))
	switch in.Direction {
	case "up":
		return 0, -by
	case "left":
		return -by, 0
	case "right":
		return by, 0
	}
	return 0, by
}

func snapshot(ctx context.Context, env tools.Env, t *browser.Tab, in *browserInput, d *details) ([]tools.Content, error) {
	s, err := t.Snapshot(ctx, in.Ref, in.Full)
	if err != nil {
		return nil, err
	}
	d.Changes = s.Changes
	state := t.State()
	head := fmt.Sprintf("%s %s\n", state.Tab, state.URL)
	switch {
	case s.Changes && len(s.Lines) == 0:
		return []tools.Content{tools.Text(head + "Nothing has changed since the last snapshot.")}, nil
	case s.Changes:
		head += "Changed since the last snapshot (- removed, + added):\n"
	case len(s.Lines) == 0:
		return []tools.Content{tools.Text(head + "(The page is empty.)")}, nil
	}
	return append([]tools.Content{tools.Text(head)}, foreign(env, t, strings.Join(s.Lines, "\n"), "snapshot.txt")...), nil
}

func screenshot(ctx context.Context, env tools.Env, t *browser.Tab, in *browserInput, d *details) (content []tools.Content, err error) {
	png, width, height, err := t.Screenshot(ctx, in.Ref, in.Full)
	if err != nil {
		return nil, err
	}
	d.Width, d.Height = width, height
	text := fmt.Sprintf("%s, %d × %d pixels", t.State().URL, width, height)
	if in.Path != "" {
		if content, err = write(env, in.Path, bytes.NewReader(png), d); err != nil {
			return nil, err
		}
	}
	if len(png) > maxImage {
		return append(content, tools.Text(fmt.Sprintf("%s: the image has %s, more than can be shown. Take one of an element, or of less of the page.", text, output.Size(uint64(len(png)))))), nil
	}
	return append(content, tools.Text(text), tools.Image{MediaType: "image/png", Data: png}), nil
}

func upload(ctx context.Context, env tools.Env, b *browser.Browser, t *browser.Tab, in *browserInput, d *details) ([]tools.Content, error) {
	file, err := env.Open(in.Path)
	if err != nil {
		return nil, tools.Failf("file_not_found", "%s cannot be uploaded: %v.", in.Path, err)
	}
	defer file.Close()
	size := file.Info().Size
	if size > maxUpload {
		return nil, tools.Failf("too_large", "%s was not uploaded: it has %s, and a file that is uploaded at most %s. Upload a part of it, or a packed one.", in.Path, output.Size(uint64(size)), output.Size(maxUpload))
	}
	if err := t.Upload(ctx, in.Ref, path.Base(path.Clean("/"+in.Path)), io.LimitReader(file, size)); err != nil {
		return nil, err
	}
	return []tools.Content{tools.Text("Chose " + in.Path + " in " + in.Ref + " on " + place(ctx, b, d))}, nil
}

func download(ctx context.Context, env tools.Env, b *browser.Browser, in *browserInput, d *details) ([]tools.Content, error) {
	got, file, err := b.Downloaded(ctx, in.wait())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	head := fmt.Sprintf("Downloaded %q from %s. ", got.Name, got.URL)
	if in.Path != "" {
		content, err := write(env, in.Path, file, d)
		if err != nil {
			return nil, err
		}
		return append([]tools.Content{tools.Text(head)}, content...), nil
	}
	if env.Artifacts == nil {
		return nil, tools.Failf("no_artifacts", "This server keeps no artifacts: say in path where to write what was downloaded.")
	}
	var begin [512]byte
	n, _ := io.ReadFull(file, begin[:])
	writer, err := env.Artifacts.Create(plainName(got.Name), http.DetectContentType(begin[:n]))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(writer, sum), io.MultiReader(bytes.NewReader(begin[:n]), file))
	kept := writer.Close()
	d.Size, d.SHA256 = size, hex.EncodeToString(sum.Sum(nil))
	return []tools.Content{tools.Text(head), kept}, err
}

// plainName returns the last part of a name that a page chose.
func plainName(name string) string {
	name = path.Base(path.Clean("/" + strings.ReplaceAll(name, `\`, "/")))
	if name == "/" || name == "." {
		return "download"
	}
	return name
}

// write writes a file of the workspace, so that it can be undone.
func write(env tools.Env, name string, content io.Reader, d *details) ([]tools.Content, error) {
	at, err := env.Path(name)
	if err != nil {
		return nil, err
	}
	defer env.Workspace.Lock(at)()
	old, err := env.Workspace.Stat(at)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o644)
	if old.Exists() {
		if !old.Mode.IsRegular() {
			return nil, tools.Failf("not_a_file", "%s is no file: choose another path.", name)
		}
		mode = old.Mode.Perm()
	}
	batch := history.Begin(env.Workspace, env.Changes, env.CallID, "browser")
	sum := sha256.New()
	_, info, err := batch.WriteFrom(at, io.TeeReader(content, sum), mode, old)
	batch.Commit()
	if err != nil {
		return nil, err
	}
	d.Size, d.SHA256 = info.Size, hex.EncodeToString(sum.Sum(nil))
	return []tools.Content{tools.Text(fmt.Sprintf("Wrote %s, %s.", name, output.Size(uint64(info.Size))))}, nil
}

func tabs(ctx context.Context, b *browser.Browser, in *browserInput) ([]tools.Content, error) {
	switch in.Action {
	case "new":
		t, err := b.Open(ctx)
		if err == nil && in.URL != "" {
			err = t.Navigate(ctx, in.URL, in.wait())
		}
		if err != nil {
			return nil, err
		}
	case "select":
		if _, err := b.Choose(in.Tab); err != nil {
			return nil, err
		}
	case "close":
		_, before := b.Tabs()
		t, err := b.Choose(in.Tab)
		if err != nil {
			return nil, err
		}
		if err := b.CloseTab(ctx, t); err != nil {
			return nil, err
		}
		if before != t && before != nil {
			b.Choose(before.ID)
		}
	}
	var lines []string
	all, current := b.Tabs()
	for _, t := range all {
		state := t.State()
		line := state.Tab + " " + state.URL
		if t == current {
			line += " (the one that calls work on)"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		lines = []string{"(There is no tab: navigate opens one.)"}
	}
	return []tools.Content{tools.Text(strings.Join(lines, "\n"))}, nil
}

func console(env tools.Env, t *browser.Tab) []tools.Content {
	var lines []string
	for _, m := range t.Console() {
		lines = append(lines, strings.TrimSpace(m.Level+": "+m.Text+" "+m.Where))
	}
	if len(lines) == 0 {
		return []tools.Content{tools.Text("(Nothing was written to the console.)")}
	}
	return foreign(env, t, strings.Join(lines, "\n"), "console.txt")
}

func requests(env tools.Env, t *browser.Tab) []tools.Content {
	var lines []string
	for _, r := range t.Requests() {
		what := fmt.Sprint(r.Status)
		switch {
		case r.Failed != "":
			what = "failed: " + r.Failed
		case r.Status == 0:
			what = "no answer yet"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s (%s)", r.Method, r.URL, what, r.Type))
	}
	if len(lines) == 0 {
		return []tools.Content{tools.Text("(The page asked for nothing.)")}
	}
	return foreign(env, t, strings.Join(lines, "\n"), "network.txt")
}
