// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func text(s string) *pb.Content { return &pb.Content{Kind: &pb.Content_Text{Text: s}} }

func wrote(stream pb.OutputStream, data string) *pb.Event {
	return &pb.Event{Kind: &pb.Event_Output{Output: &pb.Output{Stream: stream, Data: []byte(data)}}}
}

func progressEvent(second int, p *pb.Progress) *pb.Event {
	return &pb.Event{Time: timestamppb.New(time.Unix(int64(second), 0)), Kind: &pb.Event_Progress{Progress: p}}
}

func finished(f *pb.Finished) *pb.Event {
	return &pb.Event{Kind: &pb.Event_Finished{Finished: f}}
}

func runs(argv ...string) *pb.Effect {
	return &pb.Effect{Kind: &pb.Effect_Runs{Runs: &pb.ProgramEffect{Argv: argv}}}
}

func TestPlainView(t *testing.T) {
	const stdout, stderr = pb.OutputStream_OUTPUT_STREAM_STDOUT, pb.OutputStream_OUTPUT_STREAM_STDERR
	image := &pb.Content{Kind: &pb.Content_Image{Image: &pb.Image{MediaType: "image/png", Data: []byte("\x89PNG")}}}
	for name, test := range map[string]struct {
		raw      bool
		events   []*pb.Event
		out, err string
	}{
		"output stays as it is": {
			events: []*pb.Event{wrote(stdout, "caf\xc3"), wrote(stdout, "\xa9\x1b[1m\r\n"), wrote(stderr, "\x00\xff"), wrote(stdout, "end")},
			out:    "caf\xc3\xa9\x1b[1m\r\nend", err: "\x00\xff",
		},
		"a result begins a line": {
			events: []*pb.Event{wrote(stdout, "half"), finished(&pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("result")}})},
			out:    "half\nresult\n",
		},
		"output is not shown again": {
			events: []*pb.Event{wrote(stdout, "\x1b[1mout\x1b[m\n"), wrote(stderr, "err\n"), finished(&pb.Finished{
				Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("out\nerr\n"), text("=> 3")},
			})},
			out: "\x1b[1mout\x1b[m\n=> 3\n", err: "err\n",
		},
		"nor is that of a command": {
			events: []*pb.Event{wrote(stdout, "out\n"), finished(&pb.Finished{
				Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("cut"), text("a remark")}, Exit: &pb.ExitStatus{},
			})},
			out: "out\na remark\n",
		},
		"progress is a line a second": {
			events: []*pb.Event{
				progressEvent(1, &pb.Progress{Message: "copying", Done: 512, Total: 2048, Unit: "bytes"}),
				progressEvent(1, &pb.Progress{Message: "too soon"}),
				progressEvent(2, &pb.Progress{Message: "copying\x1b", Done: 3, Unit: "files"}),
			},
			err: "copying 25% (512B of 2.0KiB)\ncopying^[ 3 files\n",
		},
		"what was produced is kept apart from what went wrong": {
			events: []*pb.Event{finished(&pb.Finished{
				Outcome: pb.Outcome_OUTCOME_TIMED_OUT, Content: []*pb.Content{text("some"), text("It took too long.")},
				Failure: &pb.Failure{Message: "It took too long."}, Truncation: &pb.Truncation{TotalBytes: 4096, KeptBytes: 4},
			})},
			out: "some\n", err: "(the result was cut: 4B of 4.0KiB are left)\ntimed out: It took too long.\n",
		},
		"every kind of content": {
			events: []*pb.Event{finished(&pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{
				text("text\n"), {Kind: &pb.Content_Json{Json: `{"a": 1}`}}, image,
				{Kind: &pb.Content_Artifact{Artifact: &pb.ArtifactLink{Uri: "artifact:1", Name: "log", MediaType: "text/plain", Size: 5}}},
			}})},
			out: "text\n{\"a\": 1}\n[image image/png, 4B]\n", err: "[log artifact:1, text/plain, 5B]\n",
		},
		"of a raw image only the bytes": {
			raw:    true,
			events: []*pb.Event{finished(&pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("a"), image}})},
			out:    "\x89PNG", err: "a\n",
		},
		"raw without an image": {
			raw:    true,
			events: []*pb.Event{finished(&pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("a"), text("b\n")}})},
			out:    "ab\n",
		},
		"what was missed": {
			events: []*pb.Event{{Sequence: 90, Kind: &pb.Event_Skipped{Skipped: &pb.Skipped{First: 5}}}},
			err:    "(events 5 to 90 are no longer kept)\n",
		},
		"what waits for a person": {
			events: []*pb.Event{
				{Kind: &pb.Event_ApprovalRequested{ApprovalRequested: &pb.ApprovalRequested{Approval: &pb.Approval{
					ApprovalId: "abcdefghijkl", Tool: "bash\x1b", Verdict: &pb.Verdict{Action: pb.Action_ACTION_ASK},
					Effects: []*pb.JudgedEffect{
						{Effect: runs("ls"), Verdict: &pb.Verdict{Action: pb.Action_ACTION_ALLOW}},
						{Effect: runs("git", "push", "a\u202eb"), Verdict: &pb.Verdict{Action: pb.Action_ACTION_ASK}},
					}, MoreEffects: 3,
				}}}},
				{Kind: &pb.Event_ApprovalResolved{ApprovalResolved: &pb.ApprovalResolved{Answer: &pb.ApprovalAnswer{
					Kind: pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS, By: "ann", Comment: "no\x07", Tier: &pb.TrustTier{Label: "git push *"},
				}}}},
			},
			err: "waits for approval abcdefgh: bash^[ runs git push 'a<U+202E>b' and 3 more\nalways denied (git push *) by ann: no^G\n",
		},
		"agents": {
			events: []*pb.Event{
				nested(&pb.Nested{Kind: &pb.Nested_Begun{Begun: &pb.LoopBegun{Description: "Look\nat it"}}}),
				nested(&pb.Nested{Kind: &pb.Nested_Text{Text: "I lo"}}), nested(&pb.Nested{Kind: &pb.Nested_Text{Text: "ok.\x1b\nThen"}}),
				inner("agent", `{"prompt":"x"}`, nested(&pb.Nested{Kind: &pb.Nested_Begun{Begun: &pb.LoopBegun{Description: "x"}}})),
				inner("agent", "", inner("read_file", `{"path":"a"}`, &pb.Event{Kind: &pb.Event_Finished{Finished: &pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("a\nb")}}}})),
				nested(&pb.Nested{Kind: &pb.Nested_Call{Call: &pb.NestedCall{Tool: "grep", Input: "{", Error: "It is broken."}}}),
				nested(&pb.Nested{Kind: &pb.Nested_Finished{Finished: &pb.LoopFinished{Outcome: "turn_limit", Usage: &pb.LoopUsage{Turns: 1, Calls: 2, InputTokens: 3, OutputTokens: 4, Dollars: 0.5}}}}),
			},
			err: "scout begins: Look at it\n  | I look.^[\n  | Then\n  agent {\"prompt\":\"x\"}\n    scout begins: x\n      read_file {\"path\":\"a\"}\n        succeeded: a b\n" +
				"  grep {\n    was not run: It is broken.\nscout ends: turn limit, after 1 turn, 2 calls, 3 tokens read and 4 written, 0.5000 dollars\n",
		},
		"a call of an agent of a runtime": {
			events: []*pb.Event{
				inner("list_dir", "", &pb.Event{Kind: &pb.Event_Accepted{Accepted: &pb.Accepted{}}}),
				inner("list_dir", "", &pb.Event{Kind: &pb.Event_Finished{Finished: &pb.Finished{Outcome: pb.Outcome_OUTCOME_SUCCEEDED, Content: []*pb.Content{text("a.txt")}}}}),
			},
			err: "  list_dir\n    succeeded: a.txt\n",
		},
		"what finished repeats": {
			events: []*pb.Event{{Kind: &pb.Event_PartialResult{PartialResult: &pb.PartialResult{Content: []*pb.Content{text("a")}}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func(name string) *os.File {
				f, err := os.Create(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			v := &textView{stdout: NewStream(open("stdout")), stderr: NewStream(open("stderr")), raw: test.raw}
			for _, event := range test.events {
				if err := v.show(event); err != nil {
					t.Fatal(err)
				}
			}
			v.close()
			for name, want := range map[string]string{"stdout": test.out, "stderr": test.err} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %q", name, got, err, want)
				}
			}
		})
	}
}

// nested returns an event of the loop of an agent.
func nested(n *pb.Nested) *pb.Event {
	n.ChildLoopId, n.Agent = "loop", "scout"
	return &pb.Event{Kind: &pb.Event_Nested{Nested: n}}
}

// inner returns an event of a call of an agent.
func inner(tool, input string, event *pb.Event) *pb.Event {
	return nested(&pb.Nested{Kind: &pb.Nested_Call{Call: &pb.NestedCall{Tool: tool, Input: input, Event: event}}})
}
