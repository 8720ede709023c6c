// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

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
		c.say(bold.Render(Visible(a.GetTool())) + " wants to know")
		c.origin(a)
		for i, q := range questions {
			c.question(i, len(questions), q)
		}
		return c
	}
	verdict := a.GetVerdict()
	c.say(bold.Render(Visible(a.GetTool())) + " needs approval by " + Visible(verdict.GetRule()))
	c.field("reason", verdict.GetReason())
	c.origin(a)
	if hidden := hiddenText(a); hidden != "" {
		c.say(alarm.Render("! " + hidden))
	}
	for _, judged := range a.GetEffects() {
		c.effect(judged)
	}
	c.field("jail", JailText(verdict.GetRights()))
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

func (c *card) say(text string) { c.about = append(c.about, row{text: text}) }

// named shows a text under a name.
func (c *card) named(name, text string) {
	const width = len("  approval ")
	c.about = append(c.about, row{head: fmt.Sprintf("  %s ", name+strings.Repeat(" ", max(width-3-columns(name), 0))), text: text, hang: strings.Repeat(" ", width)})
}

// field is named for a text of several lines, which may be empty.
func (c *card) field(name, text string) {
	if text == "" {
		return
	}
	for _, line := range visibleLines(text) {
		c.named(dim.Render(name), line)
		name = ""
	}
}

// origin tells where an approval comes from.
func (c *card) origin(a *pb.Approval) {
	c.field("purpose", a.GetPurpose())
	c.field("session", a.GetSessionId()+" of "+callerText(a.GetTenant(), a.GetPrincipal(), a.GetOnBehalfOf()))
	for _, link := range a.GetChain() {
		c.field("agent", linkText(link))
	}
	c.field("approval", a.GetApprovalId())
}

var actionStyles = map[pb.Action]lipgloss.Style{
	pb.Action_ACTION_ALLOW: green,
	pb.Action_ACTION_ASK:   yellow,
	pb.Action_ACTION_DENY:  red,
}

func (c *card) effect(judged *pb.JudgedEffect) {
	verdict := judged.GetVerdict()
	c.named(actionStyles[verdict.GetAction()].Render(ActionText(verdict.GetAction())),
		EffectText(judged.GetEffect())+dim.Render(" ("+Visible(verdict.GetRule())+")"))
}

func (c *card) question(i, n int, q *pb.Question) {
	number := "  "
	if n > 1 {
		number += strconv.Itoa(i+1) + ". "
	}
	if q.GetHeader() != "" {
		number += Visible(q.GetHeader()) + ": "
	}
	for _, line := range visibleLines(q.GetText()) {
		c.about = append(c.about, row{head: cyan.Render(number), text: bold.Render(line), hang: strings.Repeat(" ", columns(number))})
		number = strings.Repeat(" ", columns(number))
	}
	for j, option := range q.GetOptions() {
		label := Visible(option.GetLabel())
		if option.GetDescription() != "" {
			label += dim.Render("  " + Visible(option.GetDescription()))
		}
		c.about = append(c.about, row{head: cyan.Render(fmt.Sprintf("  %2d  ", j+1)), text: label, hang: "      "})
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
	head := "  " + Visible(t.GetTierId()) + "  "
	return row{head: cyan.Render(head), text: Visible(t.GetLabel()), hang: strings.Repeat(" ", columns(head))}
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

// previewRows shows a preview to its end, and says what is missing behind it.
func previewRows(p *pb.Preview) []row {
	if p.GetText() == "" && p.GetHiddenBytes() == 0 {
		return nil
	}
	var rows []row
	for _, line := range visibleLines(p.GetText()) {
		rows = append(rows, row{head: dim.Render("│ "), text: styleOf(p.GetKind(), line).Render(line), hang: dim.Render("┆ "), exact: true})
	}
	if n := p.GetHiddenBytes(); n > 0 {
		rows = append(rows, rowOf(alarm, "! NOT SHOWN: "+byteCount(float64(n))+" more"))
	}
	return rows
}

// styleOf colours a diff.
func styleOf(kind pb.PreviewKind, line string) lipgloss.Style {
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
