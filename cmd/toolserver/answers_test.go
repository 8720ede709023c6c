// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An answerer makes the calls of a model: what an answer says to call is called as
// it is written.
type answerer struct {
	t        *testing.T
	tools    pb.ToolServiceClient
	sessions pb.SessionServiceClient
	session  string
	answer   *pb.AnswerBudget // of each call; nil: of the session
	most     int              // characters of an answer
	calls    int
}

func (s *running) answerer(t *testing.T) *answerer {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &answerer{t: t, tools: pb.NewToolServiceClient(conn), sessions: pb.NewSessionServiceClient(conn), most: 50_000}
}

// end makes a call and returns how it ended.
func (a *answerer) end(tool, input string) *pb.Finished {
	a.t.Helper()
	a.calls++
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := a.tools.ExecuteTool(ctx, &pb.ExecuteToolRequest{SessionId: a.session, Tool: tool, InputJson: []byte(input), Answer: a.answer})
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err == nil && response.GetEvent().GetFinished() != nil {
			return response.GetEvent().GetFinished()
		}
	}
	a.t.Fatalf("%s %.200s: %v", tool, input, err)
	return nil
}

// call makes a call that succeeds, and returns its text, which keeps to the budget.
func (a *answerer) call(tool, input string) string {
	a.t.Helper()
	end := a.end(tool, input)
	if end.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
		a.t.Fatalf("%s %.200s: %v", tool, input, end)
	}
	text := ""
	for _, c := range end.GetContent() {
		text += c.GetText()
	}
	if len(text) > a.most {
		a.t.Errorf("%s %.200s: %d characters, more than %d", tool, input, len(text), a.most)
	}
	return text
}

var (
	goesOn     = regexp.MustCompile(`\n?\((?:there is more[^(]*?: go on with) (\w+) (\{.*\})\)\n$`)
	wasCut     = regexp.MustCompile(`\[… [^\n]*?left out: read (?:it|them) with (\w+) (\{[^\n]*?\}) …\]\n?`)
	lineGoesOn = regexp.MustCompile(` … \(the line goes on: (\w+) (\{.*\})\)$`)
)

// lines returns the lines that a call of read_file asks for, and all that its
// answers say to read.
func (a *answerer) lines(input string, first int) (lines []string) {
	a.t.Helper()
	var asked struct{ Limit int }
	if err := json.Unmarshal([]byte(input), &asked); err != nil {
		a.t.Fatal(err)
	}
	for input != "" && (asked.Limit == 0 || len(lines) < asked.Limit) {
		text := a.call("read_file", input)
		input = ""
		if found := goesOn.FindStringSubmatchIndex(text); found != nil {
			text, input = text[:found[0]]+"\n", text[found[4]:found[5]]
		}
		for line := range strings.Lines(text) {
			number, line, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if !ok && strings.HasPrefix(number, "(") {
				continue // a note
			}
			if number != strconv.Itoa(first+len(lines)) {
				a.t.Fatalf("line %.20q comes after %d of them, from %d on", number, len(lines), first)
			}
			lines = append(lines, a.whole(line))
		}
	}
	return lines
}

// whole returns a line with what was cut of it.
func (a *answerer) whole(line string) string {
	a.t.Helper()
	for {
		found := lineGoesOn.FindStringSubmatchIndex(line)
		if found == nil {
			return line
		}
		text := a.call("read_file", line[found[4]:found[5]])
		_, more, _ := strings.Cut(text, "\t")
		if i := strings.LastIndex(more, "\n(there is more"); i >= 0 {
			more = more[:i]
		}
		line = line[:found[0]] + strings.TrimSuffix(more, "\n")
	}
}

// joined returns an answer with what was left out, read as it says.
func (a *answerer) joined(text string) string {
	a.t.Helper()
	found := wasCut.FindStringSubmatchIndex(text)
	if found == nil {
		return text
	}
	var in struct{ Offset, Column, Limit int }
	call := text[found[4]:found[5]]
	if err := json.Unmarshal([]byte(call), &in); err != nil {
		a.t.Fatal(err)
	}
	first, last := text[:found[0]], text[found[1]:]
	if in.Column > 0 {
		first = strings.TrimSuffix(first, "\n")
	}
	rest := a.lines(call, in.Offset)
	if in.Limit > 0 && len(rest) != in.Limit {
		a.t.Errorf("%s: %d lines", call, len(rest))
	}
	middle := strings.Join(rest, "\n") + "\n"
	if in.Limit == 0 {
		last = "" // it is in there
	}
	return first + middle + last
}

// someText returns lines of all lengths.
func someText(seed uint64, size int) string {
	random := rand.New(rand.NewPCG(seed, 1))
	words := []string{"alpha", "beta", "\tgamma", "δέλτα", "漢字", "👍", "x = {\"y\": [1, 2]}", "…", "ghost", "(there is more)", "12\t13"}
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%d", b.Len())
		n := random.IntN(12)
		if random.IntN(200) == 0 {
			n = 300 + random.IntN(3000)
		}
		for range n {
			b.WriteString(" " + words[random.IntN(len(words))])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestAnswers reads what answers left out by the calls that they name, with the
// budgets of server, session and call: together it is everything, byte for byte.
func TestAnswers(t *testing.T) {
	config := writeFile(t, "c.yaml", "sessions:\n  mode: allow\n")
	server := startServer(t, "--config", config)
	a := server.answerer(t)
	dir := server.cmd.Dir
	text := someText(1, 300_000)
	oneLine := strings.Repeat("0123456789äöü ", 10_000) + "\n"
	for name, content := range map[string]string{"some.txt": text, "one.txt": oneLine, "diff.txt": someText(2, 120_000)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := exec.Command("sh", "-c", `git init -q . && git add diff.txt && git -c user.name=x -c user.email=x@y commit -qm first && sed -i 's/alpha/omega/; s/$/ ends/' diff.txt && git diff --no-color >../diff`)
	git.Dir = dir
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	diff, err := os.ReadFile(filepath.Join(dir, "../diff"))
	if err != nil {
		t.Fatal(err)
	}
	characters := func(n uint32) *pb.AnswerBudget {
		return &pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: n}}
	}
	tokens := func(n uint32) *pb.AnswerBudget {
		return &pb.AnswerBudget{Size: &pb.AnswerBudget_Tokens{Tokens: n}}
	}
	for _, test := range []struct {
		name          string
		session, call *pb.AnswerBudget
		most          int
	}{
		{"server", nil, nil, 50_000},
		{"session", characters(20_000), nil, 20_000},
		{"session in tokens", tokens(10_000), nil, 40_000},
		{"call", nil, tokens(2_000), 8_000},
		{"call above the session", characters(1_000), characters(400_000), 400_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := *a
			b.t, b.answer, b.most = t, test.call, test.most
			session, err := a.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Answer: test.session})
			if err != nil {
				t.Fatal(err)
			}
			if test.session != nil && session.GetSession().GetAnswer().String() != test.session.String() {
				t.Errorf("the session has %v", session.GetSession().GetAnswer())
			}
			if test.session != nil { // its workspace is its own
				b.session = session.GetSession().GetSessionId()
				copied := exec.Command("cp", "-r", dir+"/.", session.GetSession().GetWorkspace())
				if out, err := copied.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			same := func(what, got, want string) {
				t.Helper()
				if got != want {
					at := 0
					for at < min(len(got), len(want)) && got[at] == want[at] {
						at++
					}
					t.Errorf("%s: %d bytes, want %d; they differ at %d: %.80q, want %.80q", what, len(got), len(want), at, got[at:], want[at:])
				}
			}
			for name, want := range map[string]string{"some.txt": text, "one.txt": oneLine} {
				same("read_file "+name, strings.Join(b.lines(`{"path":"`+name+`"}`, 1), "\n")+"\n", want)
				same("bash "+name, b.joined(b.call("bash", `{"command":"cat `+name+`"}`)), want)
			}
			same("git_diff", b.joined(b.call("git_diff", `{}`)), string(diff))

			// All lines of grep, and each once.
			var found []string
			for input := `{"pattern":"^\\d+","path":"some.txt","max_columns":20,"limit":10000}`; input != ""; {
				page := b.call("grep", input)
				input = ""
				if more := goesOn.FindStringSubmatchIndex(page); more != nil {
					page, input = page[:more[0]]+"\n", page[more[4]:more[5]]
				}
				for line := range strings.Lines(page) {
					if number, _, ok := strings.Cut(line, ":"); ok {
						found = append(found, number)
					}
				}
			}
			var want []string
			for i := range strings.Count(text, "\n") {
				want = append(want, strconv.Itoa(i+1))
			}
			same("grep", strings.Join(found, " "), strings.Join(want, " "))
			if b.calls == 0 || b.most < 300_000 && b.calls < 12 {
				t.Errorf("%d calls got everything", b.calls)
			}
		})
	}
}

// TestAnswersOfCommands reads artifacts in all ways there are.
func TestAnswersOfCommands(t *testing.T) {
	config := writeFile(t, "c.yaml", "sessions:\n  mode: allow\nanswers:\n  default: 500 tokens\n  max: 3000\n")
	a := startServer(t, "--config", config).answerer(t)
	a.most = 2000
	info, err := a.tools.GetServerInfo(t.Context(), &pb.GetServerInfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if l := info.GetLimits(); l.GetDefaultAnswerCharacters() != 2000 || l.GetMinAnswerCharacters() != 1000 || l.GetMaxAnswerCharacters() != 3000 || l.GetCharactersPerToken() != 4 {
		t.Errorf("limits %v", l)
	}

	// What is masked stays masked, and what is drawn for a terminal is text.
	token := "ghp_" + strings.Repeat("aB3dE6gH9", 4)
	text := a.call("bash", `{"command":"seq 1 500; echo the token `+token+`; printf '\\033[31mred\\033[0m\\n'; seq 502 1000"}`)
	found := wasCut.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("nothing is left out of %q", text)
	}
	var in struct{ Path string }
	if err := json.Unmarshal([]byte(found[2]), &in); err != nil {
		t.Fatal(err)
	}
	whole := a.joined(text)
	if strings.Contains(whole, token) || !strings.Contains(whole, "\n500\nthe token [masked: github token]\nred\n502\n") {
		t.Errorf("%q", whole)
	}
	for _, test := range []struct{ tool, input, want string }{
		{"read_file", `{"path":"%s","offset":501,"limit":2}`, "501\tthe token [masked: github token]\n502\tred\n"},
		{"read_file", `{"path":"%s","offset":-1}`, "1001\t1000\n"},
		{"read_file", `{"path":"%s","offset":5000}`, "(the file has 1001 lines: line 5000 is beyond its end)\n"},
		{"read_file", `{"operations":[{"path":"%s","offset":7,"limit":1}]}`, "== 1: %s ==\n7\t7\n"},
		{"grep", `{"path":"%s","pattern":"token|red"}`, "%s\n501:the token [masked: github token]\n502:red\n"},
		{"grep", `{"path":"artifact:","pattern":"^77$"}`, "%s\n77:77\n"},
		{"grep", `{"path":"%s","pattern":"no such"}`, "(nothing matches in 1 file)\n"},
		{"list_dir", `{"path":"artifact:"}`, "%s\t"},
		{"list_dir", `{"path":"%s"}`, "%s\t"},
	} {
		input, want := strings.ReplaceAll(test.input, "%s", in.Path), strings.ReplaceAll(test.want, "%s", in.Path)
		if got := a.call(test.tool, input); !strings.HasPrefix(got, want) {
			t.Errorf("%s %s: %q, want %q", test.tool, input, got, want)
		}
	}

	// Bytes that are no text are refused with what they are, and names that end
	// with NUL are text.
	binary := a.call("bash", `{"command":"printf '\\177ELF\\0\\377\\376'; head -c 5000 /dev/zero"}`)
	found = wasCut.FindStringSubmatch(binary)
	if found == nil {
		t.Fatalf("nothing is left out of %q", binary)
	}
	if end := a.end("read_file", found[2]); end.GetFailure().GetCode() != "binary_file" || !strings.Contains(end.GetFailure().GetMessage(), "ELF") {
		t.Errorf("a binary artifact: %v", end)
	}
	names := a.call("bash", `{"command":"for i in $(seq 1000); do printf 'name %d\\0' $i; done"}`)
	if found = wasCut.FindStringSubmatch(names); found == nil {
		t.Fatalf("nothing is left out of %q", names)
	}
	if more := a.call("read_file", found[2]); !strings.Contains(more, "␀name ") {
		t.Errorf("names: %q", more)
	}

	// A value that is out of range is refused with the range.
	for _, test := range []struct {
		answer *pb.AnswerBudget
		want   string
	}{
		{&pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: 999}}, "999 characters is out of range: want 1000 to 3000"},
		{&pb.AnswerBudget{Size: &pb.AnswerBudget_Characters{Characters: 3001}}, "want 1000 to 3000"},
		{&pb.AnswerBudget{Size: &pb.AnswerBudget_Tokens{Tokens: 1 << 31}}, "want 250 to 750"},
		{&pb.AnswerBudget{Size: &pb.AnswerBudget_Tokens{}}, "characters or tokens"},
		{&pb.AnswerBudget{}, "characters or tokens"},
	} {
		stream, err := a.tools.ExecuteTool(t.Context(), &pb.ExecuteToolRequest{Tool: "list_dir", Answer: test.answer})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "InvalidArgument") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("a call with %v: %v, want %q", test.answer, err, test.want)
		}
		if _, err := a.sessions.CreateSession(t.Context(), &pb.CreateSessionRequest{Answer: test.answer}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("a session with %v: %v, want %q", test.answer, err, test.want)
		}
	}
}
