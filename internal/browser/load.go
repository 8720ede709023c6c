// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/toolserver/toolserver/internal/tools"
)

// How long a page has.
const (
	answerTime = 15 * time.Second       // to do what it is asked
	quietTime  = 500 * time.Millisecond // for requests that an action began
	loadTime   = 10 * time.Second       // to load what an action has it load
	aliveTime  = 3 * time.Second        // to show that it answers, before it is left

	listenTime  = 5 * time.Second // of a command, to listen
	listenPause = 200 * time.Millisecond
)

var (
	errDialog   = errors.New("a dialog is open")
	errCrashed  = errors.New("the page crashed")
	errTabGone  = errors.New("the tab was closed")
	errNoAnswer = errors.New("the page does not answer")
)

// Current returns the tab that calls work on, which is opened if there is none.
func (b *Browser) Current(ctx context.Context) (*Tab, error) {
	b.mu.Lock()
	t := b.current
	b.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return b.Open(ctx)
}

// Tabs returns the tabs, and which of them is the current one.
func (b *Browser) Tabs() (tabs []*Tab, current *Tab) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.tabs), b.current
}

// Open opens a tab and makes it the current one.
func (b *Browser) Open(ctx context.Context) (*Tab, error) {
	b.mu.Lock()
	n := len(b.tabs)
	b.mu.Unlock()
	if most := b.set.config.Tabs; n >= most {
		return nil, tools.Failf("too_many_tabs", "There are %d tabs, which is all a browser may have. Close one that is no longer needed.", most)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	defer cancel()
	create := target.CreateTarget("about:blank").WithNewWindow(true) // there may be no window
	create.BrowserContextID = b.context
	id, err := create.Do(cdp.WithExecutor(ctx, executor{b.conn, ""}))
	if err != nil {
		return nil, err
	}
	var t *Tab
	err = b.wait(ctx, func() bool {
		at := slices.IndexFunc(b.tabs, func(t *Tab) bool { return t.target == id })
		if at >= 0 {
			t = b.tabs[at]
			b.current = t
		}
		return at >= 0
	})
	if err != nil {
		return nil, err
	}
	return t, t.begun(ctx)
}

// begun returns when the process of a new tab tells what happens in it. The browser itself takes
// commands before that, and the page that a tab was sent to would be loaded unheard.
func (t *Tab) begun(ctx context.Context) error {
	return page.Enable().Do(cdp.WithExecutor(ctx, executor{t.b.conn, t.session}))
}

// Choose makes a tab the current one.
func (b *Browser) Choose(id string) (*Tab, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, t := range b.tabs {
		if t.ID == id {
			b.current = t
			return t, nil
		}
		ids = append(ids, t.ID)
	}
	return nil, tools.Failf("no_such_tab", "There is no tab %s. There are: %s.", id, strings.Join(ids, ", "))
}

// CloseTab closes a tab.
func (b *Browser) CloseTab(ctx context.Context, t *Tab) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	defer cancel()
	if err := target.CloseTarget(t.target).Do(cdp.WithExecutor(ctx, executor{b.conn, ""})); err != nil {
		return err
	}
	return b.wait(ctx, func() bool { return !slices.Contains(b.tabs, t) })
}

// Replace opens a tab in the place of one that no longer answers.
func (b *Browser) Replace(ctx context.Context, t *Tab) (*Tab, error) {
	b.mu.Lock()
	b.tabs = slices.DeleteFunc(b.tabs, func(other *Tab) bool { return other == t })
	b.mu.Unlock()
	defer b.conn.post("", target.CommandCloseTarget, target.CloseTarget(t.target))
	return b.Open(ctx)
}

// A State is how a page stands.
type State struct {
	Tab, URL string
	Status   int64
	Loading  bool
	Crashed  bool
	Dialog   *Dialog
}

// State returns how the page stands.
func (t *Tab) State() State {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	return State{t.ID, t.url, t.status, len(t.loading) > 0, t.crashed, t.dialog}
}

// Place returns the address of the current page; "" where there is none.
func (b *Browser) Place() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		return ""
	}
	return b.current.url
}

// broken returns what keeps the page from doing anything. The browser is locked.
func (t *Tab) broken() error {
	switch {
	case t.dialog != nil:
		return errDialog
	case t.crashed:
		return errCrashed
	case !slices.Contains(t.b.tabs, t):
		return errTabGone
	}
	return nil
}

// do has the page do something, as long as it can: until a dialog opens, it crashes, or
// does not answer in time.
func (t *Tab) do(ctx context.Context, f func(ctx context.Context) error) error {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(answerTime, func() { cancel(errNoAnswer) })
	defer timer.Stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		var why error
		if t.b.wait(limited, func() bool { why = t.broken(); return why != nil }) == nil {
			cancel(why)
		}
	}()
	err := f(cdp.WithExecutor(limited, executor{t.b.conn, t.session}))
	cancel(nil)
	<-watched
	return t.explain(ctx, err)
}

// explain says what a model can do about an error of a page.
func (t *Tab) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	switch {
	case errors.Is(err, errDialog):
		d := t.State().Dialog
		if d == nil {
			return err
		}
		return tools.Failf("dialog_open", "The page shows a dialog and waits: %s %s. Answer it with operation dialog and accept true or false.", d.Type, quoted(oneLine(d.Text)))
	case errors.Is(err, errCrashed):
		return tools.Failf("page_crashed", "The page of %s crashed, most likely by using too much memory. Navigate it to another address, or close it.", t.ID)
	case errors.Is(err, errTabGone):
		return tools.Failf("tab_closed", "The tab %s was closed. Choose another with operation tabs.", t.ID)
	case errors.Is(err, errNoAnswer):
		return tools.Failf("page_unresponsive", "The page of %s did not answer for %s: a script of it may run without end. Navigate to another address, or close the tab.", t.ID, answerTime)
	}
	return err
}

// settle waits for what an action began: a page that loads, or requests that end soon.
func (t *Tab) settle(ctx context.Context) error {
	err := t.do(ctx, func(ctx context.Context) error {
		object, _, err := runtime.Evaluate("new Promise(done => setTimeout(() => done(document.title), 0))").WithAwaitPromise(true).WithReturnByValue(true).Do(ctx)
		if err == nil {
			t.b.mu.Lock()
			t.title, t.titleAt = objectText(object), t.moves
			t.b.mu.Unlock()
		}
		return err
	})
	if failure, ok := errors.AsType[*tools.Failure](err); ok && failure.Code == "dialog_open" {
		return nil // which is told with the state of the page
	}
	if err != nil && ctx.Err() == nil && t.b.isGone() {
		return err
	}
	quiet, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	t.b.wait(quiet, func() bool { return len(t.inFlight) == 0 || t.broken() != nil })
	load, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	t.b.wait(load, func() bool { return len(t.loading) == 0 || t.broken() != nil })
	return ctx.Err()
}

// Navigate opens an address, and returns when it is loaded or that has taken so long. A command
// that was just started has a moment until it listens.
func (t *Tab) Navigate(ctx context.Context, address string, long time.Duration) error {
	soon, cancel := context.WithTimeout(ctx, min(listenTime, long))
	defer cancel()
	for {
		err := t.navigate(ctx, address, long)
		if failure, ok := errors.AsType[*tools.Failure](err); !ok || failure.Code != notListening {
			return err
		}
		select {
		case <-time.After(listenPause):
		case <-soon.Done():
			return err
		}
	}
}

func (t *Tab) navigate(ctx context.Context, address string, long time.Duration) error {
	return t.load(ctx, long, func(ctx context.Context) error {
		var answer struct {
			Loader cdp.LoaderID `json:"loaderId"`
			Failed string       `json:"errorText"`
		}
		if err := cdp.Execute(ctx, page.CommandNavigate, page.Navigate(address), &answer); err != nil {
			return err
		}
		if answer.Failed != "" {
			return t.notLoaded(address, answer.Failed)
		}
		if answer.Loader == "" { // it stays on the page
			return nil
		}
		return t.b.wait(ctx, func() bool { return t.loader == answer.Loader })
	})
}

// Answers reports whether the page does anything it is asked, within a moment.
func (t *Tab) Answers(ctx context.Context) bool {
	if state := t.State(); state.Dialog != nil || state.Crashed {
		return true // both end when the page is left
	}
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	return t.do(ctx, func(ctx context.Context) error { return t.value(ctx, "0", new(int)) }) == nil
}

// Reload loads the page again.
func (t *Tab) Reload(ctx context.Context, long time.Duration) error {
	return t.load(ctx, long, func(ctx context.Context) error { return t.move(ctx, page.Reload()) })
}

// Go goes back or forward by so many pages.
func (t *Tab) Go(ctx context.Context, by int64, long time.Duration) error {
	return t.load(ctx, long, func(ctx context.Context) error {
		current, entries, err := page.GetNavigationHistory().Do(ctx)
		if err != nil {
			return err
		}
		at := current + by
		if at < 0 || at >= int64(len(entries)) {
			return tools.Failf("no_such_page", "There is no page to go to: this one is number %d of %d in the history of the tab.", current+1, len(entries))
		}
		return t.move(ctx, page.NavigateToHistoryEntry(entries[at].ID))
	})
}

// move sends a command that has the tab move to another address, and waits until it has.
func (t *Tab) move(ctx context.Context, command interface{ Do(context.Context) error }) error {
	t.b.mu.Lock()
	moves := t.moves
	t.b.mu.Unlock()
	if err := command.Do(ctx); err != nil {
		return err
	}
	return t.b.wait(ctx, func() bool { return t.moves > moves })
}

// load has a page begin to load, and waits until it has. One that does not answer is left
// alone: the state of the page says that it still loads.
func (t *Tab) load(ctx context.Context, long time.Duration, begin func(context.Context) error) error {
	b := t.b
	b.mu.Lock()
	if t.leaving = true; t.dialog != nil { // whoever leaves a page does not answer its questions
		b.conn.post(t.session, page.CommandHandleJavaScriptDialog, page.HandleJavaScriptDialog(false))
		t.dialog = nil
	}
	t.crashed, t.failed = false, ""
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		t.leaving = false
		b.mu.Unlock()
	}()
	limited, cancel := context.WithTimeoutCause(ctx, long, errNoAnswer)
	defer cancel()
	err := t.do(limited, begin)
	if err == nil {
		err = b.wait(limited, func() bool { return len(t.loading) == 0 || t.broken() != nil })
	}
	if errors.Is(err, errNoAnswer) && ctx.Err() == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && t.failed != "" {
		host, _ := HostOf(t.url)
		if t.closed && b.set.Own(host) {
			return &tools.Failure{Code: notListening, Retryable: true, Message: fmt.Sprintf("%s was not opened: no command of this session listens on port %d. "+
				"Start one in the background, or look at what it wrote: it may have ended, or use another port.", t.url, host.Port)}
		}
		return tools.Failf("not_reached", "%s was not opened: %s", t.url, t.failed)
	}
	return err
}

const notListening = "not_listening"

// notLoaded says why an address was not opened.
func (t *Tab) notLoaded(address, failed string) error {
	if failed == "net::ERR_ABORTED" { // a download, or nothing to show
		return nil
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	why := t.b.refused[address]
	if host, ok := HostOf(address); ok && why == "" {
		why = t.b.refused[host.key()]
	}
	for _, text := range t.b.refused {
		if why == "" { // of an address that a name stands for, or that a page led to
			why = text
		}
	}
	if why != "" {
		return tools.Failf("not_reached", "%s was not opened: %s.", address, strings.TrimSuffix(why, "."))
	}
	return &tools.Failure{Code: "not_reached", Retryable: true, Message: fmt.Sprintf("%s was not opened: %s.", address, strings.TrimPrefix(failed, "net::"))}
}

// Answer answers the dialog of a page.
func (t *Tab) Answer(ctx context.Context, accept bool, text string) error {
	if t.State().Dialog == nil {
		return tools.Failf("no_dialog", "The page shows no dialog.")
	}
	t.b.mu.Lock()
	t.dialog = nil
	t.b.mu.Unlock()
	err := t.do(ctx, func(ctx context.Context) error {
		return page.HandleJavaScriptDialog(accept).WithPromptText(text).Do(ctx)
	})
	if err != nil {
		if failure, ok := errors.AsType[*tools.Failure](err); ok && failure.Code == "dialog_open" {
			return nil // the next one
		}
		return err
	}
	return t.settle(ctx)
}
