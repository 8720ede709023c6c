// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"charm.land/bubbles/v2/textinput"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A board is what "approvals watch" shows: what waits, and one of it in full.
//
// What is shown in full changes only when the person moves, or has answered it:
// a key never answers something that came up under the finger.
type board struct {
	resolve func(*pb.ResolveApprovalRequest) error // sends an answer

	waiting []*pb.Approval
	shown   *pb.Approval // nil where there is none
	at      int          // its place in waiting, or the place it had
	over    string       // how it ended, if it did
	sent    bool         // it was answered here
	status  string       // what happened last
	comment string       // for the model, with the answer

	asking  asking
	allow   bool // what is said always
	tier    int  // that is pointed at
	answers []*pb.QuestionAnswer
	deaf    bool // what is pressed now was typed ahead

	width, height int
	now           time.Time
	card          viewport.Model // what is shown in full
	drawn         *pb.Approval   // what it was made for
	line          textinput.Model
	end           error // why it ended
}

// maxTyped is how long a line may be that is typed.
const maxTyped = 1000

func newBoard(resolve func(*pb.ResolveApprovalRequest) error) *board {
	b := &board{resolve: resolve, now: time.Now(), width: 80, height: 24, card: viewport.New(), line: textinput.New()}
	b.line.CharLimit = maxTyped
	b.line.SetVirtualCursor(true)
	styles := b.line.Styles()
	styles.Focused.Prompt, styles.Cursor.Blink = cyan, false
	b.line.SetStyles(styles)
	return b
}

// What a board is told, beside keys and its size.
type (
	boardTime  time.Time
	boardAwake struct{}
	boardEnd   struct{ err error }
	refusal    struct {
		id  string
		err error
	}
)

func everySecond() tea.Cmd {
	return tea.Every(time.Second, func(now time.Time) tea.Msg { return boardTime(now) })
}

func (b *board) Init() tea.Cmd { return everySecond() }

func (b *board) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		b.width, b.height, b.drawn = m.Width, m.Height, nil
	case boardTime:
		b.now = time.Time(m)
		return b, everySecond()
	case *pb.WatchApprovalsResponse:
		before := b.shown
		if b.change(m); b.shown != nil && b.shown != before {
			b.deaf = true // the key may be on its way that was meant for the one before
			return b, awake()
		}
	case refusal:
		b.failed(m.id, m.err)
	case boardAwake:
		b.deaf = false
	case boardEnd:
		b.end = m.err
		return b, tea.Quit
	case tea.PasteMsg:
		if b.types() {
			m.Content = printable(m.Content)
			b.line, _ = b.line.Update(m)
		}
	case tea.KeyPressMsg:
		return b, b.pressed(m)
	}
	return b, nil
}

// typeAhead is how long keys mean nothing after a line was entered, or something came
// up by itself: pasted text goes on behind the end of a line, where a terminal does not
// tell it from keys, and fingers are slower than the screen.
const typeAhead = 300 * time.Millisecond

func awake() tea.Cmd {
	return tea.Tick(typeAhead, func(time.Time) tea.Msg { return boardAwake{} })
}

// pressed takes a key, and returns what is to be done.
func (b *board) pressed(k tea.KeyPressMsg) tea.Cmd {
	switch key := k.String(); {
	case key == "ctrl+c":
		b.end = &ExitError{Code: ExitCancelled}
		return tea.Quit
	case key == "q" && b.asking == forNothing:
		return tea.Quit
	case b.deaf:
		return nil
	}
	typed := b.types()
	request := b.press(k)
	var todo []tea.Cmd
	if request != nil {
		todo = append(todo, func() tea.Msg {
			if err := b.resolve(request); err != nil {
				return refusal{request.GetApprovalId(), err}
			}
			return nil
		})
	}
	if b.deaf = typed && !b.types(); b.deaf {
		todo = append(todo, awake())
	}
	return tea.Batch(todo...)
}

// types reports whether a line is typed.
func (b *board) types() bool { return b.asking == forComment || b.asking == forAnswer }

// edit has a line typed, which begins with a text.
func (b *board) edit(asking asking, text string) {
	b.asking = asking
	b.line.SetValue(text)
	b.line.CursorEnd()
	b.line.Focus()
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
	b.status = shortID(id) + ": " + Visible(StatusText(status.Convert(err)))
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
	b.shown, b.over, b.sent, b.comment, b.asking = nil, "", false, "", forNothing
	b.card.GotoTop()
	if len(b.waiting) > 0 {
		b.shown = b.waiting[b.at]
	}
}

// press takes a key, and returns what to answer, if it was one that answers.
func (b *board) press(k tea.KeyPressMsg) *pb.ResolveApprovalRequest {
	switch b.asking {
	case forTier:
		return b.pressTier(k.String())
	case forComment, forAnswer:
		return b.pressInput(k)
	}
	step := max(b.card.Height()-1, 1)
	switch key := k.String(); key {
	case "j", "down":
		b.move(1)
	case "k", "up":
		b.move(-1)
	case "space", "enter", "pgdown":
		b.card.ScrollDown(step)
	case "b", "pgup":
		b.card.ScrollUp(step)
	case "g", "home":
		b.card.GotoTop()
	case "G", "end":
		b.card.GotoBottom()
	case "y", "n", "a", "d", "c":
		if b.shown != nil && b.over == "" && !b.sent {
			return b.decide(key)
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
func (b *board) decide(key string) *pb.ResolveApprovalRequest {
	b.status = ""
	questions := len(b.shown.GetQuestions()) > 0
	switch {
	case key == "c":
		b.edit(forComment, b.comment)
	case key == "n":
		return b.send(answerTo(b.shown, once(false)))
	case questions && key != "d":
		b.answers = nil
		b.edit(forAnswer, "")
	case key == "y":
		return b.send(answerTo(b.shown, once(true)))
	case len(b.shown.GetTiers()) == 0:
		b.status = "this can be answered for one time only"
	default:
		b.asking, b.allow, b.tier = forTier, key == "a", 0
	}
	return nil
}

func (b *board) send(request *pb.ResolveApprovalRequest) *pb.ResolveApprovalRequest {
	b.asking, b.sent, b.status = forNothing, true, "…"
	request.Comment = b.comment
	return request
}

func (b *board) pressTier(key string) *pb.ResolveApprovalRequest {
	tiers := b.shown.GetTiers()
	number, err := strconv.Atoi(key)
	switch {
	case key == "j", key == "down":
		b.tier = min(b.tier+1, len(tiers)-1)
	case key == "k", key == "up":
		b.tier = max(b.tier-1, 0)
	case err == nil && number >= 1 && number <= len(tiers):
		b.tier = number - 1
		fallthrough
	case key == "enter":
		request := answerTo(b.shown, always(b.allow))
		request.TierId = tiers[b.tier].GetTierId()
		return b.send(request)
	case key == "esc", key == "q", key == "n":
		b.asking = forNothing
	}
	return nil
}

// pressInput edits the line that is typed.
func (b *board) pressInput(k tea.KeyPressMsg) *pb.ResolveApprovalRequest {
	switch k.String() {
	case "esc":
		b.asking = forNothing
	case "enter":
		return b.entered(b.line.Value())
	default:
		k.Text = printable(k.Text)
		b.line, _ = b.line.Update(k)
	}
	return nil
}

// printable returns what is typed without what cannot be seen, which may change how the rest of
// the line looks. A space of any kind is a space.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsPrint(c):
			return c
		case unicode.IsSpace(c):
			return ' '
		}
		return -1
	}, text)
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
	b.line.Reset()
	b.status = ""
	if b.answers = append(b.answers, answer); len(b.answers) < len(questions) {
		return nil
	}
	request := answerTo(b.shown, pb.AnswerKind_ANSWER_KIND_ANSWERED)
	request.Answers = b.answers
	return b.send(request)
}

// View draws the board.
func (b *board) View() tea.View {
	view := tea.NewView(strings.Join(b.lines(), "\n"))
	view.AltScreen = true
	return view
}

func (b *board) lines() []string {
	list := min(max(len(b.waiting), 1), max((b.height-4)/4, 1))
	b.fill(max(b.height-4-list, 0))
	lines := append([]string{b.title()}, b.list(list)...)
	lines = append(lines, b.divider())
	if b.card.Height() > 0 {
		lines = append(lines, strings.Split(b.card.View(), "\n")...)
	}
	lines = append(lines, b.last(), b.foot())
	if len(lines) > b.height {
		lines = append(lines[:max(b.height-1, 0)], lines[len(lines)-1])
	}
	for i := range lines {
		lines[i] = fit(lines[i], b.width)
	}
	return lines
}

func (b *board) title() string {
	text := fmt.Sprintf(" toolserver approvals: %d waiting", len(b.waiting))
	return marked.Render(text + strings.Repeat(" ", max(b.width-columns(text), 0)))
}

// list draws n of those that wait, what is shown among them.
func (b *board) list(n int) []string {
	if len(b.waiting) == 0 {
		return []string{dim.Render("  nothing waits for an answer")}
	}
	first := min(max(b.at-n/2, 0), len(b.waiting)-n)
	var lines []string
	for i := first; i < first+n; i++ {
		a := b.waiting[i]
		left := a.GetExpireTime().AsTime().Sub(b.now)
		pointer, style, hurry := "  ", plain, plain
		if b.shown != nil && a.GetApprovalId() == b.shown.GetApprovalId() {
			pointer, style = "> ", bold
		}
		if left < 30*time.Second {
			hurry = red
		}
		lines = append(lines, style.Render(fmt.Sprintf("%s%s %5s old ", pointer, shortID(a.GetApprovalId()), ageText(b.now.Sub(a.GetCreateTime().AsTime()))))+
			hurry.Render(fmt.Sprintf("%6s left ", ageText(left)))+
			style.Render(" "+approvalText(a))+
			dim.Render("  "+callerText(a.GetTenant(), a.GetPrincipal(), a.GetOnBehalfOf())+"/"+sessionText(a)))
	}
	return lines
}

// fill has the card show what is shown in full, in so many lines.
func (b *board) fill(height int) {
	b.card.SetWidth(b.width)
	b.card.SetHeight(height)
	b.card.FillHeight = true
	var rows []row
	switch {
	case b.shown == nil:
	case b.asking == forTier:
		for i, tier := range b.shown.GetTiers() {
			r := tierRow(tier)
			if i == b.tier {
				r = rowOf(marked, r.String())
			}
			rows = append(rows, r)
		}
	case b.drawn == b.shown && b.over == "" && b.comment == "":
		return // as it was: it may be long
	default:
		if b.over != "" {
			rows = append(rows, rowOf(alarm, "! "+b.over))
		}
		if b.comment != "" {
			rows = append(rows, row{head: cyan.Render("  comment  "), text: Visible(b.comment), hang: "           "})
		}
		rows = append(rows, newCard(b.shown).rows()...)
	}
	b.drawn = nil
	if b.asking != forTier && b.over == "" && b.comment == "" {
		b.drawn = b.shown
	}
	b.card.SetContentLines(wrapAll(rows, b.width))
	if b.asking == forTier {
		b.card.EnsureVisible(len(wrapAll(rows[:b.tier], b.width)), 0, 0)
	}
}

// divider says what was never sent.
func (b *board) divider() string {
	line := dim.Render("──")
	if hidden := hiddenText(b.shown); hidden != "" {
		line += alarm.Render(" ! " + hidden + " ")
	}
	return line + dim.Render(strings.Repeat("─", max(b.width-columns(line), 0)))
}

// last says what is below, and what happened last.
func (b *board) last() string {
	line := ""
	if below := b.card.TotalLineCount() - b.card.YOffset() - b.card.Height(); below > 0 {
		line = alarm.Render(fmt.Sprintf(" %d MORE LINES: space ", below)) + " "
	}
	return line + bold.Render(Visible(b.status))
}

// foot says which keys there are, or shows what is typed.
func (b *board) foot() string {
	switch b.asking {
	case forTier:
		word := "Never allow"
		if b.allow {
			word = "Always allow"
		}
		return bold.Render(word + ", for the rest of the session: number, or arrows and enter; esc back")
	case forComment:
		return b.editor("comment: ")
	case forAnswer:
		return b.editor(fmt.Sprintf("answer %d of %d: ", len(b.answers)+1, len(b.shown.GetQuestions())))
	}
	keys := "y yes  a always  n no  d never  c comment  space more  j/k select  q quit"
	switch {
	case b.deaf:
		keys = "…"
	case b.shown == nil:
		keys = "q quit"
	case b.over != "":
		keys = "j/k go on  space more  q quit"
	case len(b.shown.GetQuestions()) > 0:
		keys = "y answer  n decline  c comment  space more  j/k select  q quit"
	}
	return dim.Render(keys)
}

// editor shows the line that is typed.
func (b *board) editor(name string) string {
	b.line.Prompt = name
	b.line.SetWidth(max(b.width-columns(name)-1, 1))
	return b.line.View()
}
