// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// patchKind is what a patch does to a file.
type patchKind int

const (
	patchUpdate patchKind = iota
	patchAdd
	patchDelete
)

// filePatch is what a patch does to one file.
type filePatch struct {
	kind   patchKind
	name   string
	moveTo string
	copied bool   // to moveTo: the file stays
	mode   string // as git tells it; empty where it stays
	hunks  []hunk
}

// A hunk is one place of a file that changes.
type hunk struct {
	number   int      // of the hunk in its file, from 1
	headings []string // lines above it that tell where it is
	line     int      // the first line in the old file, from 1; 0 where it is not told
	lines    []patchLine
	atEnd    bool // the place is at the end of the file
	marked   bool // it tells whether the file ends with a newline
}

// patchLine is one line of a hunk: ' ' stays, '-' goes, '+' comes.
type patchLine struct {
	op   byte
	text string
	bare bool // it has no newline at its end
}

// patchError says in which line of a patch something is wrong.
type patchError struct {
	line int // from 1
	text string
}

func (e *patchError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

const maxPatched = 500 // files of one patch

// parsePatch reads a patch of either form.
func parsePatch(text string) ([]filePatch, error) {
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	stripCR(lines)
	lines = unwrapped(lines)
	p := &patchParser{lines: lines}
	for p.at < len(lines) && strings.TrimSpace(lines[p.at]) == "" {
		p.at++
	}
	var files []filePatch
	var err error
	if p.at < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[p.at]), "*** ") && !strings.HasPrefix(lines[p.at], "*** /") {
		files, err = p.dialect()
	} else {
		begin := p.at
		if files, err = p.unified(true); err != nil {
			p.at = begin
			files, err = p.unified(false) // numbers of lines that were miscounted
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(files) == 0:
		return nil, errors.New("there is no file in it: begin with *** Begin Patch, or with --- and +++ as a unified diff")
	case len(files) > maxPatched:
		return nil, fmt.Errorf("it changes %d files: at most %d are possible", len(files), maxPatched)
	}
	return files, nil
}

// unwrapped leaves out what stands around a patch in a text or a shell command:
// a fence, or a word that ends what is read from a script.
func unwrapped(lines []string) []string {
	end := len(lines)
	for end > 0 && strings.TrimSpace(lines[end-1]) == "" {
		end--
	}
	if end < 2 {
		return lines
	}
	last := ""
	if before, word, ok := strings.Cut(lines[0], "<<"); ok && !strings.HasPrefix(before, "diff ") {
		last = strings.Trim(word, `'"- `)
	} else if strings.HasPrefix(lines[0], "```") {
		last = "```"
	}
	if last == "" || strings.TrimSpace(lines[end-1]) != last {
		return lines
	}
	return lines[1 : end-1]
}

// stripCR takes off the CR of lines if all have one.
func stripCR(lines []string) {
	for _, line := range lines {
		if !strings.HasSuffix(line, "\r") {
			return
		}
	}
	for i, line := range lines {
		// A hunk line that is a CR alone can be a context line of a CRLF file.
		lines[i] = strings.TrimSuffix(line, "\r")
	}
}

type patchParser struct {
	lines []string
	at    int
}

func (p *patchParser) more() bool { return p.at < len(p.lines) }

func (p *patchParser) fail(format string, args ...any) error {
	return &patchError{min(p.at, len(p.lines)-1) + 1, fmt.Sprintf(format, args...)}
}

// dialect reads the form that begins with *** Begin Patch.
func (p *patchParser) dialect() ([]filePatch, error) {
	if strings.TrimSpace(p.lines[p.at]) != "*** Begin Patch" {
		return nil, p.fail("want *** Begin Patch")
	}
	p.at++
	var files []filePatch
	for p.more() {
		line := strings.TrimRight(p.lines[p.at], " \t")
		verb, name, _ := strings.Cut(line, ": ")
		name = strings.TrimSpace(name)
		var file filePatch
		switch verb {
		case "*** End Patch":
			p.at++
			for ; p.more(); p.at++ {
				if strings.TrimSpace(p.lines[p.at]) != "" {
					return nil, p.fail("there is more after *** End Patch")
				}
			}
			return files, nil
		case "*** Add File":
			file = filePatch{kind: patchAdd, name: name}
		case "*** Delete File":
			file = filePatch{kind: patchDelete, name: name}
		case "*** Update File":
			file = filePatch{kind: patchUpdate, name: name}
		case "":
			p.at++
			continue
		default:
			return nil, p.fail("want *** Add File:, *** Update File:, *** Delete File: or *** End Patch, not %.60q", line)
		}
		if name == "" {
			return nil, p.fail("there is no path")
		}
		p.at++
		var err error
		switch file.kind {
		case patchAdd:
			file.hunks, err = p.added()
		case patchUpdate:
			err = p.updated(&file)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	p.at--
	return nil, p.fail("*** End Patch is missing")
}

// added reads the lines of a new file.
func (p *patchParser) added() ([]hunk, error) {
	h := hunk{number: 1}
	for ; p.more() && !strings.HasPrefix(p.lines[p.at], "*** "); p.at++ {
		text, ok := strings.CutPrefix(p.lines[p.at], "+")
		if !ok {
			return nil, p.fail("a line of a new file begins with +, not %.60q", p.lines[p.at])
		}
		h.lines = append(h.lines, patchLine{op: '+', text: text})
	}
	if len(h.lines) == 0 {
		return nil, nil
	}
	return []hunk{h}, nil
}

// updated reads the hunks of a file that changes.
func (p *patchParser) updated(file *filePatch) error {
	if p.more() {
		if name, ok := strings.CutPrefix(p.lines[p.at], "*** Move to: "); ok {
			if file.moveTo = strings.TrimSpace(name); file.moveTo == "" {
				return p.fail("there is no path")
			}
			p.at++
		}
	}
	var h *hunk
	next := func() {
		file.hunks = append(file.hunks, hunk{number: len(file.hunks) + 1})
		h = &file.hunks[len(file.hunks)-1]
	}
	for ; p.more(); p.at++ {
		line := p.lines[p.at]
		switch {
		case strings.TrimRight(line, " \t") == "*** End of File":
			if h == nil {
				return p.fail("*** End of File without a change before it")
			}
			h.atEnd = true
		case strings.HasPrefix(line, "*** "):
			return p.changes(file)
		case strings.HasPrefix(line, "@@"):
			if h == nil || len(h.lines) > 0 {
				next()
			}
			heading := strings.TrimSpace(strings.TrimPrefix(line, "@@"))
			if numbered := hunkHead().FindStringSubmatch(line); numbered != nil {
				heading = strings.TrimSpace(numbered[5]) // as in the other form
			}
			if heading != "" {
				h.headings = append(h.headings, heading)
			}
		default:
			if h == nil {
				next()
			}
			if err := p.line(h, line); err != nil {
				return err
			}
		}
	}
	return p.changes(file)
}

// changes checks that every hunk changes something.
func (p *patchParser) changes(file *filePatch) error {
	if len(file.hunks) == 0 && file.moveTo == "" {
		return p.fail("the update of %.200s changes nothing", file.name)
	}
	for i := range file.hunks {
		h := &file.hunks[i]
		// Blank lines between a hunk and what follows it are not meant.
		for n := len(h.lines); n > 0 && h.lines[n-1].op == 0; n = len(h.lines) {
			h.lines = h.lines[:n-1]
		}
		changed := false
		for j := range h.lines {
			if h.lines[j].op == 0 {
				h.lines[j].op = ' '
			}
			changed = changed || h.lines[j].op != ' '
		}
		if !changed {
			return p.fail("change %d of %.200s has no line that begins with + or -", h.number, file.name)
		}
	}
	return nil
}

// line reads one line of a hunk. A line that is empty stands for an empty line
// that stays; its op is 0 until it is known to be meant.
func (p *patchParser) line(h *hunk, line string) error {
	switch {
	case line == "" || line == "\r":
		h.lines = append(h.lines, patchLine{text: line})
	case line[0] == ' ', line[0] == '-', line[0] == '+':
		h.lines = append(h.lines, patchLine{op: line[0], text: line[1:]})
	case strings.HasPrefix(line, `\ `):
		if len(h.lines) == 0 {
			return p.fail("%.60q without a line before it", line)
		}
		h.lines[len(h.lines)-1].bare, h.marked = true, true
	default:
		return p.fail("a line of a change begins with a space, - or +, not %.60q", line)
	}
	return nil
}

var hunkHead = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$`)
})

// unified reads a unified diff. strict takes the numbers of lines in hunk heads
// at their word; without it, hunks end where something else begins.
func (p *patchParser) unified(strict bool) ([]filePatch, error) {
	var files []filePatch
	var extended filePatch // of git, before --- and +++
	pending := false
	flush := func() {
		if pending && (extended.moveTo != "" || extended.mode != "" || extended.kind != patchUpdate) {
			files = append(files, extended)
		}
		extended, pending = filePatch{}, false
	}
	for p.more() {
		line := p.lines[p.at]
		switch {
		case strings.HasPrefix(line, "diff --git "):
			flush()
			pending = true
			extended.name = gitName(strings.TrimPrefix(line, "diff --git "))
		case strings.HasPrefix(line, "rename from "):
			extended.name = unquoteName(strings.TrimPrefix(line, "rename from "))
		case strings.HasPrefix(line, "rename to "):
			extended.moveTo = unquoteName(strings.TrimPrefix(line, "rename to "))
		case strings.HasPrefix(line, "copy from "):
			extended.name, extended.copied = unquoteName(strings.TrimPrefix(line, "copy from ")), true
		case strings.HasPrefix(line, "copy to "):
			extended.moveTo = unquoteName(strings.TrimPrefix(line, "copy to "))
		case strings.HasPrefix(line, "new file mode "), strings.HasPrefix(line, "new mode "):
			if strings.HasPrefix(line, "new file") {
				extended.kind = patchAdd
			}
			if extended.mode = strings.TrimSpace(line[strings.LastIndexByte(line, 'e')+1:]); !strings.HasPrefix(extended.mode, "100") {
				return nil, p.fail("the mode %.20s is not that of a file: a patch makes no links and no submodules", extended.mode)
			}
		case strings.HasPrefix(line, "deleted file mode "):
			extended.kind = patchDelete
		case strings.HasPrefix(line, "Binary files "), strings.HasPrefix(line, "GIT binary patch"):
			return nil, p.fail("binary files cannot be patched")
		case strings.HasPrefix(line, "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ "):
			file, err := p.unifiedFile(strict)
			if err != nil {
				return nil, err
			}
			if extended.moveTo != "" {
				file.name, file.moveTo, file.copied = extended.name, extended.moveTo, extended.copied
			}
			file.mode = extended.mode
			files = append(files, file)
			extended, pending = filePatch{}, false
			continue
		case strings.HasPrefix(line, "@@ "):
			return nil, p.fail("a change without --- and +++ lines before it, which name the file")
		}
		p.at++
	}
	flush()
	return files, nil
}

// unifiedFile reads one file of a unified diff, from its --- line on.
func (p *patchParser) unifiedFile(strict bool) (filePatch, error) {
	from, to := headerName(p.lines[p.at][4:]), headerName(p.lines[p.at+1][4:])
	file := filePatch{kind: patchUpdate, name: to}
	switch {
	case from == "/dev/null" && to == "/dev/null":
		return file, p.fail("both sides are /dev/null")
	case from == "/dev/null":
		file.kind, file.name = patchAdd, strings.TrimPrefix(to, "b/")
	case to == "/dev/null":
		file.kind, file.name = patchDelete, strings.TrimPrefix(from, "a/")
	default:
		a, okA := strings.CutPrefix(from, "a/")
		b, okB := strings.CutPrefix(to, "b/")
		if okA && okB {
			from, to = a, b
		}
		if file.name = from; from != to && okA && okB {
			file.moveTo = to
		} else if from != to {
			file.name = to // as patch does for x.orig and x
		}
		if from == "" || to == "" {
			file.name = ""
		}
	}
	if file.name == "" {
		return file, p.fail("the --- and +++ lines name no file")
	}
	p.at += 2
	for p.more() && strings.HasPrefix(p.lines[p.at], "@@ ") {
		h, err := p.unifiedHunk(strict)
		if err != nil {
			return file, err
		}
		h.number = len(file.hunks) + 1
		file.hunks = append(file.hunks, h)
	}
	if strict && len(file.hunks) > 0 && p.more() && !p.ends() {
		// "-- " stands above the version of git at the end of a mail.
		if line := p.lines[p.at]; line != "" && strings.IndexByte(" +-", line[0]) >= 0 && strings.TrimRight(line, " ") != "--" {
			return file, p.fail("the change has more lines than its @@ line says")
		}
	}
	if len(file.hunks) == 0 && file.kind == patchUpdate && file.moveTo == "" {
		return file, p.fail("there is no @@ line for %.200s", file.name)
	}
	if file.kind != patchUpdate || len(file.hunks) == 0 {
		return file, nil
	}
	return file, p.changes(&file)
}

func (p *patchParser) unifiedHunk(strict bool) (hunk, error) {
	head := hunkHead().FindStringSubmatch(p.lines[p.at])
	if head == nil {
		return hunk{}, p.fail("want @@ -line,count +line,count @@, not %.60q", p.lines[p.at])
	}
	h := hunk{marked: false}
	number := func(i, missing int) int {
		n, err := strconv.Atoi(head[i])
		if err != nil {
			return missing
		}
		return n
	}
	h.line = number(1, 0)
	old, new := number(2, 1), number(4, 1)
	if old == 0 {
		h.line++ // nothing goes: what comes, comes after that line
	}
	if heading := strings.TrimSpace(head[5]); heading != "" {
		h.headings = []string{heading}
	}
	for p.at++; p.more(); p.at++ {
		line := p.lines[p.at]
		marker := strings.HasPrefix(line, `\ `)
		if strict && old <= 0 && new <= 0 && !marker || !strict && p.ends() {
			break
		}
		if err := p.line(&h, line); err != nil {
			return h, err
		}
		if marker {
			continue
		}
		switch h.lines[len(h.lines)-1].op {
		case '-':
			old--
		case '+':
			new--
		default:
			old--
			new--
		}
	}
	if strict && (old != 0 || new != 0) {
		return h, p.fail("the change has other numbers of lines than its @@ line says")
	}
	return h, nil
}

// ends reports whether something else than a line of a hunk comes.
func (p *patchParser) ends() bool {
	line := p.lines[p.at]
	return strings.HasPrefix(line, "@@ ") || strings.HasPrefix(line, "diff --git ") ||
		strings.HasPrefix(line, "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ ")
}

// headerName returns the name in a --- or +++ line.
func headerName(text string) string {
	text, _, _ = strings.Cut(text, "\t") // a time follows
	return unquoteName(strings.TrimRight(text, " \r"))
}

func unquoteName(name string) string {
	name = strings.TrimRight(name, "\r")
	if strings.HasPrefix(name, "a/\"") || strings.HasPrefix(name, "b/\"") { // as diffs here are written
		if plain, err := strconv.Unquote(name[2:]); err == nil {
			return name[:2] + plain
		}
	}
	if plain, err := strconv.Unquote(name); err == nil && strings.HasPrefix(name, `"`) {
		return plain
	}
	return name
}

// gitName returns the name in a diff --git line that names one file twice.
func gitName(text string) string {
	text = strings.TrimRight(text, "\r")
	if n := len(text) / 2; len(text)%2 == 1 && text[n] == ' ' && len(text) > 5 && text[2:n] == text[n+3:] {
		return text[2:n]
	}
	return text
}
