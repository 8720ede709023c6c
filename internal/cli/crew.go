// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/spinner"
	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A crewTree is the lines at the bottom of a terminal that show how the stages of a crew are, each
// below the last of those that it waits for.
type crewTree struct {
	to     *Stream
	begin  time.Time
	stages []*crewStage // in the order in which they can run
	drawn  []string
	over   bool // nothing more happens
}

// crewStage is a stage as a person sees it.
type crewStage struct {
	name         string
	title, agent string // as they are shown
	after        []*crewStage
	below        []*crewStage // drawn below it
	state        pb.StageState
	began, ended time.Time
	usage        *pb.LoopUsage
	turns, calls uint32
	doing        string
	said         string // of a line
	reason       string
}

// take notes what happened in a crew.
func (t *crewTree) take(n *pb.Nested, at time.Time) {
	s := t.named(n.GetStage())
	if s == nil {
		if n.GetStageChanged() == nil {
			return // its beginning is no longer kept
		}
		s = &crewStage{name: n.GetStage(), title: Visible(n.GetStage()), agent: Visible(n.GetAgent())}
		t.stages = append(t.stages, s)
		if t.begin.IsZero() {
			t.begin = at
		}
	}
	switch kind := n.GetKind().(type) {
	case *pb.Nested_StageChanged:
		s.change(t, kind.StageChanged, at)
	case *pb.Nested_Begun:
		s.began, s.doing = at, "begins"
	case *pb.Nested_Turn:
		s.turns, s.usage, s.doing = kind.Turn.GetTurn(), kind.Turn.GetUsage(), "asks its model"
		s.said = ""
	case *pb.Nested_Text:
		s.say(kind.Text)
	case *pb.Nested_Heard:
		s.doing = "hears: " + kind.Heard
	case *pb.Nested_Call:
		s.call(kind.Call)
	case *pb.Nested_Finished:
		s.usage = kind.Finished.GetUsage()
		s.turns, s.calls = s.usage.GetTurns(), s.usage.GetCalls()
	}
}

func (t *crewTree) named(name string) *crewStage {
	if i := slices.IndexFunc(t.stages, func(s *crewStage) bool { return s.name == name }); i >= 0 {
		return t.stages[i]
	}
	return nil
}

// change notes that a stage is there, or has ended.
func (s *crewStage) change(t *crewTree, c *pb.StageChanged, at time.Time) {
	s.state, s.reason = c.GetState(), c.GetReason()
	if s.state != pb.StageState_STAGE_STATE_WAITING {
		s.ended = at
		return
	}
	var last *crewStage
	for _, before := range t.stages {
		if slices.Contains(c.GetDependsOn(), before.name) {
			s.after = append(s.after, before)
			last = before
		}
	}
	if last != nil {
		last.below = append(last.below, s)
	}
}

// say shows the line that the model is writing, or has written last.
func (s *crewStage) say(text string) {
	s.said = strings.TrimLeft(s.said+text, "\n")
	if end := strings.LastIndex(strings.TrimRight(s.said, "\n"), "\n"); end >= 0 {
		s.said = s.said[end+1:]
	}
	s.doing = "says: " + s.said
}

// call notes what a call of the agent does.
func (s *crewStage) call(c *pb.NestedCall) {
	if c.GetInput() != "" {
		s.doing = c.GetTool() + " " + c.GetInput()
	}
	if c.GetError() != "" {
		s.doing = c.GetTool() + " was not run: " + c.GetError()
	}
	switch kind := c.GetEvent().GetKind().(type) {
	case *pb.Event_ApprovalRequested:
		s.doing = "waits for a person: " + c.GetTool()
	case *pb.Event_Nested:
		s.doing = kind.Nested.GetAgent() + " works for it"
	case *pb.Event_Finished:
		s.calls++
		if outcome := kind.Finished.GetOutcome(); outcome != pb.Outcome_OUTCOME_SUCCEEDED {
			s.doing = c.GetTool() + ": " + outcomeText(outcome)
		}
	}
}

func (s *crewStage) waits() bool {
	return s.state == pb.StageState_STAGE_STATE_WAITING && s.began.IsZero()
}
func (s *crewStage) running() bool {
	return s.state == pb.StageState_STAGE_STATE_WAITING && !s.began.IsZero()
}

// draw shows the tree, in place of what it showed before.
func (t *crewTree) draw(now time.Time) {
	width, height, err := term.GetSize(int(t.to.file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	t.to.endLine()
	up := t.up(width)
	t.drawn = t.lines(now, width-1, height-2)
	lipgloss.Fprint(t.to.file, up+strings.Join(t.drawn, "\x1b[K\n")+"\x1b[K\n\x1b[J") // visible already
}

// clear takes the tree away, so that something else can be written.
func (t *crewTree) clear() {
	if t.drawn != nil {
		t.to.file.WriteString(t.up(t.to.width()) + "\x1b[J")
		t.drawn = nil
	}
}

// leave shows the tree for the last time, and leaves it where it is.
func (t *crewTree) leave(now time.Time) {
	t.draw(now)
	t.drawn, t.over = nil, true
}

// up returns what moves the cursor to where the tree begins, on a terminal that may have
// become narrower since.
func (t *crewTree) up(width int) string {
	n := 0
	for _, line := range t.drawn {
		n += 1 + max(columns(line)-1, 0)/width
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA", n)
}

// lines returns the tree in at most so many columns and lines.
func (t *crewTree) lines(now time.Time, width, height int) []string {
	var rows []crewRow
	var roots []*crewStage
	for _, s := range t.stages {
		if len(s.after) == 0 {
			roots = append(roots, s)
		}
	}
	for i, s := range roots {
		rows = s.rows(rows, "", i == len(roots)-1)
	}
	rows, hidden := crowded(rows, height-1)
	names, agents := 0, 0
	for _, r := range rows {
		names, agents = max(names, columns(r.branch)+2+columns(r.stage.title)), max(agents, columns(r.stage.agent))
	}
	names, agents = min(names, width/2), min(agents, width/4)
	lines := []string{fit(t.title(now), width)}
	for _, r := range rows {
		if r.reason {
			lines = append(lines, fit(dim.Render(r.branch)+red.Render("  "+OneLine(r.stage.reason)), width))
			continue
		}
		mark, style := r.stage.mark(now.Sub(t.begin))
		name := style.Render(mark) + " " + r.stage.title
		line := dim.Render(r.branch) + name + strings.Repeat(" ", max(0, names-columns(r.branch+name))) +
			"  " + dim.Render(r.stage.agent+strings.Repeat(" ", max(0, agents-columns(r.stage.agent)))) + "  " + r.stage.about(now)
		lines = append(lines, fit(strings.TrimRight(line, " "), width))
	}
	if hidden > 0 {
		lines = append(lines, dim.Render(fit(fmt.Sprintf("… %d more that have ended or wait", hidden), width)))
	}
	return lines
}

// crewRow is a line of a tree: a stage, or why it failed.
type crewRow struct {
	branch string
	stage  *crewStage
	reason bool
}

// rows adds a stage and those below it.
func (s *crewStage) rows(rows []crewRow, before string, last bool) []crewRow {
	fork, rest := "├─ ", "│  "
	if last {
		fork, rest = "└─ ", "   "
	}
	rows = append(rows, crewRow{branch: before + fork, stage: s})
	if s.state == pb.StageState_STAGE_STATE_FAILED {
		stem := "   "
		if len(s.below) > 0 {
			stem = "│  "
		}
		rows = append(rows, crewRow{branch: before + rest + stem, stage: s, reason: true})
	}
	for i, b := range s.below {
		rows = b.rows(rows, before+rest, i == len(s.below)-1)
	}
	return rows
}

// crowded leaves out what matters least where there are too many rows: first what succeeded,
// then what was skipped, then what waits.
func crowded(rows []crewRow, room int) (kept []crewRow, hidden int) {
	if len(rows) <= room {
		return rows, 0
	}
	room = max(room-1, 0) // for what tells so
	for _, least := range []func(*crewStage) bool{
		func(s *crewStage) bool { return s.state == pb.StageState_STAGE_STATE_DONE },
		func(s *crewStage) bool { return s.state == pb.StageState_STAGE_STATE_SKIPPED },
		(*crewStage).waits,
		func(*crewStage) bool { return true },
	} {
		for i := len(rows) - 1; i >= 0 && len(rows) > room; i-- {
			if least(rows[i].stage) {
				rows = slices.Delete(rows, i, i+1)
				hidden++
			}
		}
	}
	return rows, hidden
}

// title tells how the crew is.
func (t *crewTree) title(now time.Time) string {
	var done, failed, skipped, running, waiting int
	var tokens uint64
	last := t.begin
	for _, s := range t.stages {
		switch {
		case s.state == pb.StageState_STAGE_STATE_DONE:
			done++
		case s.state == pb.StageState_STAGE_STATE_FAILED:
			failed++
		case s.state == pb.StageState_STAGE_STATE_SKIPPED:
			skipped++
		case s.running():
			running++
		default:
			waiting++
		}
		tokens += s.usage.GetInputTokens() + s.usage.GetOutputTokens()
		if s.ended.After(last) {
			last = s.ended
		}
	}
	if running+waiting > 0 {
		last = now
	}
	parts := []string{bold.Render("crew of " + counted(uint64(len(t.stages)), "stage", "stages"))}
	for _, part := range []struct {
		n     int
		word  string
		style lipgloss.Style
	}{{done, "done", green}, {failed, "failed", red}, {skipped, "skipped", yellow}, {running, "at work", cyan}, {waiting, "waiting", dim}} {
		if part.n > 0 {
			parts = append(parts, part.style.Render(fmt.Sprintf("%d %s", part.n, part.word)))
		}
	}
	return strings.Join(append(parts, tokenText(tokens), elapsedText(t.begin, last)), dim.Render(" · "))
}

// mark is a sign for how a stage is.
func (s *crewStage) mark(elapsed time.Duration) (string, lipgloss.Style) {
	switch {
	case s.state == pb.StageState_STAGE_STATE_DONE:
		return "✓", green
	case s.state == pb.StageState_STAGE_STATE_FAILED:
		return "✗", red
	case s.state == pb.StageState_STAGE_STATE_SKIPPED:
		return "⊘", yellow
	case s.running():
		frames := spinner.MiniDot.Frames
		return frames[max(0, int(elapsed/(100*time.Millisecond)))%len(frames)], cyan
	}
	return "○", dim
}

// about tells how a stage is.
func (s *crewStage) about(now time.Time) string {
	switch {
	case s.state == pb.StageState_STAGE_STATE_SKIPPED:
		return dim.Render("skipped: " + OneLine(s.reason))
	case s.waits():
		var names []string
		for _, before := range s.after {
			if before.state == pb.StageState_STAGE_STATE_WAITING {
				names = append(names, before.title)
			}
		}
		if len(names) == 0 {
			return dim.Render("waits for its turn")
		}
		return dim.Render("waits for " + strings.Join(names, ", "))
	case s.began.IsZero():
		return "could not begin"
	}
	until := s.ended
	if s.running() {
		until = now
	}
	parts := []string{counted(uint64(s.turns), "turn", "turns"), counted(uint64(s.calls), "call", "calls"),
		tokenText(s.usage.GetInputTokens() + s.usage.GetOutputTokens()), elapsedText(s.began, until)}
	if s.running() {
		parts = append(parts, cyan.Render(OneLine(s.doing)))
	}
	return strings.Join(parts, dim.Render(" · "))
}

// tokenText writes a number of tokens in a few characters.
func tokenText(n uint64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM tokens", float64(n)/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%.1fk tokens", float64(n)/1000)
	}
	return counted(n, "token", "tokens")
}

func elapsedText(from, to time.Time) string {
	return max(0, to.Sub(from)).Round(100 * time.Millisecond).String()
}
