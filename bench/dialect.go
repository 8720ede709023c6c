// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/catalog"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// dialectFigure is the figure of what models see: how much less an index costs than
// definitions, what it takes to find calls in text, and to find tools. The last two run
// inside the harness, as the server does it.
func dialectFigure(ctx context.Context, h *harness) ([]row, error) {
	share, err := h.indexShare(ctx)
	if err != nil {
		return nil, err
	}
	rows := []row{single("index and tool_search, of the tokens of 200 definitions", "", share, valueAtMost(0.1))}
	var cpu []float64
	text, err := modelText()
	if err != nil {
		return nil, err
	}
	for range 3 + h.plan.rounds {
		took, err := parseText(text)
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, took.Seconds()*1e3)
	}
	rows = append(rows, row{Name: "1 MiB of text with 200 calls, in pieces of 20 bytes: CPU", Unit: "ms", Toolserver: spreadOf(cpu[3:]), Rounds: len(cpu) - 3}.judge(valueAtMost(30)))
	times, err := searchTools(ctx, 2000, 100*h.plan.rounds)
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	return append(rows,
		single("tool_search over 2,000 tools: p50", "ms", quantile(times, 0.5), target{}),
		single("tool_search over 2,000 tools: p99", "ms", quantile(times, 0.99), valueAtMost(2))), nil
}

// indexShare returns what an index of 200 tools and the definition of tool_search cost,
// of what all definitions do. The tools are those of the server as it is shipped, some
// more than once.
func (h *harness) indexShare(ctx context.Context) (float64, error) {
	s, err := h.startHooked(ctx, "")
	if err != nil {
		return 0, err
	}
	defer s.stop()
	list, err := pb.NewToolServiceClient(s.conn).ListTools(ctx, &pb.ListToolsRequest{View: pb.ToolView_TOOL_VIEW_FULL})
	if err != nil {
		return 0, err
	}
	var real []*pb.Tool
	for _, tool := range list.GetTools() {
		if tool.GetCategory() != "bench" && !strings.HasPrefix(tool.GetName(), "bench_") {
			real = append(real, tool)
		}
	}
	openai, err := toolcall.Named("openai")
	if err != nil {
		return 0, err
	}
	var all, search []toolcall.Tool
	var index strings.Builder
	for i := range 200 {
		tool := real[i%len(real)]
		definition := toolcall.Tool{Name: fmt.Sprintf("s%d__%s", i, tool.GetName()), Description: tool.GetDescription(), Schema: []byte(tool.GetInputSchema())}
		all = append(all, definition)
		fmt.Fprintf(&index, "%s: %s\n", definition.Name, tool.GetSummary())
		if tool.GetName() == "tool_search" && search == nil {
			search = []toolcall.Tool{definition}
		}
	}
	cost := func(text []byte) float64 { return float64(openai.Family().Tokens(string(text))) }
	return (cost([]byte(index.String())) + cost(openai.Tools(search, toolcall.Options{}))) / cost(openai.Tools(all, toolcall.Options{})), nil
}

// modelText returns 1 MiB of text with 200 calls in ten dialects.
func modelText() (text []byte, err error) {
	dialects := []string{"xml", "hermes", "qwen", "deepseek", "minimax", "glm", "llama", "mistral-text", "react", "fenced"}
	content := strings.Repeat("func main() {\\n\\tfmt.Println(\\\"it's\\\")\\n}\\n", 50)
	words := strings.Repeat("Now I look at the next file, which \"main.go\" names, and at `go.mod`; it's the 3rd.\n", 37)
	for i := range 200 {
		d, err := toolcall.Named(dialects[i%len(dialects)])
		if err != nil {
			return nil, err
		}
		call := toolcall.Call{Tool: "write_file", Input: json.RawMessage(`{"path":"src/main.go","content":"` + content + `"}`)}
		text = append(append(append(text, words...), d.Calls(nil, "", []toolcall.Call{call})...), '\n')
	}
	return append(text, make([]byte, max(0, 1<<20-len(text)))...), nil
}

// parseText returns the time of the processor that it takes to find the calls in text
// that comes in pieces of 20 bytes.
func parseText(text []byte) (time.Duration, error) {
	runtime.GC() // of what was before
	before, err := cpuTime(os.Getpid())
	if err != nil {
		return 0, err
	}
	p, err := toolcall.NewParser(toolcall.AnyText, nil)
	if err != nil {
		return 0, err
	}
	found := 0
	for piece := range slices.Chunk(text, 20) {
		for _, p := range p.Write(piece) {
			if _, ok := p.(toolcall.Call); ok {
				found++
			}
		}
	}
	p.Close()
	after, err := cpuTime(os.Getpid())
	if found != 200 {
		return 0, fmt.Errorf("%d calls were found in %d bytes, of 200", found, len(text))
	}
	return after - before, err
}

// many is a catalog of tools that are all there.
type many struct{ registry tools.Registry }

func (m *many) All() ([]*tools.Entry, uint64) { return m.registry.All() }
func (m *many) Has(*tools.Entry) bool         { return true }
func (m *many) Activate(...string)            {}

// named is a tool under another name.
type named struct {
	tools.Tool
	spec tools.Spec
}

func (n named) Spec() tools.Spec { return n.spec }

// searchTools returns how long searches over so many tools take, in milliseconds. The
// first, which makes the index, counts with the others.
func searchTools(ctx context.Context, size, searches int) ([]float64, error) {
	verbs := strings.Fields("create list get update delete search send fetch merge close open assign comment download upload rename copy move share archive")
	nouns := strings.Fields("issue repository file branch message channel user invoice ticket page document event calendar contact label release build job alert dashboard metric query table row column")
	shape := tools.New(tools.Spec{}, nil, func(context.Context, tools.Env, commandInput, tools.Sink) (tools.Result, error) {
		return tools.Result{}, nil
	})
	random := rand.New(rand.NewPCG(1, 1))
	word := func(list []string) string { return list[random.IntN(len(list))] }
	m := new(many)
	var all []tools.Tool
	for i := range size {
		verb, noun := word(verbs), word(nouns)
		var text strings.Builder
		for range 60 {
			text.WriteString(word(verbs) + " the " + word(nouns) + " ")
		}
		all = append(all, named{shape, tools.Spec{
			Name: fmt.Sprintf("%s_%s_%d", verb, noun, i), Summary: verb + " a " + noun, Description: text.String(), Category: noun, Level: tools.ReadOnly,
		}})
	}
	if err := m.registry.Replace("builtin", all...); err != nil {
		return nil, err
	}
	search := catalog.ToolSearch(nil)
	times := make([]float64, searches)
	for i := range times {
		input := fmt.Appendf(nil, `{"query":"%s a %s of my %s"}`, word(verbs), word(nouns), word(nouns))
		begin := time.Now()
		call, err := search.Decode(&tools.Env{Catalog: m}, input)
		if err != nil {
			return nil, err
		}
		if _, err := call.Run(ctx, tools.Rights{}, nil); err != nil {
			return nil, err
		}
		times[i] = time.Since(begin).Seconds() * 1e3
	}
	return times, nil
}
