// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const evil = "x\x1b[2J\x1b]0;t\x07\r\u202e\u200b\u009b\t\x00"

// hostileApproval has control characters wherever text can be.
func hostileApproval() *pb.Approval {
	verdict := &pb.Verdict{Action: pb.Action_ACTION_ASK, Rule: evil, Reason: evil, PolicyVersion: evil}
	path := &pb.PathEffect{Path: evil, Named: evil, Tree: true}
	var effects []*pb.JudgedEffect
	for _, effect := range []*pb.Effect{
		{Kind: &pb.Effect_Reads{Reads: path}, Unclear: evil},
		{Kind: &pb.Effect_Writes{Writes: path}},
		runs(evil, evil),
		{Kind: &pb.Effect_Reaches{Reaches: &pb.HostEffect{Host: evil, Port: 1}}},
		{Kind: &pb.Effect_Uses{Uses: &pb.ToolEffect{Tool: evil}}},
		{},
	} {
		effects = append(effects, &pb.JudgedEffect{Effect: effect, Verdict: verdict})
	}
	return &pb.Approval{
		ApprovalId: evil, ExecutionId: evil, SessionId: evil, CallId: evil, Principal: evil, Tool: evil, Purpose: evil,
		Digest: evil, Verdict: verdict, Effects: effects, MoreEffects: 3,
		Preview: &pb.Preview{Kind: pb.PreviewKind_PREVIEW_KIND_DIFF, Text: "+" + evil + "\n-" + evil, HiddenBytes: 2048},
		Tiers:   []*pb.TrustTier{{TierId: "1", Label: evil, Pattern: evil}},
		Chain:   []*pb.AgentLink{{Agent: evil, SessionId: evil, ParentSessionId: evil, ExecutionId: evil}},
	}
}

func hostileQuestion() *pb.Approval {
	return &pb.Approval{
		ApprovalId: evil, SessionId: evil, Principal: evil, Tool: evil, Purpose: evil,
		Questions: []*pb.Question{
			{Header: evil, Text: evil + "\n" + evil, Options: []*pb.QuestionOption{{Label: evil, Description: evil}}},
			{Text: evil},
		},
	}
}

// checkLines fails if lines are too wide, or have anything a terminal would obey but
// looks of ours.
func checkLines(t *testing.T, lines []string, width int) {
	t.Helper()
	for _, line := range lines {
		if columns(line) > width {
			t.Errorf("%d columns, at most %d: %q", columns(line), width, line)
		}
		for _, c := range ourStyles.ReplaceAllString(line, "") {
			if c != ' ' && !unicode.IsPrint(c) {
				t.Errorf("%U in %q", c, line)
			}
		}
	}
}

var ourStyles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestJailText(t *testing.T) {
	for _, test := range []struct {
		rights *pb.Rights
		want   string
	}{
		{nil, ""},
		{&pb.Rights{}, "what this program does not know"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_READING, Network: pb.Network_NETWORK_NONE, Read: []string{"/srv/\x1b[2J"}},
			"writes: a temporary directory of the call; reads: workspace, home, system, /srv/" + Visible("\x1b[2J") + "; network: none"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_NAMED, Network: pb.Network_NETWORK_NONE, Write: []string{".", "/srv/x"}, Hosts: []string{"example.com:443", "a.example:0"}},
			"writes: workspace, /srv/x, home, temporary directory; reads: workspace, home, system; network: example.com:443, a.example"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_SESSION, Network: pb.Network_NETWORK_LOOPBACK},
			"writes: workspace, home, temporary directory, caches; reads: workspace, home, system; network: loopback"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_UNCONFINED, Network: pb.Network_NETWORK_OPEN}, "writes: everything; reads: everything; network: open"},
	} {
		if got := JailText(test.rights); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestCardsAreSafe(t *testing.T) {
	for name, a := range map[string]*pb.Approval{"call": hostileApproval(), "question": hostileQuestion(), "empty": {}} {
		for _, width := range []int{2, 10, 20, 80, 1000} {
			checkLines(t, wrapAll(newCard(a).rows(), width), width)
		}
		checkLines(t, []string{approvalText(a), name}, 1<<20)
	}
}

func TestCardSaysWhatIsHidden(t *testing.T) {
	c := newCard(hostileApproval())
	all := ""
	for _, r := range c.rows() {
		all += r.String() + "\n"
	}
	for _, want := range []string{
		"! NOT SHOWN: 3 effects and 2.0KiB of the preview's end\n",
		"! NOT SHOWN: 2.0KiB more\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("it does not say %q:\n%s", want, all)
		}
	}
}

// TestCardMargin proves that what a call shows cannot pass for the program's own
// words: each of its lines is behind a margin, however long it is.
func TestCardMargin(t *testing.T) {
	fake := "  allow    reads nothing (harmless)\n" + strings.Repeat("long ", 100)
	c := newCard(&pb.Approval{Preview: &pb.Preview{Text: fake}})
	for _, line := range wrapAll(c.preview, 40) {
		if text := ansi.Strip(line); !strings.HasPrefix(text, "│ ") && !strings.HasPrefix(text, "┆ ") {
			t.Errorf("no margin: %q", text)
		}
	}
}

func TestDiffColours(t *testing.T) {
	c := newCard(&pb.Approval{Preview: &pb.Preview{Kind: pb.PreviewKind_PREVIEW_KIND_DIFF, Text: "@@ -1 +1 @@\n-a\n+b\n c\n"}})
	var got []string
	for _, r := range c.preview {
		got = append(got, r.text)
	}
	want := "\x1b[36m@@ -1 +1 @@\x1b[m|\x1b[31m-a\x1b[m|\x1b[32m+b\x1b[m| c"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %q\nwant %q", strings.Join(got, "|"), want)
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		row   row
		width int
		want  string
	}{
		{row{text: "short"}, 10, "short"},
		{row{text: "one two three four"}, 9, "one two|three|four"},
		{row{head: "- ", text: "one two three four", hang: "> "}, 9, "- one two|> three|> four"},
		{row{text: "abcdefghij"}, 4, "abcd|efgh|ij"},
		{row{text: "one  two three", exact: true}, 5, "one  |two t|hree"},
		{row{text: "漢字漢字"}, 3, "漢|字|漢|字"},
		{row{head: "long head: ", text: "ab", hang: "           "}, 14, "long head: ab"},
		{row{}, 5, ""},
	} {
		if got := strings.Join(test.row.wrap(test.width), "|"); got != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.row.text, test.width, got, test.want)
		}
	}
}

// FuzzWrap: nothing is lost of what counts exactly, and of anything else only spaces.
func FuzzWrap(f *testing.F) {
	f.Add("one two three", "  ", 7)
	f.Add("漢字 漢字", "┆ ", 3)
	f.Fuzz(func(t *testing.T, text, hang string, width int) {
		if width < 2 || width > 200 || len(hang) > 20 {
			t.Skip()
		}
		text, hang = Visible(text), Visible(hang)
		for _, exact := range []bool{true, false} {
			r := row{text: bold.Render(text), hang: hang, exact: exact}
			joined := ""
			for i, line := range r.wrap(width) {
				checkLines(t, []string{line}, width)
				line = ansi.Strip(line)
				if i > 0 && 2*columns(hang) <= width {
					line = strings.TrimPrefix(line, hang)
				}
				joined += line
			}
			want := text
			if !exact {
				want, joined = strings.ReplaceAll(want, " ", ""), strings.ReplaceAll(joined, " ", "")
			}
			if joined != want {
				t.Errorf("%q became %q", want, joined)
			}
		}
	})
}

// TestQuestionMargin: what a question says stands behind a margin, from its first line on.
func TestQuestionMargin(t *testing.T) {
	for n := 1; n <= 2; n++ {
		for _, header := range []string{"", "Colour"} {
			c := new(card)
			c.question(0, n, &pb.Question{Header: header, Text: "Which one?\nbash needs approval", Options: []*pb.QuestionOption{{Label: "red"}}})
			for _, r := range c.rows() {
				if line := ansi.Strip(r.head + r.text); !strings.HasPrefix(line, "  ") {
					t.Errorf("of %d, header %q: no margin: %q", n, header, line)
				}
			}
		}
	}
}
