// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// reader shows files by what they are.
type reader struct {
	outlines  *syntax.Pool  // may be nil
	documents Documents     // nil: there is nobody to read them
	decoding  chan struct{} // images and PDF documents that are decoded now
	sink      tools.Sink    // of the call
}

// several reads one thing after the other. What cannot be read is told in its
// place; if nothing can, the call fails.
func (r reader) several(ctx context.Context, env tools.Env, in readInput) (tools.Result, error) {
	var result tools.Result
	var all []any
	var first error
	failed, room := 0, env.Shown()-headSize(env.Words, in.all())
	for i, op := range in.all() {
		if ctx.Err() != nil {
			return result, context.Cause(ctx)
		}
		head := opHead(i, op)
		content, details, err := r.read(ctx, env, op, in.Hash, room)
		if room < leastRead && err == nil {
			err = answerFull(env.Words, op)
		}
		if err != nil {
			err = explainOf(env, err, op.Path)
			first = cmp.Or(first, err)
			failed++
			code := "error"
			if failure, ok := errors.AsType[*tools.Failure](err); ok {
				code = failure.Code
			}
			result.Content = append(result.Content, tools.Text(visible(head+"! "+code+": "+err.Error()+"\n")))
			all = append(all, map[string]any{"path": op.Path, "error": code})
			continue
		}
		result.Content = append(result.Content, tools.Text(visible(head)))
		for _, c := range content {
			if text, ok := c.(tools.Text); ok {
				room -= len(text)
			}
		}
		result.Content = append(result.Content, content...)
		all = append(all, details)
	}
	if failed == len(all) {
		return tools.Result{}, first
	}
	joined, err := tools.Detailed("", map[string]any{"operations": all})
	result.Details = joined.Details
	return result, err
}

func opHead(i int, op readOp) string { return fmt.Sprintf("== %d: %s ==\n", i+1, plain(op.Path)) }

// headSize is the room that is kept for what is told of each thing, also if nothing
// more of it can be shown.
func headSize(words tools.Words, all []readOp) int {
	size := 0
	for i, op := range all {
		size += len(opHead(i, op)) + len("! answer_full: \n") + len(answerFull(words, op).Error())
	}
	return size
}

// leastRead is the room in an answer, in bytes, with which another thing is read.
const leastRead = 400

func answerFull(words tools.Words, op readOp) error {
	return tools.Failf("answer_full", "This was not read: the answer is full. Call %s.", words.GoOn("read_file", op))
}

// lister names what lists a directory.
func lister(words tools.Words) string {
	if key, ok := words.HasKey("read_file", "mode"); ok && key == "mode" {
		return words.Tool("list_dir") + ", or with mode directory"
	}
	return words.Tool("list_dir")
}

// read reads one thing, at most room bytes of text.
func (r reader) read(ctx context.Context, env tools.Env, op readOp, hashed bool, room int) ([]tools.Content, any, error) {
	if op.Mode == "directory" {
		l, err := list(ctx, env, listDirInput{Path: op.Path, Depth: op.Depth, Exclude: op.Exclude, Limit: min(op.Limit, 10_000)}, room)
		if err != nil {
			return nil, nil, err
		}
		return []tools.Content{tools.Text(l.String())}, l.details(), nil
	}
	view, err := env.View(op.Path)
	if err != nil {
		return nil, nil, err
	}
	defer view.Close()
	if _, one := view.Artifact(); view.Artifacts() && !one {
		return nil, nil, tools.Failf("not_a_file", "%s stands for all artifacts of the session: name one of them. %s lists them.", op.Path, env.Words.GoOn("list_dir", listDirInput{Path: "artifact:"}))
	}
	file, err := view.Workspace.OpenFile(view.Path)
	if err != nil {
		err = named(view, op.Path, err)
		if _, judged := env.Pinned(directoryAt(op.Path)); judged && op.auto() && isDirectory(view) {
			op.Mode = "directory"
			return r.read(ctx, env, op, hashed, room)
		} else if isDirectory(view) {
			err = tools.Failf("not_a_file", "%v. List it with %s.", err, lister(env.Words))
		}
		return nil, nil, err
	}
	defer file.Close()
	size := file.Info().Size
	h := &hashedFile{file: file, size: size}
	buffer, source := buffers.Get().(*bufio.Reader), stoppable(ctx, h)
	buffer.Reset(source)
	defer func() {
		buffer.Reset(nil)
		buffers.Put(buffer)
	}()
	mode, err := r.modeOf(buffer, op, size, room)
	if err != nil {
		return nil, nil, err
	}
	if op.Pages != "" && mode != "pdf" && mode != "image" {
		return nil, nil, tools.Failf("not_a_pdf", "%s is no PDF document, and only those have pages. Choose lines with offset and limit.", op.Path)
	}
	switch mode {
	case "pdf":
		return r.pdf(ctx, env.Words, file, op, room, room == env.Shown(), false)
	case "image":
		if head, _ := buffer.Peek(512); kindOfData(head) == "a PDF document" {
			return r.pdf(ctx, env.Words, file, op, room, room == env.Shown(), true)
		}
		return r.image(ctx, file, op.Path, size)
	case "notebook":
		return readNotebook(view, op, room)
	case "outline":
		return r.outline(ctx, view, op, room)
	}
	if size <= maxHashed || hashed && size <= maxEdited {
		h.begin(buffer)
	}
	page := &page{op: op, artifact: view.Artifacts(), words: env.Words}
	if err := page.read(buffer, func() { h.rewind(); buffer.Reset(source) }, room); err != nil {
		return nil, nil, err
	}
	text, details := page.result()
	text += artifactNotes(view, page.more)
	if details.Hash, err = h.finish(ctx); err != nil {
		return nil, nil, err
	}
	if hashed {
		text += "(" + hashNote(details.Hash) + ")\n"
	}
	return []tools.Content{tools.Text(text)}, details, nil
}

// artifactNotes are sentences about an artifact that is not, or not yet, whole.
func artifactNotes(view *tools.View, more bool) string {
	a, ok := view.Artifact()
	switch {
	case !ok || more:
		return ""
	case a.Incomplete != "":
		return fmt.Sprintf("(the end is missing, of %d bytes in all: %s)\n", a.Written, a.Incomplete)
	case a.Writing:
		return "(it is still being written)\n"
	}
	return ""
}

// named tells of a failure with a file beside the workspace by the name it was
// given: the paths of its tree mean nothing to a model.
func named(view *tools.View, name string, err error) error {
	switch {
	case !view.Beside():
		return err
	case view.Artifacts() && errors.Is(err, fs.ErrNotExist):
		return tools.Failf("artifact_not_found", "%s: it is no longer kept. Make the call again whose output it was.", name)
	case errors.Is(err, fs.ErrNotExist):
		return tools.Failf("file_not_found", "%s: there is no such file or directory.", name)
	case errors.Is(err, syscall.ENOTDIR):
		return tools.Failf("not_a_directory", "%s: a file is where a directory would have to be.", name)
	case errors.Is(err, workspace.ErrNotRegular):
		return fmt.Errorf("%s: %w", name, workspace.ErrNotRegular)
	}
	return err
}

func isDirectory(view *tools.View) bool {
	info, err := view.Workspace.Stat(view.Path)
	return err == nil && info.Exists() && info.Mode.IsDir()
}

// modeOf tells how a file is shown.
func (r *reader) modeOf(buffer *bufio.Reader, op readOp, size int64, room int) (string, error) {
	if op.Mode != "" && op.Mode != "auto" {
		return op.Mode, nil
	}
	head, err := buffer.Peek(512)
	if err != nil && err != io.EOF {
		return "", err
	}
	kind := kindOfData(head)
	switch {
	case isImage(kind) && (kind != "a BMP image" || bytes.IndexByte(head, 0) >= 0): // and not a text that begins with BM
		return "image", nil
	case kind == "a PDF document":
		return "pdf", nil
	case filepath.Ext(op.Path) == ".ipynb" && size > 0 && size <= maxEdited:
		return "notebook", nil
	case op.Offset == 0 && op.Limit == 0 && op.Column == 0 && size > int64(room) && size <= maxOutlined && (headOf(op.Path) != nil || r.outlines.Available() && syntax.IsCode(op.Path)):
		return "outline", nil
	}
	return "lines", nil
}

// maxHashed is up to which size a file is hashed that is read in part.
const maxHashed = 16 << 20

// hashedFile is a file that is hashed while it is read for the first time. It
// ends where it ended when it was opened: one that grows as fast as it is read
// has no other end.
type hashedFile struct {
	file *workspace.Opened
	sum  hash.Hash // nil where it is not hashed
	size int64
	at   int64
	seen int64 // hashed
	done bool  // it is read again
}

// begin has the file hashed, of which no more was read than is in a buffer.
func (h *hashedFile) begin(r *bufio.Reader) {
	h.sum = sha256.New()
	head, _ := r.Peek(r.Buffered())
	h.sum.Write(head)
	h.seen = int64(len(head))
}

func (h *hashedFile) Read(p []byte) (int, error) {
	left := h.size - h.at
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := h.file.ReadAt(p[:min(int64(len(p)), left)], h.at)
	h.at += int64(n)
	if h.sum != nil && !h.done {
		h.sum.Write(p[:n])
		h.seen += int64(n)
	}
	return n, err
}

// rewind has the file read from its beginning again.
func (h *hashedFile) rewind() { h.at, h.done = 0, true }

// finish reads what is left and returns the hash, or nothing where the file was
// not hashed or changed meanwhile.
func (h *hashedFile) finish(ctx context.Context) (string, error) {
	if h.sum == nil {
		return "", nil
	}
	var buf []byte
	if !h.done && h.seen < h.size {
		buf = make([]byte, 64<<10)
	}
	for !h.done && h.seen < h.size {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if n, err := h.Read(buf); n == 0 || err != nil {
			break
		}
	}
	now, err := h.file.Now()
	if err != nil || now.Size != h.size || h.seen != h.size {
		return "", err
	}
	return workspace.Hash(h.sum.Sum(nil)).Short(), nil
}

// wholeText reads a text as a whole.
func wholeText(view *tools.View, name string) (text string, file workspace.File, err error) {
	if file, err = view.Workspace.ReadFile(view.Path, maxEdited); err != nil {
		return "", file, named(view, name, err)
	}
	text, _, err = decodeText(name, file.Data)
	return text, file, err
}

// readNotebook shows the cells of a notebook.
func readNotebook(view *tools.View, op readOp, room int) ([]tools.Content, any, error) {
	text, file, err := wholeText(view, op.Path)
	if err != nil {
		return nil, nil, err
	}
	n, err := parseNotebook(view.Words(), op.Path, text)
	if err != nil {
		return nil, nil, err
	}
	first := op.Offset
	if first < 0 {
		first = max(1, len(n.cells)+1+first)
	}
	first = max(first, 1)
	last := min(len(n.cells), first-1+cmp.Or(op.Limit, len(n.cells)))
	var b strings.Builder
	shown := first - 1
	for i := first - 1; i < last; i++ {
		var c strings.Builder
		n.cells[i].show(&c, i)
		if b.Len() > 0 && b.Len()+c.Len() > room {
			break
		}
		b.WriteString(c.String())
		shown = i + 1
	}
	if shown < len(n.cells) {
		on := op
		if done := shown - first + 1; done < on.Limit {
			on.Limit -= done
		}
		on.Offset = shown + 1
		fmt.Fprintf(&b, "(there is more: go on with %s, where offset counts cells from 1)\n", view.Words().GoOn("read_file", on))
	}
	if len(n.cells) == 0 {
		b.WriteString("(the notebook has no cells)\n")
	}
	details := map[string]any{"path": op.Path, "cells": len(n.cells), "first_cell": first, "last_cell": shown, "hash": file.Hash().Short()}
	return []tools.Content{tools.Text(visible(b.String()))}, details, nil
}

// maxOutput is how many bytes of an output of a cell are shown.
const maxOutput = 2000

// show writes a cell for a model.
func (c *cell) show(b *strings.Builder, index int) {
	fmt.Fprintf(b, "--- cell %d: %s", index, c.Type)
	if c.ID != "" {
		b.WriteString(", id " + plain(c.ID))
	}
	if c.Execution != nil {
		fmt.Fprintf(b, ", run %d", *c.Execution)
	}
	b.WriteString(" ---\n" + ended(c.Source, false))
	for _, o := range c.Outputs {
		text, _ := joinSource(o.Text)
		switch {
		case o.Kind == "error":
			text = o.Ename + ": " + o.Evalue
		case text == "":
			if plainText, ok := o.Data["text/plain"]; ok {
				text, _ = joinSource(plainText)
			}
			for kind, data := range o.Data {
				if strings.HasPrefix(kind, "image/") {
					text = fmt.Sprintf("(%s, %d bytes) %s", kind, len(data), text)
				}
			}
		}
		if text != "" {
			b.WriteString("--- output ---\n" + ended(cut(text, maxOutput), false))
		}
	}
}

// cut shortens a text, and says so.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	shown := strings.ToValidUTF8(text[:limit], "")
	return fmt.Sprintf("%s … (%d more bytes)", shown, len(text)-len(shown))
}

func hashNote(hash string) string {
	if hash == "" {
		return "no hash: the file is too large, or changes while it is read"
	}
	return "hash " + hash
}
