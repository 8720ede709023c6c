// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/service"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestInputsAreTold: who looks at an execution sees what its tool was given, in one form
// for all spellings and without secrets, unless it is very long.
func TestInputsAreTold(t *testing.T) {
	s := serve(t, func(c *service.Config) {
		c.Executor.Mask = func(text string) string { return strings.ReplaceAll(text, "hunter2", "****") }
	})
	c := s.dial("")
	for id, want := range map[string]struct{ tool, sent, shown string }{
		"spelt":   {"read_file", `{"limit": 5,  "file_path":"a.txt"}`, `{"limit":5,"path":"a.txt"}`},
		"secret":  {"read_file", `{"path":"hunter2.txt"}`, `{"path":"****.txt"}`},
		"refused": {"read_file", `{"pathh" : "hunter2"}`, `{"pathh":"****"}`},
		"no tool": {"no_such_tool", `{"b":1, "a":2}`, `{"a":2,"b":1}`},
		"long":    {"read_file", `{"path":"` + strings.Repeat("a", 256<<10) + `"}`, ""},
	} {
		request := asJSON(want.tool, want.sent)
		request.CallId = proto.String(id)
		c.run(request)
		got, err := c.GetExecution(timeout(t), &pb.GetExecutionRequest{CallId: id})
		if err != nil {
			t.Fatal(err)
		}
		if shown := got.GetExecution().GetInputJson(); shown != want.shown {
			t.Errorf("%s: %.100q is told of the input, want %q", id, shown, want.shown)
		}
	}
	list, err := c.ListExecutions(timeout(t), &pb.ListExecutionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.GetExecutions() {
		if x.GetInputJson() != "" {
			t.Errorf("a list tells the input %q", x.GetInputJson())
		}
	}
}
