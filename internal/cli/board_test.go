// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

var boardNow = time.Unix(1_700_000_000, 0)

// testBoard returns a board that was told changes, and the answers it sends.
func testBoard(t *testing.T, waiting ...*pb.Approval) (b *board, answers *[]string) {
	t.Helper()
	answers = new([]string)
	b = newBoard(func(request *pb.ResolveApprovalRequest) error {
		*answers = append(*answers, requestText(t, request))
		return nil
	})
	b.now = boardNow
	b.Update(snapshot(waiting...))
	b.Update(boardAwake{})
	return b, answers
}

// keyNames are keys that are no characters.
var keyNames = map[rune]rune{'↵': tea.KeyEnter, '⎋': tea.KeyEscape, '↓': tea.KeyDown, '↑': tea.KeyUp, '⌫': tea.KeyBackspace}

func keyOf(r rune) tea.KeyPressMsg {
	if code, special := keyNames[r]; special {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: r, Text: string(r)}
}

// typeKeys presses keys one by one, and sends what they answer. A person is slower
// than the board.
func (b *board) typeKeys(keys string) {
	for _, r := range keys {
		b.Update(boardAwake{})
		if request := b.press(keyOf(r)); request != nil {
			b.resolve(request)
		}
	}
}

// callApproval is an approval of a call that would read a file.
func callApproval(id, path string) *pb.Approval {
	verdict := &pb.Verdict{Action: pb.Action_ACTION_ASK, Rule: "rule look", Reason: "A person has to look."}
	return &pb.Approval{
		ApprovalId: id, Tool: "read_file", SessionId: "default", Principal: "ann", Purpose: "to know", Digest: "digest of " + id, Verdict: verdict,
		Effects: []*pb.JudgedEffect{{Effect: &pb.Effect{Kind: &pb.Effect_Reads{Reads: &pb.PathEffect{Path: path}}}, Verdict: verdict}},
		Preview: &pb.Preview{Kind: pb.PreviewKind_PREVIEW_KIND_TEXT, Text: path},
		Tiers:   []*pb.TrustTier{{TierId: "1", Label: "this exact call"}, {TierId: "2", Label: "reading " + path}},

		CreateTime: timestamppb.New(boardNow.Add(-5 * time.Second)),
		ExpireTime: timestamppb.New(boardNow.Add(115 * time.Second)),
	}
}

func questionApproval(id string) *pb.Approval {
	return &pb.Approval{
		ApprovalId: id, Tool: "ask_user", SessionId: "default", Principal: "ann", Digest: "digest of " + id,
		Questions: []*pb.Question{
			{Text: "Which?", Options: []*pb.QuestionOption{{Label: "one"}, {Label: "two"}}, OptionsOnly: true},
			{Text: "Why?"},
		},
	}
}

func snapshot(list ...*pb.Approval) *pb.WatchApprovalsResponse {
	return &pb.WatchApprovalsResponse{Change: &pb.WatchApprovalsResponse_Snapshot{Snapshot: &pb.PendingApprovals{Approvals: list}}}
}

func ended(id string) *pb.WatchApprovalsResponse {
	return &pb.WatchApprovalsResponse{Change: &pb.WatchApprovalsResponse_Ended{Ended: &pb.ApprovalEnd{
		ApprovalId: id, Answer: &pb.ApprovalAnswer{Kind: pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE, By: "bob"},
	}}}
}

// screenOf returns the board as text.
func screenOf(t *testing.T, b *board, width, height int) string {
	t.Helper()
	b.Update(tea.WindowSizeMsg{Width: width, Height: height})
	lines := b.lines()
	if len(lines) > height {
		t.Errorf("%d lines, at most %d", len(lines), height)
	}
	checkLines(t, lines, width)
	for i, line := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(line), " ")
	}
	return strings.Join(lines, "\n")
}

func TestBoardLooks(t *testing.T) {
	b, _ := testBoard(t, callApproval("aaaaaaaaaa", "notes.txt"), questionApproval("bbbbbbbbbb"))
	got := screenOf(t, b, 80, 24)
	want := ` toolserver approvals: 2 waiting
> aaaaaaaa    5s old  1m55s left  read_file reads notes.txt  ann/default
  bbbbbbbb`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, want := range []string{
		"\nread_file needs approval by rule look\n  reason   A person has to look.\n  purpose  to know\n  session  default of ann\n",
		"\n  ask      reads notes.txt (rule look)\n│ notes.txt\nalways and never, for the rest of the session, may mean:\n  1  this exact call\n  2  reading notes.txt\n",
		"\ny yes  a always  n no  d never  c comment  space more  j/k select  q quit",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not show %q:\n%s", want, got)
		}
	}
	if b, _ := testBoard(t); !strings.Contains(screenOf(t, b, 80, 24), "nothing waits") {
		t.Error("an empty board does not say so")
	}
}

// TestBoardKeys presses keys: a space between them is drawn.
func TestBoardKeys(t *testing.T) {
	for name, test := range map[string]struct {
		keys string
		want string // the answer
		then string // what the screen shows after it
	}{
		"yes":                  {"y", "aaaaaaaaaa ALLOW_ONCE", "…"},
		"no":                   {"n", "aaaaaaaaaa DENY_ONCE", ""},
		"always, by number":    {"a2", "aaaaaaaaaa ALLOW_ALWAYS 2", ""},
		"always, by arrow":     {"a↓↵", "aaaaaaaaaa ALLOW_ALWAYS 2", ""},
		"always, the first":    {"a↓↑↑↵", "aaaaaaaaaa ALLOW_ALWAYS 1", ""},
		"never":                {"d1", "aaaaaaaaaa DENY_ALWAYS 1", ""},
		"a tier there is not":  {"a9", "", "Always allow"},
		"not always after all": {"a⎋", "", "y yes"},
		"the next":             {"jy", "", "answer 1 of 2:"},
		"past the end":         {"jjjky", "aaaaaaaaaa ALLOW_ONCE", ""},
		"a comment":            {"cbe quick!⌫↵n", "aaaaaaaaaa DENY_ONCE (be quick)", ""},
		"no comment":           {"cbe quick⎋n", "aaaaaaaaaa DENY_ONCE", ""},
		"keys in a comment":    {"cyyq↵", "", "comment  yyq"},
		"twice":                {"yn", "aaaaaaaaaa ALLOW_ONCE", ""},
		"answers":              {"jyx↵⌫2↵be  cause↵", "bbbbbbbbbb ANSWERED [two] [] be  cause", ""},
		"no answer":            {"jy7↵", "", `"7" is no answer`},
		"decline":              {"jn", "bbbbbbbbbb DENY_ONCE", ""},
		"never to questions":   {"jd", "", "for one time only"},
		"other keys":           {"xz1⎋", "", "y yes"},
	} {
		t.Run(name, func(t *testing.T) {
			b, answers := testBoard(t, callApproval("aaaaaaaaaa", "notes.txt"), questionApproval("bbbbbbbbbb"))
			for _, r := range test.keys {
				screenOf(t, b, 80, 24)
				b.typeKeys(string(r))
			}
			if got := strings.Join(*answers, "; "); got != test.want {
				t.Errorf("answered %q, want %q", got, test.want)
			}
			if got := screenOf(t, b, 80, 24); !strings.Contains(got, test.then) {
				t.Errorf("it does not show %q:\n%s", test.then, got)
			}
		})
	}
}

func requestText(t *testing.T, r *pb.ResolveApprovalRequest) string {
	t.Helper()
	if r.GetDigest() != "digest of "+r.GetApprovalId() {
		t.Errorf("the digest is %q", r.GetDigest())
	}
	text := r.GetApprovalId() + " " + strings.TrimPrefix(r.GetKind().String(), "ANSWER_KIND_")
	if r.GetTierId() != "" {
		text += " " + r.GetTierId()
	}
	if r.GetComment() != "" {
		text += " (" + r.GetComment() + ")"
	}
	for _, a := range r.GetAnswers() {
		text += fmt.Sprintf(" %v", a.GetChosen())
		if a.GetText() != "" {
			text += " " + a.GetText()
		}
	}
	return text
}

// TestBoardStays proves that a key never answers something that came up under
// the finger: what others answered stays until the person moves on.
func TestBoardStays(t *testing.T) {
	b, _ := testBoard(t, callApproval("aaaaaaaaaa", "first"), callApproval("bbbbbbbbbb", "second"), callApproval("cccccccccc", "third"))
	b.press(keyOf('a'))
	b.change(ended("aaaaaaaaaa"))
	for _, code := range "ynad1↵" {
		if request := b.press(keyOf(code)); request != nil {
			t.Fatalf("%c answers %v", code, request)
		}
	}
	if got := screenOf(t, b, 80, 24); !strings.Contains(got, "! allowed by bob") || !strings.Contains(got, "reads first") {
		t.Errorf("it does not say what happened:\n%s", got)
	}
	b.press(keyOf('j'))
	if b.shown.GetApprovalId() != "bbbbbbbbbb" {
		t.Errorf("then comes %s", b.shown.GetApprovalId())
	}
	// What was answered here gives way to the next.
	if b.press(keyOf('y')) == nil {
		t.Fatal("it is not answered")
	}
	b.change(ended("bbbbbbbbbb"))
	if b.shown.GetApprovalId() != "cccccccccc" || b.over != "" {
		t.Errorf("then comes %s", b.shown.GetApprovalId())
	}
	// A refusal leaves it, to be answered again.
	b.press(keyOf('y'))
	b.failed("cccccccccc", status.Error(codes.PermissionDenied, "not you\x1b"))
	if got := screenOf(t, b, 80, 24); !strings.Contains(got, "cccccccc: not you^[") {
		t.Errorf("it does not say why:\n%s", got)
	}
	if b.press(keyOf('n')) == nil {
		t.Error("it cannot be answered again")
	}
	b.change(snapshot())
	if b.shown != nil {
		t.Errorf("%v is shown, and nothing waits", b.shown)
	}
}

// TestBoardUnderTheFinger presses a key just when something comes up by itself.
func TestBoardUnderTheFinger(t *testing.T) {
	b, answers := testBoard(t)
	b.Update(snapshot(callApproval("aaaaaaaaaa", "first"), callApproval("bbbbbbbbbb", "second")))
	if _, todo := b.Update(keyOf('y')); todo != nil {
		t.Error("what just came up is answered")
	}
	b.typeKeys("y")
	b.Update(ended("aaaaaaaaaa"))
	if _, todo := b.Update(keyOf('y')); todo != nil || b.shown.GetApprovalId() != "bbbbbbbbbb" {
		t.Error("a second press answers the next")
	}
	if b.typeKeys("n"); strings.Join(*answers, "; ") != "aaaaaaaaaa ALLOW_ONCE; bbbbbbbbbb DENY_ONCE" {
		t.Errorf("answered %v", *answers)
	}
}

// TestBoardPaste proves that text which is pasted into a comment answers nothing,
// whether the terminal marks it or not.
func TestBoardPaste(t *testing.T) {
	for name, messages := range map[string][]tea.Msg{
		"not marked": {keyOf('c'), keyOf('o'), keyOf('↵'), keyOf('y'), keyOf('a'), keyOf('1')},
		"marked":     {keyOf('c'), tea.PasteMsg{Content: "one\ry\n"}, keyOf('↵')},
		"no line":    {tea.PasteMsg{Content: "y"}},
	} {
		b, _ := testBoard(t, callApproval("aaaaaaaaaa", "notes.txt"))
		for _, m := range messages {
			b.Update(m)
		}
		if b.shown.GetApprovalId() != "aaaaaaaaaa" || b.sent || b.asking != forNothing {
			t.Errorf("%s: %+v", name, b)
		}
		if b.Update(boardAwake{}); b.press(keyOf('y')) == nil {
			t.Errorf("%s: later it cannot be answered", name)
		}
	}
}

// TestBoardScrolls proves that a long preview can be seen to its end, and that
// the board says so while it is not.
func TestBoardScrolls(t *testing.T) {
	a := callApproval("aaaaaaaaaa", "notes.txt")
	a.Preview.Text = strings.Repeat("harmless\n", 500) + strings.Repeat("wide ", 100) + "\nrm -rf /"
	a.Preview.HiddenBytes, a.MoreEffects = 4096, 7
	for _, size := range [][2]int{{80, 24}, {40, 12}, {200, 60}} {
		b, _ := testBoard(t, a)
		seen := false
		for range 200 {
			got := screenOf(t, b, size[0], size[1])
			if !strings.Contains(got, " ! NOT SHOWN: 7 effects and 4.0KiB") {
				t.Fatalf("it does not say that something is hidden:\n%s", got)
			}
			if strings.Contains(got, "│ rm -rf /") {
				seen = true
			}
			if b.card.AtBottom() {
				if strings.Contains(got, "MORE LINES") {
					t.Errorf("there is no more:\n%s", got)
				}
				break
			}
			if !strings.Contains(got, "MORE LINES: space") {
				t.Fatalf("it does not say that there is more:\n%s", got)
			}
			b.press(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
		}
		if !seen {
			t.Errorf("%v: the end was never seen", size)
		}
		b.press(tea.KeyPressMsg{Code: tea.KeyHome})
		if b.press(tea.KeyPressMsg{Code: tea.KeyPgUp}); !b.card.AtTop() {
			t.Errorf("the top is at line %d", b.card.YOffset())
		}
	}
}

// TestBoardFits draws hostile approvals on screens of all sizes.
func TestBoardFits(t *testing.T) {
	for _, keys := range []string{"", "a", "c" + strings.Repeat("漢", 50), "j", "jy", "jytyped"} {
		other := hostileQuestion()
		other.ApprovalId += "2"
		b, _ := testBoard(t, hostileApproval(), other, callApproval("aaaa", "x"))
		b.typeKeys(keys)
		for width := 2; width < 100; width += 7 {
			for height := 1; height < 30; height++ {
				screenOf(t, b, width, height)
			}
		}
	}
}

func FuzzBoard(f *testing.F) {
	f.Add("text\x1b[2J", "jya1c↵⎋q", 80, 24)
	f.Add("text", "c0000\u218e\u202e\u2000", 65, 24)
	f.Fuzz(func(t *testing.T, text, keys string, width, height int) {
		if width < 2 || width > 300 || height < 1 || height > 100 {
			t.Skip()
		}
		a := callApproval("aaaaaaaaaa", text)
		a.Purpose, a.Preview.Text, a.Tool = text, text, text
		q := questionApproval("bbbbbbbbbb")
		q.Questions[0].Text, q.Questions[0].Options[0].Label = text, text
		b, _ := testBoard(t, a, q)
		screenOf(t, b, width, height)
		b.typeKeys(keys)
		screenOf(t, b, width, height)
		b.Update(ended("aaaaaaaaaa"))
		screenOf(t, b, width, height)
	})
}
