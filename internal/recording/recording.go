// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package recording writes and reads recordings: what happened in executions, as one file
// that can be played back. docs/recordings.md describes the file.
package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Version is that of the files that are written, and the newest that is read.
const Version = 1

// Bounds of a file: what is more was not written by this program.
const (
	MaxLine       = 8 << 20 // bytes
	MaxLines      = 2_000_000
	MaxExecutions = 100_000
	maxHeader     = 4096 // bytes; longer ones begin no recording
)

// Header is the first line of a file.
type Header struct {
	Version int       `json:"toolserverRecording"`
	Time    time.Time `json:"time"`             // when it was made
	Server  string    `json:"server,omitempty"` // the version of the server
}

// An Item is one line: one of its fields is set. An execution comes before its events.
type Item struct {
	Session   *pb.Session
	Tool      *pb.Tool
	Execution *pb.Execution
	Event     *pb.Event
}

// of returns the kind of the line and its message.
func (i *Item) of() (kind string, message proto.Message) {
	switch {
	case i.Session != nil:
		return "session", i.Session
	case i.Tool != nil:
		return "tool", i.Tool
	case i.Execution != nil:
		return "execution", i.Execution
	}
	return "event", i.Event
}

// end is the last line: without it a file is not whole.
type end struct {
	Lines int `json:"lines"` // before it
}

// A Writer writes a recording.
type Writer struct {
	to    *bufio.Writer
	lines int
}

// NewWriter returns a writer that has written the header. Close it to have a whole file.
func NewWriter(to io.Writer, header Header) (*Writer, error) {
	w := &Writer{to: bufio.NewWriter(to)}
	header.Version = Version
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	return w, w.line(text)
}

// Write writes an item.
func (w *Writer) Write(item Item) error {
	kind, message := item.of()
	text, err := protojson.Marshal(message)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	fmt.Fprintf(&line, `{"%s":`, kind)
	if err := json.Compact(&line, text); err != nil { // protojson varies its spaces on purpose
		return err
	}
	line.WriteByte('}')
	return w.line(line.Bytes())
}

// Close writes the last line.
func (w *Writer) Close() error {
	text, err := json.Marshal(map[string]end{"end": {w.lines}})
	if err == nil {
		err = w.line(text)
	}
	return errors.Join(err, w.to.Flush())
}

func (w *Writer) line(text []byte) error {
	if len(text) > MaxLine || w.lines == MaxLines {
		return fmt.Errorf("a recording has at most %d lines of %d bytes, and this is line %d of %d bytes: record less at once", MaxLines, MaxLine, w.lines+1, len(text))
	}
	w.lines++
	w.to.Write(text)
	return w.to.WriteByte('\n')
}

// A Reader reads a recording, and checks it on the way.
type Reader struct {
	Header Header

	from  *bufio.Reader
	line  int
	over  bool
	lasts map[string]uint64 // the last sequence, by the id of an execution
}

// NewReader returns a reader that has read the header.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: bufio.NewReaderSize(from, 64<<10), lasts: make(map[string]uint64)}
	text, err := r.next(maxHeader)
	if err != nil {
		return nil, errors.New("this is no recording: it does not begin with a line such as {\"toolserverRecording\":1}")
	}
	if err := json.Unmarshal(text, &r.Header); err != nil || r.Header.Version < 1 {
		return nil, errors.New("this is no recording: its first line is not like {\"toolserverRecording\":1}")
	}
	if r.Header.Version > Version {
		return nil, fmt.Errorf("the recording has version %d, and this program reads those up to %d: use a newer toolserver", r.Header.Version, Version)
	}
	return r, nil
}

// Next returns the next item, and [io.EOF] after the last.
func (r *Reader) Next() (Item, error) {
	text, err := r.next(MaxLine)
	switch {
	case errors.Is(err, io.EOF) && r.over:
		return Item{}, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Item{}, fmt.Errorf("the recording was cut off after line %d: its last line is missing, which says that it is whole", r.line)
	case err != nil:
		return Item{}, err
	case r.over:
		return Item{}, r.wrong("there is something behind the end")
	}
	item, err := r.parse(text)
	if err != nil {
		return Item{}, err
	}
	if r.over {
		return r.Next()
	}
	return item, r.check(item)
}

// next returns a line of at most so many bytes.
func (r *Reader) next(most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.from.ReadSlice('\n')
		if len(line)+len(part) > most+1 {
			return nil, fmt.Errorf("line %d of the recording has more than %d bytes", r.line+1, most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			if r.line++; r.line > MaxLines+1 {
				return nil, fmt.Errorf("the recording has more than %d lines", MaxLines)
			}
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func (r *Reader) wrong(format string, args ...any) error {
	return fmt.Errorf("line %d of the recording: "+format, append([]any{r.line}, args...)...)
}

// parse reads a line. Fields that later versions of the contract have are left out.
func (r *Reader) parse(text []byte) (item Item, err error) {
	var line map[string]json.RawMessage
	if err := json.Unmarshal(text, &line); err != nil {
		return item, r.wrong("it is no JSON object: %v", err)
	}
	if len(line) != 1 {
		return item, r.wrong("it has %d members: want one of session, tool, execution, event or end", len(line))
	}
	for kind, body := range line {
		var message proto.Message
		switch kind {
		case "session":
			item.Session = new(pb.Session)
			message = item.Session
		case "tool":
			item.Tool = new(pb.Tool)
			message = item.Tool
		case "execution":
			item.Execution = new(pb.Execution)
			message = item.Execution
		case "event":
			item.Event = new(pb.Event)
			message = item.Event
		case "end":
			var last end
			if err := json.Unmarshal(body, &last); err != nil || last.Lines != r.line-1 {
				return item, r.wrong("it says that %d lines are before it: some are missing, or were added", last.Lines)
			}
			r.over = true
			return item, nil
		default:
			return item, r.wrong("there is no kind %.40q: want session, tool, execution, event or end", kind)
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, message); err != nil {
			return item, r.wrong("it is no %s of the contract: %v", kind, err)
		}
	}
	return item, nil
}

// check sees that an item fits what came before it.
func (r *Reader) check(item Item) error {
	switch {
	case item.Execution != nil:
		id := item.Execution.GetExecutionId()
		if _, twice := r.lasts[id]; twice || id == "" {
			return r.wrong("the execution %.64q is there twice, or has no id", id)
		}
		if len(r.lasts) == MaxExecutions {
			return r.wrong("there are more than %d executions", MaxExecutions)
		}
		r.lasts[id] = 0
	case item.Event != nil:
		id, number := item.Event.GetExecutionId(), item.Event.GetSequence()
		last, known := r.lasts[id]
		if !known {
			return r.wrong("the event is of execution %.64q, which has no line before it", id)
		}
		if number <= last {
			return r.wrong("event %d of execution %s comes after event %d", number, id, last)
		}
		if item.Event.Kind == nil {
			return r.wrong("event %d of execution %s has no kind that this program knows", number, id)
		}
		r.lasts[id] = number
	}
	return nil
}
