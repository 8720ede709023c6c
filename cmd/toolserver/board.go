// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A board is what "approvals watch" shows: what waits, and one of it in full.
// It knows no terminal.
//
// What is shown in full changes only when the person moves, or has answered it:
// a key never answers something that came up under the finger.
type board struct {
	waiting []*pb.Approval
	shown   *pb.Approval // nil where there is none
	at      int          // its place in waiting, or the place it had
	over    string       // how it ended, if it did
	sent    bool         // it was answered here
	scroll  int          // lines of its card above the first that is seen
	status  string       // what happened last
	comment string       // for the model, with the answer

	asking  asking
	allow   bool   // what is said always
	tier    int    // that is pointed at
	input   []rune // that is typed
	answers []*pb.QuestionAnswer

	page  int // lines of the card that can be seen
	lines int // of the card
	card  []row
	drawn struct { // what card was made for
		approval *pb.Approval
		width    int
	}
}

// asking is what keys are for.
type asking int

const (
	forNothing asking = iota
	forTier
	forComment
	forAnswer
)

// change takes what the server says.
func (b *board) change(c *pb.WatchApprovalsResponse) {
	switch change := c.GetChange().(type) {
	case *pb.WatchApprovalsResponse_Snapshot:
		b.waiting = change.Snapshot.GetApprovals()
		if b.shown != nil && b.index() < 0 {
			b.ended("it no longer waits")
		}
	case *pb.WatchApprovalsResponse_Asked:
		b.waiting = append(b.waiting, change.Asked)
	case *pb.WatchApprovalsResponse_Ended:
		id := change.Ended.GetApprovalId()
		b.waiting = slices.DeleteFunc(b.waiting, func(a *pb.Approval) bool { return a.GetApprovalId() == id })
		if b.shown.GetApprovalId() == id && b.shown != nil {
			b.ended(answerText(change.Ended.GetAnswer()))
		}
	}
	if i := b.index(); i >= 0 {
		b.at = i
	}
	if b.shown == nil {
		b.show(0)
	}
}

// ended takes note that what is shown was answered.
func (b *board) ended(how string) {
	b.status = shortID(b.shown.GetApprovalId()) + ": " + how
	b.over, b.asking = how, forNothing
	if b.sent {
		b.show(b.at)
	}
}

// failed takes note that an answer was refused.
func (b *board) failed(id string, err error) {
	if b.shown.GetApprovalId() == id {
		b.sent = false
	}
	b.status = shortID(id) + ": " + visible(statusText(status.Convert(err)))
}

// index returns the place of what is shown, or -1.
func (b *board) index() int {
	return slices.IndexFunc(b.waiting, func(a *pb.Approval) bool {
		return b.shown != nil && a.GetApprovalId() == b.shown.GetApprovalId()
	})
}

// show shows what waits at a place, or near it.
func (b *board) show(at int) {
	b.at = min(max(at, 0), max(len(b.waiting)-1, 0))
	b.shown, b.over, b.sent, b.scroll, b.comment, b.asking = nil, "", false, 0, "", forNothing
	if len(b.waiting) > 0 {
		b.shown = b.waiting[b.at]
	}
}

// pressAll takes keys that came together, and reports whether to leave. What
// came with the end of a line that was typed is not meant for what is next.
func (b *board) pressAll(keys []key, answer func(*pb.ResolveApprovalRequest)) (done bool, err error) {
	for _, k := range keys {
		before := b.asking
		switch {
		case k.code == keyInterrupt:
			return true, &exitError{code: exitCancelled}
		case k.code == 'q' && before == forNothing:
			return true, nil
		}
		if request := b.press(k); request != nil {
			answer(request)
		}
		if before != forNothing && b.asking == forNothing {
			break
		}
	}
	return false, nil
}

// press takes a key, and returns what to answer, if it was one that answers.
func (b *board) press(k key) *pb.ResolveApprovalRequest {
	switch b.asking {
	case forTier:
		return b.pressTier(k)
	case forComment, forAnswer:
		return b.pressInput(k)
	}
	step := max(b.page-1, 1)
	switch k.code {
	case 'j', keyDown:
		b.move(1)
	case 'k', keyUp:
		b.move(-1)
	case ' ', keyEnter, '\n', keyPageDown:
		b.scroll += step
	case 'b', keyPageUp:
		b.scroll = max(b.scroll-step, 0)
	case 'g', keyHome:
		b.scroll = 0
	case 'G', keyEnd:
		b.scroll = b.lines
	case 'y', 'n', 'a', 'd', 'c':
		if b.shown != nil && b.over == "" && !b.sent {
			return b.decide(k.code)
		}
	}
	return nil
}

func (b *board) move(by int) {
	if b.over != "" && by > 0 {
		by = 0 // the next one took its place
	}
	b.show(b.at + by)
	b.status = ""
}

// decide takes a key that is about what is shown.
func (b *board) decide(code rune) *pb.ResolveApprovalRequest {
	b.status = ""
	questions := len(b.shown.GetQuestions()) > 0
	switch {
	case code == 'c':
		b.asking, b.input = forComment, []rune(b.comment)
	case code == 'n':
		return b.send(answerTo(b.shown, once(false)))
	case questions && code != 'd':
		b.asking, b.input, b.answers = forAnswer, nil, nil
	case code == 'y':
		return b.send(answerTo(b.shown, once(true)))
	case len(b.shown.GetTiers()) == 0:
		b.status = "this can be answered for one time only"
	default:
		b.asking, b.allow, b.tier = forTier, code == 'a', 0
	}
	return nil
}

func (b *board) send(request *pb.ResolveApprovalRequest) *pb.ResolveApprovalRequest {
	b.asking, b.sent, b.status = forNothing, true, "…"
	request.Comment = b.comment
	return request
}

func (b *board) pressTier(k key) *pb.ResolveApprovalRequest {
	tiers := b.shown.GetTiers()
	switch {
	case k.code == 'j', k.code == keyDown:
		b.tier = min(b.tier+1, len(tiers)-1)
	case k.code == 'k', k.code == keyUp:
		b.tier = max(b.tier-1, 0)
	case k.code >= '1' && k.code <= '9' && int(k.code-'1') < len(tiers):
		b.tier = int(k.code - '1')
		fallthrough
	case k.code == keyEnter:
		request := answerTo(b.shown, always(b.allow))
		request.TierId = tiers[b.tier].GetTierId()
		return b.send(request)
	case k.code == keyEscape, k.code == 'q', k.code == 'n':
		b.asking = forNothing
	}
	return nil
}

// pressInput edits a line; it does not grow without end.
func (b *board) pressInput(k key) *pb.ResolveApprovalRequest {
	const most = 1000
	switch {
	case k.code == keyEscape:
		b.asking = forNothing
	case k.code == keyEnter:
		return b.entered(string(b.input))
	case k.code == keyBackspace || k.code == '\b':
		b.input = b.input[:max(len(b.input)-1, 0)]
	case k.code == keyClear:
		b.input = nil
	case k.code == keyPaste:
		b.input = append(b.input, []rune(strings.Join(strings.Fields(k.text), " "))...)
	case k.code >= ' ':
		b.input = append(b.input, k.code)
	}
	b.input = b.input[:min(len(b.input), most)]
	return nil
}

// entered takes a line that was typed.
func (b *board) entered(text string) *pb.ResolveApprovalRequest {
	if b.asking == forComment {
		b.comment, b.asking = strings.TrimSpace(text), forNothing
		return nil
	}
	questions := b.shown.GetQuestions()
	answer, err := answerOf(questions[len(b.answers)], text)
	if err != nil {
		b.status = err.Error()
		return nil
	}
	b.input, b.status = nil, ""
	if b.answers = append(b.answers, answer); len(b.answers) < len(questions) {
		return nil
	}
	request := answerTo(b.shown, pb.AnswerKind_ANSWER_KIND_ANSWERED)
	request.Answers = b.answers
	return b.send(request)
}

// rows draws the board.
func (b *board) rows(width, height int, now time.Time) []row {
	list := min(max(len(b.waiting), 1), max((height-4)/4, 1))
	b.page = max(height-4-list, 0)
	rows := []row{b.title(width)}
	rows = append(rows, b.list(list, now)...)
	detail := b.detail(width)
	b.lines = len(detail)
	b.scroll = min(b.scroll, max(b.lines-b.page, 0))
	seen := detail[b.scroll:min(b.scroll+b.page, b.lines)]
	rows = append(rows, b.divider(width))
	rows = append(rows, seen...)
	for range b.page - len(seen) {
		rows = append(rows, row{})
	}
	rows = append(rows, b.last(b.lines-b.scroll-len(seen)), b.foot(width))
	if len(rows) > height {
		rows = append(rows[:max(height-1, 0)], rows[len(rows)-1])
	}
	for i := range rows {
		rows[i] = rows[i].fit(width)
	}
	return rows
}

func (b *board) title(width int) row {
	text := fmt.Sprintf(" toolserver approvals: %d waiting", len(b.waiting))
	return rowOf(marked, text+strings.Repeat(" ", max(width-columns(text), 0)))
}

// list draws n of those that wait, what is shown among them.
func (b *board) list(n int, now time.Time) []row {
	if len(b.waiting) == 0 {
		return []row{rowOf(dim, "  nothing waits for an answer")}
	}
	first := min(max(b.at-n/2, 0), len(b.waiting)-n)
	var rows []row
	for i := first; i < first+n; i++ {
		a := b.waiting[i]
		left := a.GetExpireTime().AsTime().Sub(now)
		pointer, look, hurry := "  ", plain, plain
		if b.shown != nil && a.GetApprovalId() == b.shown.GetApprovalId() {
			pointer, look = "> ", bold
		}
		if left < 30*time.Second {
			hurry = red
		}
		rows = append(rows, row{spans: []span{
			{fmt.Sprintf("%s%s %5s old ", pointer, shortID(a.GetApprovalId()), ageText(now.Sub(a.GetCreateTime().AsTime()))), look},
			{fmt.Sprintf("%6s left ", ageText(left)), hurry},
			{" " + approvalText(a), look},
			{"  " + visible(a.GetPrincipal()+"/"+a.GetSessionId()), dim},
		}})
	}
	return rows
}

// detail draws what is shown in full.
func (b *board) detail(width int) []row {
	if b.shown == nil {
		return nil
	}
	if b.asking == forTier {
		var rows []row
		for i, tier := range b.shown.GetTiers() {
			r := tierRow(tier)
			if i == b.tier {
				r = rowOf(marked, r.String())
			}
			rows = append(rows, r)
		}
		return wrapAll(rows, width)
	}
	if b.drawn.approval != b.shown || b.drawn.width != width {
		b.drawn.approval, b.drawn.width = b.shown, width
		b.card = wrapAll(newCard(b.shown).rows(), width)
	}
	var rows []row
	if b.over != "" {
		rows = append(rows, rowOf(alarm, "! "+b.over))
	}
	if b.comment != "" {
		rows = append(rows, rowOf(cyan, "  comment  "+visible(b.comment)).wrap(width)...)
	}
	return append(rows, b.card...)
}

// divider says what was never sent.
func (b *board) divider(width int) row {
	r := rowOf(dim, "──")
	if hidden := hiddenText(b.shown); hidden != "" {
		r.spans = append(r.spans, span{" ! " + hidden + " ", alarm})
	}
	r.spans = append(r.spans, span{strings.Repeat("─", max(width-r.columns(), 0)), dim})
	return r
}

// last says what is below, and what happened last.
func (b *board) last(below int) row {
	var r row
	if below > 0 {
		r.spans = append(r.spans, span{fmt.Sprintf(" %d MORE LINES: space ", below), alarm}, span{" ", plain})
	}
	r.spans = append(r.spans, span{visible(b.status), bold})
	return r
}

// foot says which keys there are, or shows what is typed.
func (b *board) foot(width int) row {
	switch b.asking {
	case forTier:
		word := "Never allow"
		if b.allow {
			word = "Always allow"
		}
		return rowOf(bold, word+", for the rest of the session: number, or arrows and enter; esc back")
	case forComment:
		return b.editor("comment", width)
	case forAnswer:
		return b.editor(fmt.Sprintf("answer %d of %d", len(b.answers)+1, len(b.shown.GetQuestions())), width)
	}
	switch {
	case b.shown == nil:
		return rowOf(dim, "q quit")
	case b.over != "":
		return rowOf(dim, "j/k go on  space more  q quit")
	case len(b.shown.GetQuestions()) > 0:
		return rowOf(dim, "y answer  n decline  c comment  space more  j/k select  q quit")
	}
	return rowOf(dim, "y yes  a always  n no  d never  c comment  space more  j/k select  q quit")
}

// editor shows the end of the line that is typed.
func (b *board) editor(name string, width int) row {
	name += ": "
	text := visible(string(b.input))
	for columns(text) > max(width-columns(name)-1, 0) {
		text = strings.TrimLeftFunc(text[1:], func(r rune) bool { return r == '\uFFFD' })
	}
	return row{spans: []span{{name, cyan}, {text, plain}, {" ", marked}}}
}
