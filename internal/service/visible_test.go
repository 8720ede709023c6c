// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"

	"github.com/toolserver/toolserver/internal/output"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// hostile is text that does not look like what it is: it turns direction, has
// characters without a shape, and commands a terminal.
const hostile = "safe\u202egpj.exe\u2066 zero\u200bwidth \x1b[2J over\rwritten \u009b8m"

// wantVisible fails if somebody who looks at a message would not see a part of
// it; and unless it has the spelling of hostile so many times.
func wantVisible(t *testing.T, m proto.Message, times int) {
	t.Helper()
	spelled := 0
	err := protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		text, ok := p.Index(-1).Value.Interface().(string)
		if !ok {
			return nil
		}
		if output.VisibleText(text) != text {
			t.Errorf("%s is %q", p.Path, text)
		}
		if strings.Contains(text, `safe<U+202E>gpj.exe<U+2066> zero<U+200B>width ^[[2J over^Mwritten <U+009B>8m`) {
			spelled++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if spelled != times {
		t.Errorf("it is spelled out %d times, want %d: %v", spelled, times, m)
	}
}

// TestVisibleEffects proves that paths, words of commands, tiers, rights and
// previews are sent as people can read them, whatever client shows them.
func TestVisibleEffects(t *testing.T) {
	s := serve(t)
	c := s.dial("")

	word := "'safe\u202egpj.exe\u2066 zero\u200bwidth '$'\\e[2J over\\rwritten ''\u009b8m'"
	checked, err := c.CheckCall(timeout(t), &pb.CheckCallRequest{Command: "touch " + word + "$'\\nline'; rm " + word})
	if err != nil {
		t.Fatal(err)
	}
	wantVisible(t, checked, 4)
	for _, judged := range checked.GetEffects() {
		for _, line := range append(judged.GetEffect().GetRuns().GetArgv(), judged.GetEffect().GetWrites().GetPath()) {
			if strings.ContainsAny(line, "\n\t") {
				t.Errorf("%q is more than one line", line)
			}
		}
	}

	request := asJSON("write_file", `{"path":"notes.txt","content":"\tif admin \u202e{\r\n`+"safe\u202egpj.exe\u2066 zero\u200bwidth \\u001b[2J over\\rwritten \u009b8m"+`"}`)
	request.Purpose = hostile
	stream, _ := c.begin(request)
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if asked := response.GetEvent().GetApprovalRequested().GetApproval(); asked != nil {
			wantVisible(t, asked, 2)
			if text := asked.GetPreview().GetText(); !strings.Contains(text, "+\tif admin <U+202E>{\r\n") {
				t.Errorf("ends of lines and tabs do not stay: %q", text)
			}
			return
		}
	}
}
