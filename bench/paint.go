// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"
)

// paints is how often the console is loaded.
const paints = 9

// paint returns how many milliseconds it took until the console had its first text, as Chromium itself
// tells. The cache is that of a browser which was there before, but for the first time.
func (e *edgeServer) paint(ctx context.Context) ([]float64, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errors.New("there is no Chromium: make chromium installs it")
	}
	allocated, cancel := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox)...)
	defer cancel()
	silent := func(string, ...any) {} // the types of cdproto do not know what newer browsers add
	tab, cancel := chromedp.NewContext(allocated, chromedp.WithErrorf(silent), chromedp.WithLogf(silent))
	defer cancel()
	var all []float64
	for range paints {
		var at float64
		if err := chromedp.Run(tab, chromedp.Navigate(e.url+"/console/"),
			chromedp.Poll(`document.querySelector(".link.open") && performance.getEntriesByName("first-contentful-paint").length > 0`, nil, chromedp.WithPollingTimeout(time.Minute)),
			chromedp.Evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &at), chromedp.Navigate("about:blank")); err != nil {
			return nil, err
		}
		all = append(all, at)
	}
	return all, nil
}
