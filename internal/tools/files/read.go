// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed read.md
var readDoc string

//go:embed read_help.md
var readHelp string

type readInput struct {
	readOp
	Hash       bool            `json:"hash,omitempty" jsonschema:"show the hash, for expected_hash"`
	Operations []readOperation `json:"operations,omitempty" check:"min=1,max=50" jsonschema:"several reads in one call, in place of path"`
}

// readOp is one thing to read.
type readOp struct {
	Path    string    `json:"path,omitempty" check:"min=1,max=4096" jsonschema:"file to read, relative to the workspace, or artifact:…"`
	Offset  int       `json:"offset,omitempty" jsonschema:"first line, from 1; negative: from the end"`
	Column  int       `json:"column,omitempty" check:"min=1,max=1000000000" jsonschema:"of the first line, to go on in one that was cut"`
	Limit   int       `json:"limit,omitempty" check:"min=1,max=100000" jsonschema:"lines; default 2000"`
	Pages   string    `json:"pages,omitempty" check:"min=1,max=200,numeral" jsonschema:"of a PDF, such as 1-5,9 or 20-"`
	Mode    string    `json:"mode,omitempty" check:"enum=auto|lines|outline|image|notebook|pdf|directory" jsonschema:"default auto, by what the file is"`
	Depth   int       `json:"depth,omitempty" check:"min=1,max=20" jsonschema:"of a directory; default 1"`
	Exclude *[]string `json:"exclude,omitempty" check:"max=100" jsonschema:"names to leave out of a directory"`
}

// readOperation is a readOp whose path is required.
type readOperation struct {
	Path    string    `json:"path" check:"min=1,max=4096"`
	Offset  int       `json:"offset,omitempty"`
	Column  int       `json:"column,omitempty" check:"min=1,max=1000000000"`
	Limit   int       `json:"limit,omitempty" check:"min=1,max=100000"`
	Pages   string    `json:"pages,omitempty" check:"min=1,max=200,numeral"`
	Mode    string    `json:"mode,omitempty" check:"enum=auto|lines|outline|image|notebook|pdf|directory"`
	Depth   int       `json:"depth,omitempty" check:"min=1,max=20"`
	Exclude *[]string `json:"exclude,omitempty" check:"max=100"`
}

// auto reports whether what there is decides how it is shown.
func (op readOp) auto() bool { return op.Mode == "" || op.Mode == "auto" }

// effects returns those of reading one thing: a directory is judged as what is
// listed.
func (op readOp) effects(env tools.Env) []tools.Effect {
	if op.Mode == "directory" {
		return env.ViewsTree(op.Path)
	}
	effects := env.Views(op.Path)
	if op.auto() && leadsToDirectory(env, op.Path) {
		env.Pin(directoryAt(op.Path), "directory")
		effects = append(effects, env.ViewsTree(op.Path)...)
	}
	return effects
}

// directoryAt names what is pinned where a directory was judged.
func directoryAt(path string) string { return "read_file " + path }

// leadsToDirectory reports whether a name of [tools.Env.Views] is one of a directory.
func leadsToDirectory(env tools.Env, name string) bool {
	view, err := env.View(name)
	if err != nil {
		return false
	}
	defer view.Close()
	return isDirectory(view)
}

// Check finds the one thing, or the several, that are to be read.
func (in readInput) Check() []tools.Problem {
	single := in.readOp
	single.Path = ""
	switch {
	case len(in.Operations) == 0 && in.Path == "":
		return []tools.Problem{{Pointer: "/path", Message: "is required, unless operations are given"}}
	case len(in.Operations) > 0 && (in.Path != "" || single != readOp{}):
		return []tools.Problem{{Pointer: "/operations", Message: "takes the place of path, offset, column, limit, pages, mode, depth and exclude: put those into the operations"}}
	}
	problems := append(checkPatterns(in.Exclude), checkPages(in.Pages, in.Offset, in.Limit)...)
	for i, op := range in.Operations {
		for _, p := range append(checkPatterns(op.Exclude), checkPages(op.Pages, op.Offset, op.Limit)...) {
			problems = append(problems, tools.Problem{Pointer: "/operations/" + itoa(i) + p.Pointer, Message: p.Message})
		}
	}
	return problems
}

// all returns what is to be read.
func (in readInput) all() []readOp {
	if len(in.Operations) == 0 {
		return []readOp{in.readOp}
	}
	ops := make([]readOp, len(in.Operations))
	for i, op := range in.Operations {
		ops[i] = readOp(op)
	}
	return ops
}

// Read returns the tool that shows what is in files. Without documents it
// refuses PDF; without outlines, which may be nil, it knows fewer languages.
func Read(documents Documents, outlines *syntax.Pool) tools.Tool {
	r := reader{documents: documents, outlines: outlines, decoding: make(chan struct{}, maxDecoding)}
	return tools.New(
		tools.Spec{
			Name:            "read_file",
			Aliases:         []string{"read", "Read", "FileRead", "fs_read", "fsRead"},
			Keys:            []tools.Key{{Other: "file_path", Name: "path"}},
			Label:           "Read file",
			Summary:         "Show the lines of a text file, with their numbers.",
			Description:     readDoc,
			Help:            readHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Pages:           true,
			Examples: []tools.Example{
				{Summary: "A whole file", Input: json.RawMessage(`{"path":"README.md"}`)},
				{Summary: "Twenty lines from line 100", Input: json.RawMessage(`{"path":"main.go","offset":100,"limit":20}`)},
				{Summary: "The last ten lines", Input: json.RawMessage(`{"path":"build.log","offset":-10}`)},
				{Summary: "Some pages of a PDF", Input: json.RawMessage(`{"path":"report.pdf","pages":"1-5,9"}`)},
				{Summary: "Several at once", Input: json.RawMessage(`{"operations":[{"path":"go.mod"},{"path":"main.go","limit":50},{"path":"internal","mode":"directory","depth":2}]}`)},
			},
		},
		func(env tools.Env, in readInput) []tools.Effect {
			if len(in.Operations) == 0 {
				return in.readOp.effects(env)
			}
			var effects []tools.Effect
			for _, op := range in.all() {
				effects = append(effects, op.effects(env)...)
			}
			return effects
		},
		func(ctx context.Context, env tools.Env, in readInput, sink tools.Sink) (tools.Result, error) {
			r := r
			r.sink = sink
			if len(in.Operations) > 0 {
				return r.several(ctx, env, in)
			}
			content, details, err := r.read(ctx, env, in.readOp, in.Hash, env.Shown())
			if err != nil {
				return tools.Result{}, explainOf(env, err, in.Path)
			}
			result := tools.Result{Content: content}
			result.Details, err = json.Marshal(details)
			return result, err
		})
}

const (
	maxLine  = 2000 // characters of a line that are shown, unless it is asked for by column
	maxLines = 2000 // lines, unless there is a limit
	sniffLen = 8000 // bytes looked at to tell text from binary
)

// page is a range of lines of a file, and what was noticed on the way.
type page struct {
	op       readOp
	artifact bool // it is what a command wrote, and made plain
	words    tools.Words

	text         []byte
	first, last  int // lines shown; last is 0 when none is
	lines        int // lines of the file seen
	more         bool
	short        bool // the first line ends before the column
	crlf, lf     int
	badLines     int
	firstBad     int
	encoding     string
	startsMarked bool // with a byte order mark
}

// read reads the lines that are asked for, at most room bytes of them. again has
// the buffer begin anew.
func (p *page) read(buffer *bufio.Reader, again func(), room int) error {
	p.first = cmp.Or(p.op.Offset, 1)
	if p.first < 0 {
		total, err := p.countLines(buffer)
		if err != nil {
			return err
		}
		p.first = max(1, total+1+p.first)
		again()
	}
	r, err := p.decoder(buffer)
	if err != nil {
		return err
	}
	limit := cmp.Or(p.op.Limit, maxLines)
	p.text = make([]byte, 0, max(0, min(room, limit*80, r.Buffered()+r.Buffered()/8))) // with the numbers
	if p.lines, err = skipLines(r, p.first-1); err != nil {
		return err
	}
	column, width := max(1, p.op.Column), maxLine
	if column > 1 {
		if _, err := r.Peek(1); err == io.EOF {
			return nil
		}
		if p.short, err = skipCharacters(r, column-1); err != nil {
			return err
		}
		width = max(width, room)
	}
	for {
		line, ending, err := readLine(r, width)
		if err == io.EOF && p.short && p.last == 0 {
			err = nil // it is there, but for its end
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p.lines++
		left := room - len(p.text) - maxMark
		if p.lines >= p.first+limit || p.last > 0 && min(len(line), width) > left {
			p.more = true
			return nil
		}
		p.show(line, ending, column, width, max(left, 1))
		column, width = 1, maxLine
	}
}

// maxMark is what the number of a line and what is said about it take.
const maxMark = 40

// buffers are for files that are read.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// stoppable returns a reader of file that fails when ctx is done, so that a
// line without end can be left as well.
func stoppable(ctx context.Context, file io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return file.Read(p)
	})
}

// decoder looks at the beginning of a file and returns a reader of its text as
// UTF-8.
func (p *page) decoder(r *bufio.Reader) (*bufio.Reader, error) {
	name := p.op.Path
	head, err := r.Peek(sniffLen)
	if err != nil && err != io.EOF {
		return nil, err
	}
	p.encoding = "UTF-8"
	switch {
	case p.artifact && isText(head):
		return r, nil
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		p.startsMarked = true
		_, err = r.Discard(3)
		return r, err
	case bytes.HasPrefix(head, []byte(utf32Mark)):
		return nil, binaryFile(name, head, "read")
	case bytes.HasPrefix(head, []byte(marks[utf16Little])):
		p.encoding = utf16Little.String()
		return bufio.NewReader(wide[utf16Little].NewDecoder().Reader(r)), nil
	case bytes.HasPrefix(head, []byte(marks[utf16Big])):
		p.encoding = utf16Big.String()
		return bufio.NewReader(wide[utf16Big].NewDecoder().Reader(r)), nil
	case bytes.IndexByte(head, 0) >= 0:
		return nil, binaryFile(name, head, "read")
	}
	return r, nil
}

// isText reports whether what a command wrote can be made plain: it is UTF-8, also
// with NUL between names, or has no NUL.
func isText(head []byte) bool {
	for range utf8.UTFMax { // the last character may be cut
		if utf8.Valid(head) || len(head) == 0 {
			return true
		}
		head = head[:len(head)-1]
	}
	return bytes.IndexByte(head, 0) < 0
}

// skipCharacters passes over n characters of a line. It reports whether the line
// ends before, and leaves its ending.
func skipCharacters(r *bufio.Reader, n int) (ended bool, err error) {
	for ; n > 0; n-- {
		c, _, err := r.ReadRune()
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if c == '\n' {
			return true, r.UnreadRune()
		}
	}
	return false, nil
}

// skipLines passes over n lines, or as many as there are, and returns how many
// those were.
func skipLines(r *bufio.Reader, n int) (skipped int, err error) {
	partial := false // something of a line was passed over that has no ending yet
	for skipped < n {
		if _, err := r.Peek(1); err == io.EOF {
			if partial {
				skipped++
			}
			return skipped, nil
		} else if err != nil {
			return skipped, err
		}
		buf, _ := r.Peek(r.Buffered())
		if count := bytes.Count(buf, []byte{'\n'}); skipped+count <= n {
			skipped += count
			partial = buf[len(buf)-1] != '\n'
			if skipped == n { // up to the last ending: what follows is wanted
				buf = buf[:bytes.LastIndexByte(buf, '\n')+1]
				partial = false
			}
		} else {
			end := 0
			for ; skipped < n; skipped++ {
				end += bytes.IndexByte(buf[end:], '\n') + 1
			}
			buf = buf[:end]
		}
		if _, err := r.Discard(len(buf)); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// readLine returns a line without its ending, at most a little more than the
// characters that can be shown, and the ending. A last line without an ending counts
// if it has text. The line is good until the next one is read.
func readLine(r *bufio.Reader, width int) (line []byte, ending string, err error) {
	var before byte // the last byte before part
	for {
		part, err := r.ReadSlice('\n')
		if n := len(part); err == nil && line == nil && n <= width {
			if n > 1 && part[n-2] == '\r' {
				return part[:n-2], "\r\n", nil
			}
			return part[:n-1], "\n", nil
		}
		if room := width*utf8.UTFMax + 2 - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			before = part[len(part)-1]
			continue
		case err != nil && (err != io.EOF || len(line) == 0):
			return nil, "", err
		case bytes.HasSuffix(part, []byte("\r\n")), before == '\r' && len(part) == 1 && err == nil:
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), "\r\n", nil
		case bytes.HasSuffix(part, []byte("\n")):
			return bytes.TrimSuffix(line, []byte("\n")), "\n", nil
		}
		return line, "", nil
	}
}

// show appends a line from a column on, with its number: at most width characters
// and room bytes.
func (p *page) show(line []byte, ending string, column, width, room int) {
	switch ending {
	case "\n":
		p.lf++
	case "\r\n":
		p.crlf++
	}
	p.last = p.lines
	p.text = append(strconv.AppendInt(p.text, int64(p.lines), 10), '\t')
	shown, cut := firstRunes(line, width)
	text := p.plain(shown)
	for len(text) > room && len(shown) > 1 {
		end := max(1, len(shown)*room/len(text))
		for end > 1 && !utf8.RuneStart(shown[end]) {
			end--
		}
		shown, cut = shown[:end], true
		text = p.plain(shown)
	}
	if !p.artifact && !utf8.Valid(shown) {
		p.badLines++
		p.firstBad = cmp.Or(p.firstBad, p.lines)
	}
	p.text = append(p.text, text...)
	if cut {
		on := p.op
		on.Offset, on.Column, on.Limit = p.lines, column+utf8.RuneCount(shown), 1
		p.text = append(p.text, " … (the line goes on: "+p.words.GoOn("read_file", on)+")"...)
	}
	p.text = append(p.text, '\n')
}

// plain returns a line as valid text.
func (p *page) plain(line []byte) []byte {
	switch {
	case p.artifact:
		return []byte(strings.ReplaceAll(output.Clean(line), "\n", "\u240a"))
	case !utf8.Valid(line):
		return bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	return line
}

// firstRunes returns the first n characters of line and whether there are more.
func firstRunes(line []byte, n int) ([]byte, bool) {
	if len(line) <= n {
		return line, false
	}
	i := 0
	for ; n > 0 && i < len(line); n-- {
		_, size := utf8.DecodeRune(line[i:])
		i += size
	}
	return line[:i], i < len(line)
}

// countLines counts the lines of a file as readLine would.
func (p *page) countLines(buffer *bufio.Reader) (int, error) {
	r, err := (&page{op: p.op, artifact: p.artifact}).decoder(buffer)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	lines, last := 0, byte('\n')
	for {
		n, err := r.Read(buf)
		if n > 0 {
			lines += bytes.Count(buf[:n], []byte{'\n'})
			last = buf[n-1]
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if last != '\n' {
		lines++
	}
	return lines, nil
}

// readDetails is what an agent runtime may want to know beside the text.
type readDetails struct {
	Path        string `json:"path"`
	FirstLine   int    `json:"first_line"`
	LastLine    int    `json:"last_line"`
	More        bool   `json:"more"`
	Encoding    string `json:"encoding"`
	LineEndings string `json:"line_endings"`
	BadLines    int    `json:"lines_with_invalid_bytes"`
	Hash        string `json:"hash,omitempty"` // of the whole content, where it was read
}

// result returns the text of a page with its notes, and details.
func (p *page) result() (string, readDetails) {
	for _, note := range p.notes() {
		p.text = append(p.text, "("+note+")\n"...)
	}
	return asString(p.text), readDetails{
		Path: p.op.Path, FirstLine: p.first, LastLine: p.last, More: p.more,
		Encoding: p.encoding, LineEndings: p.lineEndings(), BadLines: p.badLines,
	}
}

// notes are sentences about what the text alone does not show.
func (p *page) notes() []string {
	var notes []string
	switch {
	case p.lines == 0:
		notes = append(notes, "the file is empty")
	case p.last == 0:
		notes = append(notes, fmt.Sprintf("the file has %d lines: line %d is beyond its end", p.lines, p.first))
	case p.more:
		notes = append(notes, "there is more: go on with "+p.words.GoOn("read_file", p.rest()))
	}
	if p.short {
		notes = append(notes, fmt.Sprintf("line %d ends before column %d", p.first, p.op.Column))
	}
	if p.badLines > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d lines are not valid UTF-8, the first is line %d: the bytes in question are shown as \uFFFD", p.badLines, p.firstBad))
	}
	if p.encoding != "UTF-8" {
		notes = append(notes, "the file is "+p.encoding+", shown as UTF-8")
	}
	if p.startsMarked {
		notes = append(notes, "the file begins with a byte order mark")
	}
	if p.crlf > 0 {
		notes = append(notes, "line endings: "+p.lineEndings())
	}
	return notes
}

// rest is what to ask for to go on. Where only a part was asked for, it is the rest
// of that or, after all of it, as much again.
func (p *page) rest() readOp {
	on := p.op
	on.Offset, on.Column = p.last+1, 0
	if shown := p.last - p.first + 1; shown < on.Limit {
		on.Limit -= shown
	}
	return on
}

func (p *page) lineEndings() string {
	switch {
	case p.crlf > 0 && p.lf > 0:
		return "mixed"
	case p.crlf > 0:
		return "CRLF"
	}
	return "LF"
}
