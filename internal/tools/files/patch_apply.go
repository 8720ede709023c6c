// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// textLine is a line of a file.
type textLine struct {
	text string
	bare bool // it has no newline at its end
}

func splitText(text string) []textLine {
	var lines []textLine
	for line := range strings.Lines(text) {
		content, ended := strings.CutSuffix(line, "\n")
		lines = append(lines, textLine{content, !ended})
	}
	return lines
}

func joinText(lines []textLine) string {
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line.text)
		if !line.bare || i < len(lines)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// A lineForm is how much of a line is compared, the strictest first.
type lineForm struct {
	form func(string) string
	note string // what was ignored
}

var lineForms = []lineForm{
	{func(s string) string { return s }, ""},
	{func(s string) string { return strings.TrimSuffix(s, "\r") }, ""}, // a patch in LF of a file in CRLF
	{func(s string) string { return strings.TrimRight(s, " \t\r") }, "white space at the end of lines was ignored"},
	{strings.TrimSpace, "white space at the ends of lines was ignored"},
	{squeeze, "white space was ignored"},
}

// maxIgnored is how many lines around a change are ignored at most on each
// side, as patch does.
const maxIgnored = 2

// apply returns a text with the changes of a patch, and what had to be
// stretched to make them fit.
func (f *filePatch) apply(text string) (after string, notes []string, err error) {
	if f.kind == patchAdd {
		var lines []textLine
		for _, h := range f.hunks {
			for _, l := range h.lines {
				if l.op != '+' {
					return "", nil, tools.Failf("patch_failed", "%s: a new file has only lines that begin with +.", f.name)
				}
				lines = append(lines, textLine{l.text, l.bare})
			}
		}
		return joinText(lines), nil, nil
	}
	lines := splitText(text)
	crlf := usesCRLF(text)
	cursor, drift, shared := 0, 0, 0
	for i := range f.hunks {
		h := &f.hunks[i]
		at, skipped, note, err := h.find(f.name, lines, cursor, drift)
		if err != nil && shared > 0 { // it may begin with lines that the one before ends with
			var again error
			if at, skipped, note, again = h.find(f.name, lines, cursor-shared, drift); again == nil {
				err = nil
			}
		}
		if err != nil {
			return "", nil, err
		}
		if h.line > 0 && at-skipped != h.line-1+drift {
			notes = append(notes, fmt.Sprintf("change %d of %s was found at line %d, not %d", h.number, f.name, at-skipped+1, h.line+drift))
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("change %d of %s: %s", h.number, f.name, note))
		}
		put, taken := h.put(lines, at, skipped, crlf)
		grown := make([]textLine, 0, len(lines)+len(put))
		grown = append(grown, lines[:at]...)
		grown = append(grown, put...)
		lines = append(grown, lines[at+taken:]...)
		if h.line > 0 {
			drift = at - skipped - (h.line - 1) + len(put) - taken
		}
		cursor = at + len(put)
		_, stay := h.around()
		shared = min(stay, len(put))
	}
	return joinText(lines), notes, nil
}

// old returns the lines that must be there: those that stay and those that go.
func (h *hunk) old() []patchLine {
	var old []patchLine
	for _, l := range h.lines {
		if l.op != '+' {
			old = append(old, l)
		}
	}
	return old
}

// around returns how many lines that stay a hunk begins and ends with.
func (h *hunk) around() (before, after int) {
	for before < len(h.lines) && h.lines[before].op == ' ' {
		before++
	}
	for after < len(h.lines) && h.lines[len(h.lines)-1-after].op == ' ' {
		after++
	}
	return before, after
}

// find returns the line from which a hunk is put in, how many lines of its
// beginning are ignored, and what else was.
func (h *hunk) find(name string, lines []textLine, cursor, drift int) (at, skipped int, note string, err error) {
	old := h.old()
	if len(old) == 0 {
		at, err := h.place(name, lines, cursor, drift)
		return at, 0, "", err
	}
	from := cursor
	if h.line == 0 { // headings tell where to begin
		var missing string
		if from, missing = h.below(lines, cursor); missing != "" {
			note = fmt.Sprintf("the line %.60q was not found above it", missing)
		}
	}
	before, after := h.around()
	for ignored := 0; ignored <= maxIgnored; ignored++ {
		head, tail := min(ignored, before), min(ignored, after)
		if ignored > 0 && (head == 0 && tail == 0 || len(old)-head-tail <= 0 || h.line == 0) {
			break
		}
		wanted := old[head : len(old)-tail]
		for _, w := range lineForms {
			places := h.matches(lines, wanted, from, w)
			if len(places) == 0 {
				continue
			}
			place := places[0]
			if h.line > 0 {
				places = closest(places, h.line-1+drift+head)
				place = places[0]
			}
			if len(places) > 1 {
				return 0, 0, "", tools.Failf("patch_failed", "Change %d of %s fits in %d places, at lines %s. Nothing was changed. Add lines around it, or @@ with a line above it.",
					h.number, name, len(places), numbers(places))
			}
			notes := []string{note, w.note}
			if ignored > 0 {
				notes = append(notes, "lines around it that did not fit were ignored: "+itoa(head+tail))
			}
			return place, head, joined(notes), nil
		}
	}
	var b strings.Builder
	for _, l := range old {
		b.WriteString(l.text + "\n")
	}
	if places := h.matches(lines, old, 0, lineForms[0]); len(places) > 0 {
		return 0, 0, "", tools.Failf("patch_failed", "Change %d of %s fits at line %s, which is above the change before it. Nothing was changed. Put the changes of a file in the order of its lines, and make one of those that overlap.",
			h.number, name, numbers(places))
	}
	whole := joinText(lines)
	return 0, 0, "", tools.Failf("patch_failed", "Change %d of %s does not fit: the lines that stay or go are not in the file%s. Nothing was changed.%s",
		h.number, name, afterLine(from), nearest(whole, b.String()))
}

func afterLine(from int) string {
	if from == 0 {
		return ""
	}
	return fmt.Sprintf(" after line %d, where the change before it ends", from)
}

func joined(notes []string) string {
	var said []string
	for _, note := range notes {
		if note != "" {
			said = append(said, note)
		}
	}
	return strings.Join(said, "; ")
}

func numbers(places []int) string {
	var list []string
	for i, place := range places {
		if i == 10 {
			list = append(list, "…")
			break
		}
		list = append(list, itoa(place+1))
	}
	return strings.Join(list, ", ")
}

// below returns the line after the headings of a hunk.
func (h *hunk) below(lines []textLine, from int) (at int, missing string) {
	at = from
	for _, heading := range h.headings {
		found := -1
		want := squeeze(heading)
		for i := at; i < len(lines) && found < 0; i++ {
			if squeeze(lines[i].text) == want {
				found = i
			}
		}
		for i := at; i < len(lines) && found < 0; i++ {
			if strings.Contains(squeeze(lines[i].text), want) {
				found = i
			}
		}
		if found < 0 {
			return from, heading
		}
		at = found + 1
		if old := h.old(); len(old) > 0 && squeeze(old[0].text) == want {
			at = found // the heading is also the first line that stays
		}
	}
	return at, ""
}

// place returns where lines are put that come without any that stay or go.
func (h *hunk) place(name string, lines []textLine, cursor, drift int) (int, error) {
	if h.line > 0 {
		at := h.line - 1 + drift
		if at < cursor || at > len(lines) {
			return 0, tools.Failf("patch_failed", "Change %d of %s comes after line %d, and the file has %s. Nothing was changed.",
				h.number, name, h.line-1, tools.Count(len(lines), "line", "lines"))
		}
		return at, nil
	}
	if len(h.headings) == 0 {
		return len(lines), nil
	}
	at, missing := h.below(lines, cursor)
	if missing != "" {
		return 0, tools.Failf("patch_failed", "Change %d of %s: there is no line %.60q. Nothing was changed.", h.number, name, missing)
	}
	return at, nil
}

// matches returns where the lines wanted are, from a line on.
func (h *hunk) matches(lines []textLine, wanted []patchLine, from int, w lineForm) []int {
	forms := make([]string, len(wanted))
	for i, l := range wanted {
		forms[i] = w.form(l.text)
	}
	var places []int
	for at := from; at+len(wanted) <= len(lines); at++ {
		if h.atEnd && at+len(wanted) != len(lines) {
			continue
		}
		fits := true
		for i := range wanted {
			line := lines[at+i]
			if w.form(line.text) != forms[i] || h.marked && wanted[i].bare && !line.bare {
				fits = false
				break
			}
		}
		if fits {
			places = append(places, at)
		}
	}
	return places
}

// closest returns the place nearest to a line, or both that are.
func closest(places []int, want int) []int {
	far := func(place int) int { return max(place-want, want-place) }
	var best []int
	for _, place := range places {
		switch {
		case len(best) == 0 || far(place) < far(best[0]):
			best = []int{place}
		case far(place) == far(best[0]):
			best = append(best, place)
		}
	}
	return best
}

// put returns the lines that take the place of some from a line on, and how
// many those are.
func (h *hunk) put(lines []textLine, at, skipped int, crlf bool) (put []textLine, taken int) {
	hunkLines := h.lines[skipped:]
	// A patch that knows of CR says so itself.
	crlf = crlf && !slices.ContainsFunc(hunkLines, func(l patchLine) bool { return strings.HasSuffix(l.text, "\r") })
	left := len(lines) - at
	for _, l := range hunkLines {
		switch l.op {
		case '+':
			text := l.text
			if crlf {
				text += "\r"
			}
			put = append(put, textLine{text, l.bare})
		case ' ':
			if taken < left {
				put = append(put, lines[at+taken])
				taken++
			}
		case '-':
			taken = min(taken+1, left)
		}
	}
	return h.ending(lines, at, put, taken), taken
}

// ending sees to the newline at the end of the file: it stays as it was, unless
// the hunk tells otherwise.
func (h *hunk) ending(lines []textLine, at int, put []textLine, taken int) []textLine {
	atEnd := at+taken == len(lines)
	if len(put) == 0 || !atEnd {
		return put
	}
	last := &put[len(put)-1]
	wasBare := len(lines) > 0 && lines[len(lines)-1].bare
	if !h.marked && len(lines) > 0 {
		last.bare = wasBare
	} else if h.marked {
		for i := len(h.lines) - 1; i >= 0; i-- {
			if h.lines[i].op != '-' {
				last.bare = h.lines[i].bare
				break
			}
		}
	}
	if last.bare && strings.HasSuffix(last.text, "\r") && !h.marked {
		last.text = strings.TrimSuffix(last.text, "\r")
	}
	return put
}
