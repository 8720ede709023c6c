// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	json "github.com/go-json-experiment/json"

	"github.com/toolserver/toolserver/internal/tools"
)

// The largest image of a page, in pixels.
const maxHeight = 8000

// Screenshot returns an image of what is seen of the page, of all of it, or of an element,
// as PNG.
func (t *Tab) Screenshot(ctx context.Context, ref string, full bool) (png []byte, width, height int, err error) {
	err = t.do(ctx, func(ctx context.Context) error {
		shot := page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithCaptureBeyondViewport(full || ref != "")
		width, height = viewWidth, viewHeight
		switch {
		case ref != "":
			e, err := t.element(ref)
			if err != nil {
				return err
			}
			if err := dom.ScrollIntoViewIfNeeded().WithBackendNodeID(e.node).Do(ctx); err != nil {
				return t.gone(ref, err)
			}
			quads, err := dom.GetContentQuads().WithBackendNodeID(e.node).Do(ctx)
			if err != nil || len(quads) == 0 {
				return t.gone(ref, err)
			}
			_, _, _, _, view, _, err := page.GetLayoutMetrics().Do(ctx)
			if err != nil {
				return err
			}
			q := quads[0]
			left, top := min(q[0], q[2], q[4], q[6]), min(q[1], q[3], q[5], q[7])
			w, h := max(q[0], q[2], q[4], q[6])-left, max(q[1], q[3], q[5], q[7])-top
			shot = shot.WithClip(&page.Viewport{X: left + float64(view.PageX), Y: top + float64(view.PageY), Width: w, Height: min(h, maxHeight), Scale: 1})
			width, height = int(w), int(min(h, maxHeight))
		case full:
			_, _, _, _, _, size, err := page.GetLayoutMetrics().Do(ctx)
			if err != nil {
				return err
			}
			shot = shot.WithClip(&page.Viewport{Width: min(size.Width, maxHeight), Height: min(size.Height, maxHeight), Scale: 1})
			width, height = int(min(size.Width, maxHeight)), int(min(size.Height, maxHeight))
		}
		png, err = shot.Do(ctx)
		return err
	})
	return png, width, height, err
}

// PDF returns the page as it is printed.
func (t *Tab) PDF(ctx context.Context) (pdf []byte, err error) {
	err = t.do(ctx, func(ctx context.Context) error {
		var answer struct {
			Data string `json:"data"`
		}
		if err := cdp.Execute(ctx, page.CommandPrintToPDF, page.PrintToPDF().WithPrintBackground(true), &answer); err != nil {
			return err
		}
		pdf, err = base64.StdEncoding.DecodeString(answer.Data)
		return err
	})
	return pdf, err
}

// Text returns the text of the page, or of an element.
func (t *Tab) Text(ctx context.Context, ref string) (text, title string, err error) {
	var node cdp.BackendNodeID
	if ref != "" {
		e, err := t.element(ref)
		if err != nil {
			return "", "", err
		}
		node = e.node
	}
	err = t.do(ctx, func(ctx context.Context) error {
		if ref != "" {
			if err := t.call(ctx, node, `function() { return String(this.innerText === undefined ? this.textContent : this.innerText).slice(0, 2000000) }`, &text); err != nil {
				return t.gone(ref, err)
			}
			return nil
		}
		var both []string
		if err := t.value(ctx, `[document.title, document.body ? document.body.innerText.slice(0, 2000000) : ""]`, &both); err != nil || len(both) != 2 {
			return err
		}
		title, text = both[0], both[1]
		return nil
	})
	return text, title, err
}

// Title returns the title of the page.
func (t *Tab) Title(ctx context.Context) (title string) {
	t.b.mu.Lock()
	title, known := t.title, t.title != "" && t.titleAt == t.moves
	t.title = "" // the next call asks again
	t.b.mu.Unlock()
	if known {
		return oneLine(title)
	}
	t.do(ctx, func(ctx context.Context) error { return t.value(ctx, "document.title", &title) })
	return oneLine(title)
}

// value evaluates an expression of ours.
func (t *Tab) value(ctx context.Context, expression string, result any) error {
	object, failed, err := runtime.Evaluate(expression).WithReturnByValue(true).Do(ctx)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return errors.New(oneLine(exceptionText(failed)))
	}
	return json.Unmarshal([]byte(object.Value), result)
}

// Evaluate runs a script in the page and returns its value as JSON, or as text.
func (t *Tab) Evaluate(ctx context.Context, script string) (value string, err error) {
	if t.State().Dialog != nil {
		return "", t.explain(ctx, errDialog)
	}
	err = t.do(ctx, func(ctx context.Context) error {
		object, failed, err := runtime.Evaluate(script).WithReturnByValue(true).WithAwaitPromise(true).WithReplMode(true).WithUserGesture(true).Do(ctx)
		switch {
		case err != nil:
			return err
		case failed != nil:
			return tools.Failf("script_failed", "The script failed: %s", clip(exceptionText(failed)))
		}
		value = objectText(object)
		return nil
	})
	if err != nil {
		return "", err
	}
	return value, t.settle(ctx)
}

// WaitFor returns when the page shows a text, or no longer does.
func (t *Tab) WaitFor(ctx context.Context, text string, gone bool, long time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	for {
		var found bool
		quotedText, err := json.Marshal(text)
		if err != nil {
			return err
		}
		// The page itself tells of a change, and now and then it is asked all the same.
		err = t.do(limited, func(ctx context.Context) error {
			object, failed, err := runtime.Evaluate(fmt.Sprintf(waitScript, quotedText, gone)).WithAwaitPromise(true).WithReturnByValue(true).Do(ctx)
			if err != nil || failed != nil {
				return errors.Join(err, errors.New("the page changed"))
			}
			return json.Unmarshal([]byte(object.Value), &found)
		})
		if err == nil && found {
			return nil
		}
		if failure, ok := errors.AsType[*tools.Failure](err); ok && ctx.Err() == nil && limited.Err() == nil {
			return failure
		}
		if limited.Err() != nil || t.b.isGone() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			what := "does not show"
			if gone {
				what = "still shows"
			}
			return tools.Failf("not_shown", "After %s the page %s %s. Take a snapshot to see what there is.", long, what, quoted(oneLine(text)))
		}
		t.b.wait(limited, func() bool { return len(t.loading) == 0 || t.broken() != nil })
	}
}

const waitScript = `new Promise(done => {
	const text = %s, gone = %v;
	const holds = () => (document.body ? document.body.innerText : "").includes(text) !== gone;
	if (holds()) return done(true);
	const end = value => { observer.disconnect(); clearTimeout(timer); done(value) };
	const observer = new MutationObserver(() => { if (holds()) end(true) });
	observer.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
	const timer = setTimeout(() => end(holds()), 1000);
})`

// WaitLoaded returns when the page has loaded or, with idle, has no request under way.
func (t *Tab) WaitLoaded(ctx context.Context, idle bool, long time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	err := t.b.wait(limited, func() bool { return len(t.loading) == 0 && (!idle || len(t.inFlight) == 0) || t.broken() != nil })
	if ctx.Err() == nil && errors.Is(err, errNoAnswer) {
		return tools.Failf("still_loading", "After %s the page still loads. What there is can be used: take a snapshot.", long)
	}
	return err
}

// Console returns what the page wrote to its console; Requests what it asked for.
func (t *Tab) Console() []Message {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return slices.Clone(t.console)
}

// Requests returns what the page asked for, and what came of it.
func (t *Tab) Requests() []Request {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	list := make([]Request, len(t.requests))
	for i, r := range t.requests {
		list[i] = *r
	}
	return list
}

// Refused returns what was refused to pages during the call that runs.
func (b *Browser) Refused() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, why := range b.refused {
		if !slices.Contains(list, why) {
			list = append(list, why)
		}
	}
	slices.Sort(list)
	return list
}
