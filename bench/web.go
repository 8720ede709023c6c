// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const (
	webPage   = 100 << 10 // bytes of a page
	webAtOnce = 16
)

// webFigure is the figure of web_fetch: a page of 100 KiB, beside a client without checks
// that converts it with the same libraries.
func webFigure(ctx context.Context, h *harness) ([]row, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as toolserver has it: converting makes garbage above all
	page := newWebPage()
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	}))
	defer pages.Close()
	s, err := h.startHooked(ctx, fmt.Sprintf("sessions: {mode: allow, max_mode: allow}\nweb: {addresses: [%q], per_host: %d}\n", pages.Listener.Addr(), webAtOnce))
	if err != nil {
		return nil, err
	}
	defer s.stop()
	request := &pb.ExecuteToolRequest{Tool: "web_fetch", InputJson: work.JSON(map[string]any{"url": pages.URL})}
	subject := func(ctx context.Context) error {
		shown := false
		err := follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
			for _, c := range message.GetEvent().GetFinished().GetContent() {
				shown = shown || strings.Contains(c.GetText(), "paragraph 0 ")
			}
			return nil
		})
		if err == nil && !shown {
			err = fmt.Errorf("the page is not shown")
		}
		return err
	}
	bare, err := bareFetch(pages.URL)
	if err != nil {
		return nil, err
	}
	round := func(call caller) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) { return together(ctx, call, h.plan.fetches, webAtOnce) }
	}
	var fetches sides[float64]
	group := fetches.entrants(round(subject), round(bare), round(bare))
	if err := interleave(ctx, h.plan.warmups, group); err != nil {
		return nil, err
	}
	fetches.forget()
	if err := interleave(ctx, h.plan.rounds, group); err != nil {
		return nil, err
	}
	return []row{fetches.row(fmt.Sprintf("web_fetch of 100 KiB, %d at once (bare: a client with the same conversion)", webAtOnce), "µs", itself, ratioAtMost(1.5))}, nil
}

// together returns how long one of n calls takes, in microseconds, with so many at once.
func together(ctx context.Context, call caller, n, atOnce int) (float64, error) {
	var wait sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, atOnce)
	begin := time.Now()
	for i := range atOnce {
		wait.Go(func() {
			for errs[i] == nil && next.Add(1) <= int64(n) {
				errs[i] = call(ctx)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin)) / 1e3 / float64(n), nil
}

// bareFetch returns what fetches a page and makes Markdown of its main content.
func bareFetch(address string) (caller, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: webAtOnce}}
	markdown := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithNewlineBehavior(table.NewlineBehaviorPreserve), table.WithHeaderPromotion(true))))
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		article, err := readability.FromReader(response.Body, at)
		if err != nil {
			return err
		}
		text, err := markdown.ConvertNode(article.Node)
		if err == nil && !strings.Contains(string(text), "paragraph 0 ") {
			err = fmt.Errorf("the page is not converted")
		}
		return err
	}, nil
}

// newWebPage returns a page as documentation has them.
func newWebPage() []byte {
	var b strings.Builder
	b.WriteString("<!doctype html><html><head><title>Page</title></head><body><nav>")
	for i := range 40 {
		fmt.Fprintf(&b, `<a href="/nav/%d">Entry %[1]d</a> `, i)
	}
	b.WriteString("</nav><main><h1>Page</h1>")
	for i := 0; b.Len() < webPage-200; i++ {
		fmt.Fprintf(&b, `<h2 id="s%d">Section %[1]d</h2><p>This is paragraph %[1]d of a page, with a <a href="/link/%[1]d">link</a>, some <b>bold</b> words, and <code>code()</code> in it. It goes on for a while, so that it reads as text does.</p><ul><li>one</li><li>two</li></ul><table><tr><th>Key</th><th>Value</th></tr><tr><td>a</td><td>%[1]d</td></tr></table><pre><code>x := %[1]d
</code></pre>`, i)
	}
	b.WriteString("</main><footer>End</footer></body></html>")
	return []byte(b.String())
}
