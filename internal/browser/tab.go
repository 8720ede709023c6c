// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// What is kept of each tab.
const (
	maxConsole  = 200
	maxRequests = 300
	maxNotes    = 16
	maxText     = 2000 // characters of a message, an address or a dialog
	maxDialogs  = 50   // that one document may open
)

// A Browser is one that runs. But for what [Browser.Place] and [Browser.LinkOf] return, it
// is used by one call at a time.
type Browser struct {
	set     *Set
	conn    *conn
	running *command.Running     // nil where it runs elsewhere
	context cdp.BrowserContextID // "" for its own
	leave   func()               // closes the connection to a browser elsewhere; nil for one of ours
	proxy   *url.Userinfo
	files   *os.Root // its temporary directory; nil where it runs elsewhere
	seen    string   // how the browser names that
	expiry  *time.Timer
	users   []string // for whom it was used
	uploads int

	mu           sync.Mutex
	changed      chan struct{} // closed when something of the below changes
	tabs         []*Tab        // the oldest first
	opened       int           // tabs, ever
	current      *Tab
	granted      map[string]bool // hosts that calls were given
	named        []Host          // of those, what the call that runs was given
	restrictions tools.Restrictions
	notes        []string // for the call that runs
	refused      map[string]string
	downloads    []*Download
}

// A Tab is one page of a browser.
type Tab struct {
	ID string

	b       *Browser
	target  target.ID
	session target.SessionID

	// Guarded by the browser.
	url      string
	frame    cdp.FrameID
	loader   cdp.LoaderID
	title    string // as the last action left it, if the page has not moved since
	titleAt  int
	loading  map[cdp.FrameID]bool
	moves    int    // to other addresses, ever
	status   int64  // of the document
	failed   string // what the proxy said instead of an answer
	closed   bool   // which was that nothing listens there
	inFlight map[network.RequestID]bool
	dialog   *Dialog
	dialogs  int  // that this document opened
	leaving  bool // dialogs are dismissed: nobody looks at the page any more
	crashed  bool
	console  []Message
	requests []*Request
	refs     refs
	shown    []string // the lines of the last snapshot
	shownOf  cdp.LoaderID
}

// A Dialog is one that a page shows, and waits for.
type Dialog struct{ Type, Text string }

// A Message is one that a page wrote to its console, or an error that nobody caught.
type Message struct{ Level, Text, Where string }

// A Request is one that a page made.
type Request struct {
	ID                network.RequestID
	Method, URL, Type string
	Status            int64
	Failed            string
}

// A Download is a file that a page had the browser fetch.
type Download struct {
	GUID, URL, Name string
	Received, Total float64
	State           string // inProgress, completed, canceled
	Why             string // it was canceled by the server
	taken           bool
}

func newBrowser(s *Set) *Browser {
	b := &Browser{set: s, changed: make(chan struct{}), granted: make(map[string]bool), refused: make(map[string]string)}
	b.conn = newConn(nil)
	b.conn.handle = b.event
	return b
}

// begin notes for whom the browser is used, and what may be reached.
func (b *Browser) begin(env tools.Env, reaches []Host) {
	if user := env.OnBehalfOf; user != "" && !slices.Contains(b.users, user) {
		b.users = append(b.users, user)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restrictions, b.named, b.notes = env.Restrictions, reaches, nil
	clear(b.refused)
	for _, host := range reaches {
		b.granted[host.key()] = true
	}
}

// end returns what the model is told of what happened beside the call.
func (b *Browser) end() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	notes := b.notes
	b.named, b.notes = nil, nil
	return notes
}

// note keeps a sentence for the model, once. The browser is locked.
func (b *Browser) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(b.notes) < maxNotes && !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
	}
}

// wake wakes those who wait for something to change. The browser is locked.
func (b *Browser) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// wait returns when done reports true, which is asked with the browser locked.
func (b *Browser) wait(ctx context.Context, done func() bool) error {
	for {
		b.mu.Lock()
		changed, ok := b.changed, done()
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-b.conn.lost:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// event takes an event of the browser, or of one of its targets.
func (b *Browser) event(session target.SessionID, method string, params jsontext.Value) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wake()
	if handle := browserEvents[method]; handle != nil {
		handle(b, params)
		return
	}
	at := slices.IndexFunc(b.tabs, func(t *Tab) bool { return t.session == session })
	if handle := tabEvents[method]; handle != nil && at >= 0 {
		handle(b.tabs[at], params)
	}
}

// on returns what decodes an event and hands it over.
func on[Of, Event any](handle func(of Of, ev *Event)) func(Of, jsontext.Value) {
	return func(of Of, params jsontext.Value) {
		ev := new(Event)
		// What newer browsers add to an event is left out, and what was read is used.
		json.Unmarshal(params, ev, jsontext.AllowInvalidUTF8(true))
		handle(of, ev)
	}
}

var browserEvents = map[string]func(*Browser, jsontext.Value){
	"Target.attachedToTarget":   on((*Browser).attached),
	"Target.detachedFromTarget": on((*Browser).detached),
	"Browser.downloadWillBegin": on((*Browser).downloadBegins),
	"Browser.downloadProgress":  on((*Browser).downloadGoesOn),
}

var tabEvents = map[string]func(*Tab, jsontext.Value){
	"Page.frameNavigated": on(func(t *Tab, ev *page.EventFrameNavigated) {
		if f := ev.Frame; f != nil && f.ParentID == "" {
			t.frame, t.loader, t.url = f.ID, f.LoaderID, f.URL+f.URLFragment
			t.moves++
			t.dialogs, t.crashed, t.leaving = 0, false, false
		}
	}),
	"Page.navigatedWithinDocument": on(func(t *Tab, ev *page.EventNavigatedWithinDocument) {
		if ev.FrameID == t.frame {
			t.moves++
			t.url = ev.URL
		}
	}),
	"Page.frameStartedLoading": on(func(t *Tab, ev *page.EventFrameStartedLoading) { t.loading[ev.FrameID] = true }),
	"Page.frameRequestedNavigation": on(func(t *Tab, ev *page.EventFrameRequestedNavigation) {
		if ev.FrameID == t.frame && ev.Disposition == page.ClientNavigationDispositionCurrentTab {
			t.loading[ev.FrameID] = true
		}
	}),
	"Page.frameStoppedLoading": on(func(t *Tab, ev *page.EventFrameStoppedLoading) { delete(t.loading, ev.FrameID) }),
	"Page.frameDetached":       on(func(t *Tab, ev *page.EventFrameDetached) { delete(t.loading, ev.FrameID) }),
	"Page.javascriptDialogOpening": on(func(t *Tab, ev *page.EventJavascriptDialogOpening) {
		if t.dialogs++; t.dialogs > maxDialogs {
			t.b.note("The page of %s opened more than %d dialogs, one after the other: it was closed.", t.ID, maxDialogs)
			t.b.conn.post("", target.CommandCloseTarget, target.CloseTarget(t.target))
		}
		if t.leaving {
			t.b.conn.post(t.session, page.CommandHandleJavaScriptDialog, page.HandleJavaScriptDialog(true))
			return
		}
		t.dialog = &Dialog{string(ev.Type), clip(ev.Message)}
	}),
	"Page.javascriptDialogClosed": on(func(t *Tab, _ *page.EventJavascriptDialogClosed) { t.dialog = nil }),
	"Inspector.targetCrashed": on(func(t *Tab, _ *inspector.EventTargetCrashed) {
		t.crashed = true
		clear(t.loading)
		clear(t.inFlight)
	}),
	"Runtime.consoleAPICalled": on(func(t *Tab, ev *runtime.EventConsoleAPICalled) { t.say(consoleMessage(ev)) }),
	"Runtime.exceptionThrown": on(func(t *Tab, ev *runtime.EventExceptionThrown) {
		if d := ev.ExceptionDetails; d != nil {
			t.say(Message{"error", clip(exceptionText(d)), position(d.URL, d.LineNumber)})
		}
	}),
	"Log.entryAdded": on(func(t *Tab, ev *log.EventEntryAdded) {
		if e := ev.Entry; e != nil {
			t.say(Message{string(e.Level), clip(e.Text), position(e.URL, e.LineNumber)})
		}
	}),
	"Network.requestWillBeSent": on(func(t *Tab, ev *network.EventRequestWillBeSent) {
		if ev.Request == nil || strings.HasPrefix(ev.Request.URL, "data:") {
			return
		}
		t.inFlight[ev.RequestID] = true
		t.requested(&Request{ID: ev.RequestID, Method: ev.Request.Method, URL: clip(ev.Request.URL), Type: string(ev.Type)})
	}),
	"Network.responseReceived": on(func(t *Tab, ev *network.EventResponseReceived) {
		if ev.Response == nil {
			return
		}
		if r := t.request(ev.RequestID); r != nil {
			r.Status = ev.Response.Status
		}
		if ev.Type == network.ResourceTypeDocument && ev.FrameID == t.frame {
			t.status, t.failed, t.closed = ev.Response.Status, "", false
			if t.b.proxy != nil && strings.HasPrefix(ev.Response.URL, "http:") { // what comes by a tunnel is no word of the proxy
				t.failed, t.closed = proxyError(ev.Response.Headers)
			}
		}
	}),
	"Network.loadingFinished": on(func(t *Tab, ev *network.EventLoadingFinished) { delete(t.inFlight, ev.RequestID) }),
	"Network.loadingFailed": on(func(t *Tab, ev *network.EventLoadingFailed) {
		delete(t.inFlight, ev.RequestID)
		if r := t.request(ev.RequestID); r != nil {
			r.Failed = ev.ErrorText
		}
	}),
	"Network.webSocketCreated": on(func(t *Tab, ev *network.EventWebSocketCreated) {
		t.requested(&Request{ID: ev.RequestID, Method: "GET", URL: clip(ev.URL), Type: "WebSocket"})
	}),
	"Network.webSocketFrameError": on(func(t *Tab, ev *network.EventWebSocketFrameError) {
		if r := t.request(ev.RequestID); r != nil {
			r.Failed = clip(ev.ErrorMessage)
		}
	}),
	"Fetch.requestPaused": on((*Tab).paused),
	"Fetch.authRequired":  on((*Tab).challenged),
}

// attached takes a new tab, unless there are too many.
func (b *Browser) attached(ev *target.EventAttachedToTarget) {
	info := ev.TargetInfo
	if info == nil || info.Type != "page" {
		return
	}
	if b.context != "" && info.BrowserContextID != b.context { // of somebody else
		b.conn.post(ev.SessionID, runtime.CommandRunIfWaitingForDebugger, nil)
		b.conn.post("", target.CommandDetachFromTarget, target.DetachFromTarget().WithSessionID(ev.SessionID))
		return
	}
	if most := b.set.config.Tabs; len(b.tabs) >= most {
		b.note("A page wanted more than the %d tabs that a browser may have: the others were closed before they began. Close tabs that are no longer needed.", most)
		b.conn.post(ev.SessionID, fetch.CommandEnable, fetch.Enable()) // what it would load waits until it is closed
		go b.closeUnbegun(ev.SessionID, info.TargetID)
		return
	}
	b.opened++
	t := &Tab{
		ID: fmt.Sprintf("t%d", b.opened), b: b, target: info.TargetID, session: ev.SessionID, url: info.URL, frame: cdp.FrameID(info.TargetID),
		loading: make(map[cdp.FrameID]bool), inFlight: make(map[network.RequestID]bool),
	}
	b.tabs = append(b.tabs, t)
	if b.current == nil {
		b.current = t
	} else if info.OpenerID != "" {
		b.note("A new tab was opened, %s: look at it with operation tabs.", t.ID)
	}
	for _, command := range []struct {
		method string
		params any
	}{
		{page.CommandEnable, page.Enable()},
		{network.CommandEnable, network.Enable()},
		{fetch.CommandEnable, fetch.Enable().WithHandleAuthRequests(true)},
		{runtime.CommandEnable, nil},
		{log.CommandEnable, nil},
		{inspector.CommandEnable, nil},
		{page.CommandSetInterceptFileChooserDialog, page.SetInterceptFileChooserDialog(true)},
		{emulation.CommandSetDeviceMetricsOverride, emulation.SetDeviceMetricsOverride(viewWidth, viewHeight, 1, false)},
		{runtime.CommandRunIfWaitingForDebugger, nil},
	} {
		b.conn.post(t.session, command.method, command.params)
	}
}

// closeUnbegun closes a tab that waits to begin. It is resumed first: closed while it waits, it has its opener wait, and
// all pages of its process, for good.
func (b *Browser) closeUnbegun(session target.SessionID, id target.ID) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime) // whatever becomes of the call that opened it
	defer cancel()
	executor{b.conn, session}.Execute(ctx, runtime.CommandRunIfWaitingForDebugger, nil, nil)
	b.conn.post("", target.CommandCloseTarget, target.CloseTarget(id))
}

// The size of a page that is seen, in pixels.
const viewWidth, viewHeight = 1280, 800

func (b *Browser) detached(ev *target.EventDetachedFromTarget) {
	b.tabs = slices.DeleteFunc(b.tabs, func(t *Tab) bool { return t.session == ev.SessionID })
	if b.current != nil && b.current.session == ev.SessionID {
		b.current = nil
		if n := len(b.tabs); n > 0 {
			b.current = b.tabs[n-1]
		}
	}
}

func (b *Browser) downloadBegins(ev *chrome.EventDownloadWillBegin) {
	if len(b.downloads) >= maxDownloads {
		b.note("The page began more than %d downloads: the others were cancelled.", maxDownloads)
		b.conn.post("", chrome.CommandCancelDownload, chrome.CancelDownload(ev.GUID).WithBrowserContextID(b.context))
		return
	}
	b.downloads = append(b.downloads, &Download{GUID: ev.GUID, URL: clip(ev.URL), Name: clip(ev.SuggestedFilename), State: "inProgress"})
}

const maxDownloads = 32

func (b *Browser) downloadGoesOn(ev *chrome.EventDownloadProgress) {
	at := slices.IndexFunc(b.downloads, func(d *Download) bool { return d.GUID == ev.GUID })
	if at < 0 {
		return
	}
	d := b.downloads[at]
	d.Received, d.Total = ev.ReceivedBytes, ev.TotalBytes
	if d.Why == "" {
		d.State = string(ev.State)
	}
	if most := b.set.config.Download; d.State == "inProgress" && max(d.Received, d.Total) > float64(most) {
		d.State, d.Why = "canceled", fmt.Sprintf("it has more than the %s that a download may have", output.Size(uint64(most)))
		b.conn.post("", chrome.CommandCancelDownload, chrome.CancelDownload(ev.GUID).WithBrowserContextID(b.context))
		b.note("The download of %s was cancelled: %s.", d.Name, d.Why)
	}
}

// proxyError returns what the proxy of the server says of a host that it could not reach, and
// whether that refused the connection; "" for an answer of a host.
func proxyError(headers network.Headers) (why string, closed bool) {
	for name, value := range headers {
		text, ok := value.(string)
		if !ok || !strings.EqualFold(name, "Proxy-Status") || !strings.HasPrefix(text, "toolserver; error=") {
			continue
		}
		if _, quoted, ok := strings.Cut(text, "; details="); ok {
			if why, err := strconv.Unquote(quoted); err == nil {
				return clip(why), strings.Contains(text, "error=connection_refused;")
			}
		}
	}
	return "", false
}

// say keeps a message of the console.
func (t *Tab) say(m Message) {
	t.console = append(t.console[max(0, len(t.console)-maxConsole+1):], m)
}

func (t *Tab) requested(r *Request) {
	t.requests = append(t.requests[max(0, len(t.requests)-maxRequests+1):], r)
}

// request returns the last one with an id; nil where it is not kept.
func (t *Tab) request(id network.RequestID) *Request {
	for _, r := range slices.Backward(t.requests) {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func clip(text string) string { return output.Short(text, maxText) }

func position(address string, line int64) string {
	if address == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", clip(address), line+1)
}

// consoleMessage returns what a page wrote, as a console shows it.
func consoleMessage(ev *runtime.EventConsoleAPICalled) Message {
	var words []string
	for _, arg := range ev.Args {
		words = append(words, objectText(arg))
	}
	m := Message{Level: string(ev.Type), Text: clip(strings.Join(words, " "))}
	if ev.StackTrace != nil && len(ev.StackTrace.CallFrames) > 0 {
		m.Where = position(ev.StackTrace.CallFrames[0].URL, ev.StackTrace.CallFrames[0].LineNumber)
	}
	return m
}

func objectText(o *runtime.RemoteObject) string {
	var text string
	switch {
	case o.Type == runtime.TypeString && json.Unmarshal([]byte(o.Value), &text) == nil:
		return text
	case len(o.Value) > 0:
		return string(o.Value)
	case o.UnserializableValue != "":
		return string(o.UnserializableValue)
	case o.Description != "":
		return o.Description
	}
	return string(o.Type)
}

func exceptionText(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return d.Text
}
