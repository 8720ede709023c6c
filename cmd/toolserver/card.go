// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A card is all that a person sees of an approval. What comes from elsewhere
// stands behind a margin or a word of ours, so that it cannot pass for ours.
type card struct {
	about   []row // who, why, what it touches
	preview []row // what it would do
	tiers   []row // what always may mean
}

// rows returns the card from top to bottom.
func (c *card) rows() []row {
	return append(append(append([]row(nil), c.about...), c.preview...), c.tiers...)
}

func newCard(a *pb.Approval) *card {
	c := new(card)
	if questions := a.GetQuestions(); len(questions) > 0 {
		c.say(span{visible(a.GetTool()), bold}, span{" wants to know", plain})
		c.origin(a)
		for i, q := range questions {
			c.question(i, len(questions), q)
		}
		return c
	}
	verdict := a.GetVerdict()
	c.say(span{visible(a.GetTool()), bold}, span{" needs approval by " + visible(verdict.GetRule()), plain})
	c.field("reason", verdict.GetReason())
	c.origin(a)
	if hidden := hiddenText(a); hidden != "" {
		c.say(span{"! " + hidden, alarm})
	}
	for _, judged := range a.GetEffects() {
		c.effect(judged)
	}
	c.field("jail", jailText(verdict.GetRights()))
	c.preview = previewRows(a.GetPreview())
	meaning := "always and never, for the rest of the session, may mean:"
	if len(a.GetTiers()) == 0 {
		meaning = "always and never are not offered: the answer is for this one time"
	}
	c.tiers = append(c.tiers, rowOf(dim, meaning))
	for _, tier := range a.GetTiers() {
		c.tiers = append(c.tiers, tierRow(tier))
	}
	return c
}

func (c *card) say(spans ...span) { c.about = append(c.about, row{spans, "  "}) }

// field shows a text under a name.
func (c *card) field(name, text string) {
	if text == "" {
		return
	}
	for _, line := range visibleLines(text) {
		c.about = append(c.about, row{[]span{{fmt.Sprintf("  %-8s ", name), dim}, {line, plain}}, "           "})
		name = ""
	}
}

// origin tells where an approval comes from.
func (c *card) origin(a *pb.Approval) {
	c.field("purpose", a.GetPurpose())
	c.field("session", a.GetSessionId()+" of "+a.GetPrincipal())
	c.field("approval", a.GetApprovalId())
}

var actionLooks = map[pb.Action]look{
	pb.Action_ACTION_ALLOW: green,
	pb.Action_ACTION_ASK:   yellow,
	pb.Action_ACTION_DENY:  red,
}

func (c *card) effect(judged *pb.JudgedEffect) {
	verdict := judged.GetVerdict()
	c.about = append(c.about, row{[]span{
		{fmt.Sprintf("  %-8s ", actionText(verdict.GetAction())), actionLooks[verdict.GetAction()]},
		{effectText(judged.GetEffect()), plain},
		{" (" + visible(verdict.GetRule()) + ")", dim},
	}, "           "})
}

func (c *card) question(i, n int, q *pb.Question) {
	number := ""
	if n > 1 {
		number = strconv.Itoa(i+1) + ". "
	}
	if q.GetHeader() != "" {
		number += visible(q.GetHeader()) + ": "
	}
	for _, line := range visibleLines(q.GetText()) {
		c.say(span{number, cyan}, span{line, bold})
		number = "   "
	}
	for j, option := range q.GetOptions() {
		spans := []span{{fmt.Sprintf("  %2d  ", j+1), cyan}, {visible(option.GetLabel()), plain}}
		if option.GetDescription() != "" {
			spans = append(spans, span{"  " + visible(option.GetDescription()), dim})
		}
		c.about = append(c.about, row{spans, "      "})
	}
	c.about = append(c.about, rowOf(dim, "      "+howToAnswer(q)))
}

// howToAnswer says what a question takes for an answer.
func howToAnswer(q *pb.Question) string {
	text := "answer with the number of an option"
	switch {
	case len(q.GetOptions()) == 0:
		return "answer in your own words"
	case q.GetMultiple():
		text = "answer with numbers of options, such as 1,2, or with none"
	}
	if !q.GetOptionsOnly() {
		text += ", or in your own words"
	}
	return text
}

func tierRow(t *pb.TrustTier) row {
	return row{[]span{{"  " + visible(t.GetTierId()) + "  ", cyan}, {visible(t.GetLabel()), plain}}, "     "}
}

// hiddenText says what the server left out; nothing where that is nothing.
func hiddenText(a *pb.Approval) string {
	var parts []string
	if n := a.GetMoreEffects(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d effects", n))
	}
	if n := a.GetPreview().GetHiddenBytes(); n > 0 {
		parts = append(parts, byteCount(float64(n))+" of the preview's end")
	}
	if len(parts) == 0 {
		return ""
	}
	return "NOT SHOWN: " + strings.Join(parts, " and ")
}

const margin = "│ "

// previewRows shows a preview to its end, and says what is missing behind it.
func previewRows(p *pb.Preview) []row {
	if p.GetText() == "" && p.GetHiddenBytes() == 0 {
		return nil
	}
	var rows []row
	for _, line := range visibleLines(p.GetText()) {
		rows = append(rows, row{[]span{{margin, dim}, {line, lookOf(p.GetKind(), line)}}, "┆ "})
	}
	if n := p.GetHiddenBytes(); n > 0 {
		rows = append(rows, rowOf(alarm, "! NOT SHOWN: "+byteCount(float64(n))+" more"))
	}
	return rows
}

// lookOf colours a diff.
func lookOf(kind pb.PreviewKind, line string) look {
	if kind != pb.PreviewKind_PREVIEW_KIND_DIFF {
		return plain
	}
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return plain
}
