// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode"

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

// checkRows fails if rows are too wide, or have anything a terminal would obey.
func checkRows(t *testing.T, rows []row, width int) {
	t.Helper()
	for _, r := range rows {
		text := r.String()
		if columns(text) > width {
			t.Errorf("%d columns, at most %d: %q", columns(text), width, text)
		}
		for _, c := range text {
			if c != ' ' && !unicode.IsPrint(c) {
				t.Errorf("%U in %q", c, text)
			}
		}
	}
}

func TestJailText(t *testing.T) {
	for _, test := range []struct {
		rights *pb.Rights
		want   string
	}{
		{nil, ""},
		{&pb.Rights{}, "what this program does not know"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_READING, Network: pb.Network_NETWORK_NONE, Read: []string{"/srv/\x1b[2J"}},
			"writes: a temporary directory of the call; reads: workspace, home, system, /srv/" + visible("\x1b[2J") + "; network: none"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_NAMED, Network: pb.Network_NETWORK_NONE, Write: []string{".", "/srv/x"}, Hosts: []string{"example.com:443", "a.example:0"}},
			"writes: workspace, /srv/x, home, temporary directory; reads: workspace, home, system; network: example.com:443, a.example"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_SESSION, Network: pb.Network_NETWORK_LOOPBACK},
			"writes: workspace, home, temporary directory, caches; reads: workspace, home, system; network: loopback"},
		{&pb.Rights{Confinement: pb.Confinement_CONFINEMENT_UNCONFINED, Network: pb.Network_NETWORK_OPEN}, "writes: everything; reads: everything; network: open"},
	} {
		if got := jailText(test.rights); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestCardsAreSafe(t *testing.T) {
	for name, a := range map[string]*pb.Approval{"call": hostileApproval(), "question": hostileQuestion(), "empty": {}} {
		for _, width := range []int{2, 10, 20, 80, 1000} {
			checkRows(t, wrapAll(newCard(a).rows(), width), width)
		}
		checkRows(t, []row{rowOf(plain, approvalText(a)), rowOf(plain, name)}, 1<<20)
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
	for _, r := range wrapAll(c.preview, 40) {
		if text := r.String(); !strings.HasPrefix(text, "│ ") && !strings.HasPrefix(text, "┆ ") {
			t.Errorf("no margin: %q", text)
		}
	}
}

func TestDiffColours(t *testing.T) {
	c := newCard(&pb.Approval{Preview: &pb.Preview{Kind: pb.PreviewKind_PREVIEW_KIND_DIFF, Text: "@@ -1 +1 @@\n-a\n+b\n c\n"}})
	var got []string
	for _, r := range c.preview {
		got = append(got, r.ansi())
	}
	want := "\x1b[2m│ \x1b[0m\x1b[36m@@ -1 +1 @@\x1b[0m|\x1b[2m│ \x1b[0m\x1b[31m-a\x1b[0m|\x1b[2m│ \x1b[0m\x1b[32m+b\x1b[0m|\x1b[2m│ \x1b[0m c"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %q\nwant %q", strings.Join(got, "|"), want)
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text, hang string
		width      int
		want       string
	}{
		{"short", "", 10, "short"},
		{"one two three four", "", 9, "one two |three |four"},
		{"one two three four", "> ", 9, "one two |> three |> four"},
		{"abcdefghij", "", 4, "abcd|efgh|ij"},
		{"a bcdefghij", "", 6, "a bcde|fghij"},
		{"漢字漢字", "", 3, "漢|字|漢|字"},
		{"ab", "", 0, "a|b"},
		{"漢字", ">", 1, "漢|字"},
		{"", "", 5, ""},
	} {
		var got []string
		for _, r := range (row{[]span{{test.text, plain}}, test.hang}).wrap(test.width) {
			got = append(got, r.String())
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.width, strings.Join(got, "|"), test.want)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("one two three", "  ", 7)
	f.Add("漢字 漢字", "┆ ", 3)
	f.Fuzz(func(t *testing.T, text, hang string, width int) {
		if width < 2 || width > 200 || len(hang) > 20 {
			t.Skip()
		}
		text, hang = visible(text), visible(hang)
		half := strings.IndexFunc(text, unicode.IsSpace) + 1
		var joined strings.Builder
		for i, r := range (row{[]span{{text[:half], bold}, {text[half:], plain}}, hang}).wrap(width) {
			if r.columns() > width {
				t.Errorf("%d columns, at most %d: %q", r.columns(), width, r)
			}
			line := r.String()
			if i > 0 && r.spans[0].look == dim {
				line = strings.TrimPrefix(line, r.spans[0].text)
			}
			joined.WriteString(line)
		}
		if joined.String() != text {
			t.Errorf("%q became %q", text, joined.String())
		}
	})
}
