// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/tools/toolstest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// TestInputSpellings: all spellings of one input get one verdict and one digest, for every tool
// that is part of the server.
func TestInputSpellings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(rules, []byte(`version: 1
rules:
  - {name: some, action: deny, tools: ["*"], when: 'has(input.path) && input.path.contains("a")'}
  - {name: others, action: ask, tools: ["*"], when: 'has(input.content) && size(input.content) > 3'}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveWhole(t, dir, allowing(dir, "policy: {file: "+rules+"}\n"+
		"models: [{name: main, format: anthropic, model: scripted, url: 'http://127.0.0.1:1', key_env: TEST_MODEL_KEY}]\nagents: {list: [{name: worker, prompt: You work.}]}\n"), zap.NewNop())
	policies := pb.NewPolicyServiceClient(s.conn)
	rng := rand.New(rand.NewPCG(3, 4))
	var unjudged []string
	for _, tool := range builtinTools() {
		name := tool.Spec().Name
		check := func(input string) string {
			response, err := policies.CheckCall(t.Context(), &pb.CheckCallRequest{Tool: name, InputJson: []byte(input)})
			if err != nil {
				return ""
			}
			return fmt.Sprint(response.GetVerdict().GetAction(), response.GetVerdict().GetRule(), len(response.GetEffects()), response.GetDigest())
		}
		judged := false
		for _, input := range toolstest.Inputs(rng, tool, 2) {
			want := check(input)
			if want == "" {
				continue // the schema cannot tell everything
			}
			judged = true
			for _, spelling := range toolstest.Spellings(rng, tool, input) {
				if got := check(spelling); got != want {
					t.Errorf("%s %.200s\ngets %s, and as\n%.200s\nit gets %s", name, input, want, spelling, got)
				}
			}
		}
		if !judged {
			unjudged = append(unjudged, name)
		}
	}
	// What the machine may lack is judged nowhere; the packages of these tools hold their spellings together.
	lacking := []string{"powershell", "browser", "web_search", "code"}
	if unjudged = slices.DeleteFunc(unjudged, func(name string) bool { return slices.Contains(lacking, name) }); len(unjudged) > 0 {
		t.Errorf("nothing was judged of %v", unjudged)
	}
}
