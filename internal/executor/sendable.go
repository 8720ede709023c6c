// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// What tools report becomes fit to be sent here, whatever it is: text is valid
// UTF-8, and nothing is larger than a message may be. An event that could not
// be sent would end every stream that reaches it.

// Limits of texts beside the content, in bytes.
const (
	maxMessage = 8 << 10 // of progress, and of what went wrong
	maxSpoken  = 64 << 10
	maxWord    = 256
)

func (p Progress) sendable() Progress {
	p.Message, p.Unit = short(p.Message, maxMessage), short(p.Unit, maxWord)
	return p
}

func (p Partial) sendable(limit int) Partial {
	content, _ := sendableContent(p.Content, limit)
	return Partial{Content: content}
}

func (m UserMessage) sendable() UserMessage {
	attachments := make([]tools.Attachment, len(m.Attachments))
	for i, a := range m.Attachments {
		attachments[i] = tools.Attachment{Path: short(a.Path, maxMessage), MediaType: short(a.MediaType, maxWord), Size: a.Size}
	}
	m.Message, m.Attachments = short(m.Message, maxSpoken), attachments
	return m
}

// cut makes the end fit to be sent: it cuts the content to limit bytes, which TotalBytes
// and KeptBytes tell. The reason why a call did not succeed is its last content and stays.
func (f *Finished) cut(limit int) {
	if f.Failure != nil {
		f.Failure.Code = short(f.Failure.Code, maxWord)
		f.Failure.Message = short(f.Failure.Message, maxMessage)
	}
	content := f.Result.Content
	var reason []tools.Content
	if f.Failure != nil && len(content) > 0 {
		content, reason = content[:len(content)-1], []tools.Content{tools.Text(f.Failure.Message)}
		limit -= len(f.Failure.Message)
	}
	kept, lost := sendableContent(content, max(limit, 0))
	if n, total := contentBytes(kept), contentBytes(content); n < total {
		f.TotalBytes, f.KeptBytes = total, n
	}
	if lost && f.Outcome == Succeeded {
		outcome := failed("result_too_large", fmt.Sprintf(
			"The result has %d bytes, and at most %d can be handed over. Ask for less at once.", contentBytes(content), limit))
		f.Outcome, f.Failure, reason = outcome.Outcome, outcome.Failure, outcome.Result.Content
	}
	if len(reason) > 0 {
		kept = append(kept[:len(kept):len(kept)], reason...)
	}
	f.Result.Content = kept
	if f.Result.Exit != nil {
		exit := *f.Result.Exit
		exit.Signal, exit.Message = short(exit.Signal, maxWord), short(exit.Message, maxMessage)
		f.Result.Exit = &exit
	}
	if len(f.Result.Details) > limit || !utf8.Valid(f.Result.Details) {
		f.Result.Details = nil
	}
}

// sendableContent returns as much of content as fits. Text is cut; other kinds
// are useless in part and lost as a whole. Content that fits is returned as it
// is.
func sendableContent(content []tools.Content, limit int) (kept []tools.Content, lost bool) {
	if fits(content, limit) {
		return content, false
	}
	for _, c := range content {
		switch piece := c.(type) {
		case tools.Text:
			c = tools.Text(short(string(piece), limit))
		case tools.JSON:
			c = tools.JSON(output.ValidText(string(piece)))
		case tools.Image:
			piece.MediaType = short(piece.MediaType, maxWord)
			c = piece
		case tools.Artifact:
			piece.URI, piece.Name = short(piece.URI, maxMessage), short(piece.Name, maxWord)
			piece.MediaType, piece.Incomplete = short(piece.MediaType, maxWord), short(piece.Incomplete, maxWord)
			c = piece
		}
		size := contentBytes([]tools.Content{c})
		if size > limit {
			lost = true
			continue
		}
		limit -= size
		kept = append(kept, c)
	}
	return kept, lost
}

// fits reports whether content can be sent as it is, as nearly all can.
func fits(content []tools.Content, limit int) bool {
	for _, c := range content {
		switch piece := c.(type) {
		case tools.Text:
			if !utf8.ValidString(string(piece)) {
				return false
			}
		case tools.JSON:
			if !utf8.Valid(piece) {
				return false
			}
		default:
			return false
		}
	}
	return contentBytes(content) <= limit
}

// short returns text as valid UTF-8 of at most n bytes, cut between characters.
func short(text string, n int) string {
	text = output.ValidText(text)
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// count estimates what the content costs a model.
func (f *Finished) count(m tools.Measure) {
	for _, c := range f.Result.Content {
		switch c := c.(type) {
		case tools.Text:
			f.Tokens += m.Cost(string(c))
		case tools.JSON:
			f.Tokens += m.Cost(string(c))
		}
	}
}
