// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/output"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// rawUsage is what --raw does.
const rawUsage = "print results as they are: no newline added, images as bytes, and text beside these on standard error"

// A view shows the events of one execution. It is used by one goroutine.
type view interface {
	show(event *pb.Event) error

	// note says something about the showing itself.
	note(text string)

	// tick is called several times a second, so that what moves can move.
	tick(now time.Time)

	// close leaves the terminal as it was.
	close()
}

// newView returns a view that writes events as JSON or as text. raw leaves the
// bytes of results as they are.
func newView(stderr *Stream, asJSON, raw bool) view {
	stdout := NewStream(os.Stdout)
	if asJSON {
		return &jsonView{stdout, stderr}
	}
	return newTextView(stdout, stderr, raw)
}

func newTextView(stdout, stderr *Stream, raw bool) *textView {
	v := &textView{stdout: stdout, stderr: stderr, raw: raw}
	if stderr.terminal && os.Getenv("TERM") != "dumb" {
		v.bar = &bar{to: stderr, begin: time.Now()}
	}
	return v
}

// jsonView writes one event a line.
type jsonView struct{ stdout, stderr *Stream }

func (v *jsonView) show(event *pb.Event) error { return WriteJSON(v.stdout, event) }
func (v *jsonView) note(text string)           { fmt.Fprintln(v.stderr, text) }
func (v *jsonView) tick(time.Time)             {}
func (v *jsonView) close()                     {}

// WriteJSON writes a message as one line of JSON. protojson varies its spaces
// on purpose; compacting takes them away.
func WriteJSON(to io.Writer, message proto.Message) error {
	text, err := protojson.Marshal(message)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err = to.Write(line.Bytes())
	return err
}

// writeLines writes messages as lines of JSON.
func writeLines[M proto.Message](to io.Writer, list []M) error {
	for _, message := range list {
		if err := WriteJSON(to, message); err != nil {
			return err
		}
	}
	return nil
}

// printList writes a list to standard output: as lines of JSON, or as a table.
func printList[M proto.Message](list []M, asJSON bool, table func(*Stream, []M) error) error {
	out := NewStream(os.Stdout)
	if asJSON {
		return writeLines(out, list)
	}
	return table(out, list)
}

// textView writes what tools say: output as it comes, results at the end.
type textView struct {
	stdout, stderr *Stream
	raw            bool
	bar            *bar      // nil where there is no terminal
	lastProgress   time.Time // shown as a line
	waiting        int       // approvals without an answer
	begin          []byte    // of the output that was shown
	wrote          bool      // some of it was no standard error
	asks           bool      // somebody else shows what waits

	saying map[string]string // the line that an agent is writing, by its loop
	crew   *crewTree         // nil where there is none, or no terminal
}

// maxBegin is how much of an output is enough to know it by.
const maxBegin = 256

func (v *textView) show(event *pb.Event) error {
	switch kind := event.GetKind().(type) {
	case *pb.Event_Accepted:
		if v.bar != nil && v.bar.progress == nil {
			v.bar.progress = &pb.Progress{Message: kind.Accepted.GetTool()}
		}
	case *pb.Event_Progress:
		v.progress(kind.Progress, event.GetTime().AsTime())
	case *pb.Event_Output:
		data := kind.Output.GetData()
		v.begin = append(v.begin, data[:min(len(data), maxBegin-len(v.begin))]...)
		to := v.stdout
		if kind.Output.GetStream() == pb.OutputStream_OUTPUT_STREAM_STDERR {
			to = v.stderr
		} else {
			v.wrote = true
		}
		return v.write(to, data)
	case *pb.Event_ApprovalRequested:
		v.waiting++
		v.close()
		if a := kind.ApprovalRequested.GetApproval(); !v.asks {
			v.note("waits for approval " + shortID(a.GetApprovalId()) + ": " + approvalText(a))
		}
	case *pb.Event_ApprovalResolved:
		v.waiting--
		v.note(answerText(kind.ApprovalResolved.GetAnswer()))
	case *pb.Event_UserMessage:
		v.message(kind.UserMessage)
	case *pb.Event_Nested:
		if v.bar != nil && kind.Nested.GetStage() != "" {
			v.inCrew(kind.Nested, event.GetTime().AsTime())
		} else {
			v.nested(kind.Nested, 0)
		}
	case *pb.Event_Skipped:
		v.note(fmt.Sprintf("(events %d to %d are no longer kept)", kind.Skipped.GetFirst(), event.GetSequence()))
	case *pb.Event_Finished:
		return v.finished(kind.Finished)
	}
	return nil
}

// write writes in place of the bar.
func (v *textView) write(to *Stream, data []byte) error {
	v.close()
	_, err := to.Write(data)
	if v.bar != nil && to.terminal {
		v.stderr.midline = to.midline // both are the same terminal
	}
	return err
}

func (v *textView) note(text string) {
	v.close()
	v.stderr.endLine()
	fmt.Fprintln(v.stderr, strings.TrimSuffix(text, "\n"))
}

func (v *textView) tick(now time.Time) {
	switch {
	case v.crew != nil && !v.crew.over:
		if v.waiting == 0 || !v.asks {
			v.crew.draw(now)
		}
	case v.bar != nil && v.waiting == 0:
		v.bar.draw(now)
	}
}

func (v *textView) close() {
	if v.crew != nil {
		v.crew.clear()
	}
	if v.bar != nil {
		v.bar.clear()
	}
}

// progress moves the bar; without one it writes a line, at most once a second.
func (v *textView) progress(p *pb.Progress, at time.Time) {
	if v.bar != nil {
		v.bar.progress = p
		v.bar.draw(time.Now())
		return
	}
	if at.Sub(v.lastProgress) < time.Second {
		return
	}
	v.lastProgress = at
	text := OneLine(p.GetMessage())
	if p.GetTotal() > 0 {
		text += fmt.Sprintf(" %.0f%% (%s of %s)", 100*fraction(p.GetDone(), p.GetTotal()),
			amount(p.GetDone(), p.GetUnit()), quantity(p.GetTotal(), p.GetUnit()))
	} else if p.GetDone() > 0 {
		text += " " + quantity(p.GetDone(), p.GetUnit())
	}
	v.note(strings.TrimSpace(text))
}

// message shows what a tool says to the person behind the agent.
func (v *textView) message(m *pb.UserMessage) {
	v.note(m.GetMessage())
	for _, a := range m.GetAttachments() {
		v.note(fmt.Sprintf("  attached: %s (%s, %s)", a.GetPath(), a.GetMediaType(), byteCount(float64(a.GetSize()))))
	}
}

// finished shows the result on standard output, and what went wrong on
// standard error.
func (v *textView) finished(f *pb.Finished) error {
	v.close()
	if v.crew != nil {
		v.crew.leave(time.Now())
	}
	if !v.raw {
		v.stdout.endLine() // of output that did not
	}
	failure := f.GetFailure().GetMessage()
	shown := len(v.begin) == 0
	bytesAlone := v.raw && slices.ContainsFunc(f.GetContent(), func(c *pb.Content) bool { return c.GetImage() != nil })
	for _, content := range f.GetContent() {
		if text, ok := content.GetKind().(*pb.Content_Text); ok && failure != "" && text.Text == failure {
			continue // comes last, with the outcome
		}
		if text := content.GetText(); text != "" && !shown {
			shown = true
			if f.GetExit() != nil && v.wrote || strings.HasPrefix(text, strings.TrimSuffix(output.Clean(v.begin), "\n")) {
				continue // what the program wrote, as it was shown
			}
		}
		if beside := cmp.Or(content.GetText(), content.GetJson()); bytesAlone && beside != "" {
			v.note(beside)
			continue
		}
		if err := v.content(content); err != nil {
			return err
		}
	}
	if t := f.GetTruncation(); t != nil {
		v.note(fmt.Sprintf("(the result was cut: %s of %s are left)",
			byteCount(float64(t.GetKeptBytes())), byteCount(float64(t.GetTotalBytes()))))
	}
	if f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		v.note(outcomeText(f.GetOutcome()) + ": " + failure)
	}
	return nil
}

// outcomeText writes an outcome in words.
func outcomeText(outcome pb.Outcome) string {
	return strings.ReplaceAll(enumWord(outcome, "OUTCOME_"), "_", " ")
}

// content writes one piece of a result, and ends its line. What only points to an
// artifact is a note: programs that read standard output want none of it.
func (v *textView) content(c *pb.Content) error {
	var data []byte
	switch kind := c.GetKind().(type) {
	case *pb.Content_Text:
		data = []byte(kind.Text)
	case *pb.Content_Json:
		data = []byte(kind.Json)
		var pretty bytes.Buffer
		if v.stdout.terminal && !v.raw && json.Indent(&pretty, data, "", "  ") == nil {
			data = pretty.Bytes()
		}
	case *pb.Content_Image:
		data = kind.Image.GetData()
		if !v.raw {
			data = fmt.Appendf(nil, "[image %s, %s]", kind.Image.GetMediaType(), byteCount(float64(len(data))))
		}
	case *pb.Content_Artifact:
		a := kind.Artifact
		v.note(fmt.Sprintf("[%s %s, %s, %s]", a.GetName(), a.GetUri(), a.GetMediaType(), byteCount(float64(a.GetSize()))))
		return nil
	}
	if err := v.write(v.stdout, data); err != nil {
		return err
	}
	if !v.raw && !bytes.HasSuffix(data, []byte("\n")) {
		return v.write(v.stdout, []byte("\n"))
	}
	return nil
}
