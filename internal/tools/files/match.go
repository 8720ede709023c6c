// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolserver/toolserver/internal/tools"
)

// replaceText returns the edits that put other text in the place of one that
// occurs once, or everywhere it occurs. In a file with CRLF, plain line breaks
// stand for CRLF. key returns what the model knows a key of the call as.
func replaceText(key func(string) string, name, text, old, new string, all bool) ([]udiff.Edit, error) {
	if usesCRLF(text) {
		new = toCRLF(new)
		if !strings.Contains(text, old) {
			old = toCRLF(old)
		}
	} else if !strings.Contains(text, old) && strings.Contains(text, toLF(old)) {
		old, new = toLF(old), toLF(new)
	}
	places := occurrences(text, old)
	switch {
	case len(places) == 0:
		return nil, tools.Failf("edit_target_not_found", "%s does not occur in %s. Nothing was written.%s", key("old_string"), name, notOccurs(text, old))
	case len(places) > 1 && !all:
		return nil, tools.Failf("ambiguous_edit", "%s occurs %d times in %s, in %s. Nothing was written. Add text around it until it is unique, or set %s.",
			key("old_string"), len(places), name, linesOf(text, places), key("replace_all"))
	}
	edits := make([]udiff.Edit, len(places))
	for i, at := range places {
		edits[i] = udiff.Edit{Start: at, End: at + len(old), New: new}
	}
	return edits, nil
}

// occurrences returns where old occurs, without overlaps.
func occurrences(text, old string) []int {
	var places []int
	for at := 0; old != ""; {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		places = append(places, at+i)
		at += i + len(old)
	}
	return places
}

// linesOf tells the lines of places, the first ten of them.
func linesOf(text string, places []int) string {
	var numbers []string
	line, last := 1, 0
	for i, at := range places {
		if i == 10 {
			numbers = append(numbers, "…")
			break
		}
		line += strings.Count(text[last:at], "\n")
		last = at
		numbers = append(numbers, itoa(line))
	}
	if len(places) == 1 {
		return "line " + numbers[0]
	}
	return "lines " + strings.Join(numbers, ", ")
}

// insertText returns the edit that puts text after a line.
func insertText(name, text string, line int, new string) ([]udiff.Edit, error) {
	if total := lineCount(text); line > total {
		return nil, tools.Failf("line_out_of_range", "%s has %s: there is no line %d to insert after.", name, tools.Count(total, "line", "lines"), line)
	}
	crlf := usesCRLF(text)
	if crlf {
		new = toCRLF(new)
	}
	at := 0
	for range line {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return appendText(text, new), nil // after a last line without an ending
		}
		at += i + 1
	}
	if at == len(text) {
		return appendText(text, new), nil
	}
	return []udiff.Edit{{Start: at, End: at, New: ended(new, crlf)}}, nil
}

// ended returns text with an ending of its last line.
func ended(text string, crlf bool) string {
	switch {
	case strings.HasSuffix(text, "\n"):
		return text
	case crlf:
		return text + "\r\n"
	}
	return text + "\n"
}

// appendText returns the edit that adds text in lines of its own. The file ends
// with a line ending afterwards if it did before.
func appendText(text, new string) []udiff.Edit {
	crlf := usesCRLF(text)
	if crlf {
		new = toCRLF(new)
	}
	switch {
	case text == "":
	case strings.HasSuffix(text, "\n"):
		new = ended(new, crlf)
	default:
		ending := ended("", crlf)
		new = ending + strings.TrimSuffix(new, ending)
	}
	return []udiff.Edit{{Start: len(text), End: len(text), New: new}}
}

var lineNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\d+\t`) })

const (
	maxCandidates = 3
	maxSearched   = 200_000 // lines looked at for candidates
	maxWanted     = 200     // lines of a text that are looked for
)

// nearest tells where a text comes near to one that was not found.
func nearest(text, old string) string {
	if plain := lineNumbers().ReplaceAllString(old, ""); plain != old && strings.Contains(toLF(text), toLF(plain)) {
		return " It has the line numbers that lines are shown with: leave them and the tab out."
	}
	if strings.ContainsRune(old, utf8.RuneError) && !utf8.ValidString(text) {
		return " The file has bytes that are not valid UTF-8, which are shown as \uFFFD and cannot be named: choose text without them."
	}
	lines := splitted(text)
	if len(lines) > maxSearched {
		lines = lines[:maxSearched]
	}
	wanted := splitted(strings.Trim(old, "\r\n"))
	if len(wanted) > maxWanted {
		wanted = wanted[:maxWanted]
	}
	found := candidates(lines, wanted)
	if len(found) == 0 {
		return " Read the file again: nothing in it is like that."
	}
	var b strings.Builder
	b.WriteString(" What comes nearest:")
	for _, c := range found {
		last := min(c.line+len(wanted), len(lines))
		where := fmt.Sprintf("lines %d to %d", c.line+1, last)
		if last == c.line+1 {
			where = fmt.Sprintf("line %d", last)
		}
		fmt.Fprintf(&b, "\n\n%s%s:\n", where, c.why())
		for i := c.line; i < min(last, c.line+10); i++ {
			shown, cut := firstRunes([]byte(lines[i]), 200)
			b.WriteString(visible(string(shown)))
			if cut {
				b.WriteString(" …")
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func splitted(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return lines
}

// A candidate is a place that comes near to a text.
type candidate struct {
	line  int     // the first, from 0
	score float64 // 0 to 1
	space bool    // the difference is white space alone
}

func (c candidate) why() string {
	if c.space {
		return " (the same but for white space)"
	}
	return ""
}

// candidates returns the places that come nearest to the lines wanted, the
// best first.
func candidates(lines, wanted []string) []candidate {
	want := make([]string, len(wanted))
	rare := make(map[string][]int) // wanted lines by what they say, with their places
	for i, line := range wanted {
		want[i] = squeeze(line)
		if want[i] != "" {
			rare[want[i]] = append(rare[want[i]], i)
		}
	}
	have := make([]string, len(lines))
	votes := make(map[int]int) // first lines of windows, by how many lines agree
	for i, line := range lines {
		have[i] = squeeze(line)
		for _, at := range rare[have[i]] {
			if i >= at {
				votes[i-at]++
			}
		}
	}
	if len(votes) == 0 {
		return similar(have, want)
	}
	var found []candidate
	for line, n := range votes {
		score := float64(n) / float64(max(1, len(want)))
		found = append(found, candidate{line: line, score: score, space: agree(have, want, line)})
	}
	return best(found)
}

func agree(have, want []string, line int) bool {
	return line+len(want) <= len(have) && slices.Equal(have[line:line+len(want)], want)
}

// similar looks for lines with words of the first line wanted.
func similar(have, want []string) []candidate {
	first := slices.IndexFunc(want, func(line string) bool { return line != "" })
	if first < 0 {
		return nil
	}
	words := strings.FieldsFunc(want[first], isNoWord)
	if len(words) == 0 {
		return nil
	}
	var found []candidate
	for i, line := range have {
		n := 0
		for _, word := range words {
			if strings.Contains(line, word) {
				n++
			}
		}
		if score := float64(n) / float64(len(words)); score >= 0.5 && i >= first {
			found = append(found, candidate{line: i - first, score: score})
		}
	}
	return best(found)
}

func isNoWord(r rune) bool {
	return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80)
}

func best(found []candidate) []candidate {
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.line, b.line))
	})
	return found[:min(len(found), maxCandidates)]
}

// squeeze returns a line without its white space.
func squeeze(line string) string { return strings.Join(strings.Fields(line), "") }
