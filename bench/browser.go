// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// browserPage has a button that changes something, among a hundred lines.
var browserPage = "<!doctype html><title>Bench</title><button id=b onclick=\"this.textContent = 'Clicked ' + ++n\">Click</button><script>let n = 0</script><ul>" +
	strings.Repeat("<li>A line with <a href=/x>a link</a>", 100) + "</ul>"

// browserFigure is the figure of the browser: a click and a snapshot of a page that is open,
// beside the same with chromedp.
func browserFigure(ctx context.Context, h *harness) ([]row, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errors.New("there is no Chromium: make chromium installs it")
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, browserPage) }))
	defer site.Close()
	policy := filepath.Join(h.dir, "browser-policy.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nrules:\n  - {name: bench, action: allow, hosts: [bench.example]}\n"), 0o600); err != nil {
		return nil, err
	}
	// The page answers for every host, as a proxy behind that of the server.
	s, err := h.startHooked(ctx, fmt.Sprintf("policy: {file: %s}\nsandbox: {proxy: %s}\n", policy, strings.TrimPrefix(site.URL, "http://")))
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if _, err := browse(ctx, s, `{"operation":"navigate","url":"http://bench.example/"}`); err != nil {
		return nil, err
	}
	text, err := browse(ctx, s, `{"operation":"snapshot"}`)
	if err != nil {
		return nil, err
	}
	ref := regexp.MustCompile(`button "Click" \[(e\d+)\]`).FindStringSubmatch(text)
	if ref == nil {
		return nil, fmt.Errorf("there is no button in %.300s", text)
	}
	ours := func(ctx context.Context) error {
		if _, err := browse(ctx, s, `{"operation":"click","ref":"`+ref[1]+`"}`); err != nil {
			return err
		}
		text, err := browse(ctx, s, `{"operation":"snapshot"}`)
		if err == nil && !strings.Contains(text, "Clicked") {
			err = fmt.Errorf("no click in %.300s", text)
		}
		return err
	}
	allocated, cancel := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox)...)
	defer cancel()
	tab, cancel := chromedp.NewContext(allocated)
	defer cancel()
	if err := chromedp.Run(tab, chromedp.Navigate(site.URL)); err != nil {
		return nil, err
	}
	direct := func(context.Context) error {
		return chromedp.Run(tab, chromedp.Click("#b", chromedp.ByID), chromedp.ActionFunc(func(ctx context.Context) error {
			var tree struct {
				Nodes []struct {
					Name struct{ Value any } `json:"name"`
				} `json:"nodes"`
			}
			// The types of cdproto refuse what newer browsers add.
			return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
		}))
	}
	const clicks = 20
	call := func(c caller) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return median(ctx, c, clicks) }
	}
	var both sides[float64]
	pair := both.entrants(call(ours), call(direct), call(direct))
	if err := interleave(ctx, h.plan.warmups, pair); err != nil {
		return nil, err
	}
	both.forget()
	if err := interleave(ctx, h.plan.rounds, pair); err != nil {
		return nil, err
	}
	return []row{both.row("a click and a snapshot of an open page, as two calls (bare: chromedp)", "µs", itself, ratioAtMost(1.3))}, nil
}

// browse performs a call of the tool browser.
func browse(ctx context.Context, s *server, input string) (text string, err error) {
	stream, err := s.client.ExecuteTool(ctx, &pb.ExecuteToolRequest{Tool: "browser", InputJson: []byte(input)})
	for err == nil {
		var response *pb.ExecuteToolResponse
		if response, err = stream.Recv(); err != nil {
			break
		}
		end := response.GetEvent().GetFinished()
		if end == nil {
			continue
		}
		if f := end.GetFailure(); f != nil {
			return "", fmt.Errorf("%s: %s", input, f.GetMessage())
		}
		for _, c := range end.GetContent() {
			text += c.GetText()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, err
}
