// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

var (
	// errDetached says that the person left and the execution goes on.
	errDetached = errors.New("detached")
	// errHangup says that the terminal is gone, or that this process was told so.
	errHangup = &ExitError{Code: ExitCancelled}
)

// atTerminal reports whether a person sits at both ends.
func atTerminal() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}

// A keyboard hands out what is typed, first as lines to an asker and then, once
// it is taken, as it comes to a terminal. Nothing is lost between them.
type keyboard struct {
	typed chan []byte
	taken chan struct{}
	rest  []byte // of Read
}

func newKeyboard(in io.Reader) *keyboard {
	k := &keyboard{typed: make(chan []byte), taken: make(chan struct{})}
	go func() {
		defer close(k.typed)
		for {
			buffer := make([]byte, 4096)
			n, err := in.Read(buffer)
			if n > 0 {
				k.typed <- buffer[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

// Read reads what is typed, until the keyboard is taken.
func (k *keyboard) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		select {
		case <-k.taken:
			return 0, io.EOF
		case data, ok := <-k.typed:
			if !ok {
				return 0, io.EOF
			}
			k.rest = data
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// take ends all reading of lines.
func (k *keyboard) take() { close(k.taken) }

// A terminalView is a view of an execution that has a terminal, on a terminal:
// what is typed goes to the program, what it writes is shown as it is. All that
// it changes on the terminal it changes back when it is closed, also where this
// program breaks down.
type terminalView struct {
	*textView
	client  *Client
	asker   *asker // nil where nobody is asked
	keys    *keyboard
	detach  detachKeys
	history uint64     // events up to this one happened before
	replay  replay     // of those
	left    chan error // why the showing ends before the execution

	ctx     context.Context // ends with the showing
	cancel  context.CancelFunc
	request *pb.WriteInputRequest // that names the execution
	listens chan struct{}         // closed when the program has taken something
	once    sync.Once             // closes it

	mu        sync.Mutex
	before    *term.State // of the terminal; nil while it is as it was
	signals   chan os.Signal
	otherSide bool   // the program shows the alternate screen
	tail      []byte // the end of what it wrote, for what goes on
}

func newTerminalView(c *Client, text *textView, keys *keyboard, detach []byte) *terminalView {
	v := &terminalView{
		textView: text, client: c, keys: keys, detach: detachKeys{keys: detach},
		left: make(chan error, 1), listens: make(chan struct{}), signals: make(chan os.Signal, 4),
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	return v
}

func (v *terminalView) show(event *pb.Event) error {
	switch kind := event.GetKind().(type) {
	case *pb.Event_Started:
		return v.begin(event.GetExecutionId())
	case *pb.Event_Output:
		if kind.Output.GetStream() == pb.OutputStream_OUTPUT_STREAM_TERMINAL && v.request != nil {
			return v.output(kind.Output.GetData(), event.GetSequence() <= v.history)
		}
	case *pb.Event_Finished:
		v.close()
	}
	return v.textView.show(event)
}

// begin gives the terminal to the program.
func (v *terminalView) begin(id string) error {
	if v.request != nil {
		return nil
	}
	v.textView.close()
	v.bar = nil
	v.note(fmt.Sprintf("(%s: %s)", Visible(id), v.howToLeave()))
	v.request = &pb.WriteInputRequest{ExecutionId: id}
	if v.asker != nil {
		v.asker.how = approveWait // the keys belong to the program now
	}
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.before = before
	v.mu.Unlock()
	v.stdout.raw, v.stderr.raw = true, true
	v.keys.take()
	signal.Notify(v.signals, syscall.SIGWINCH, syscall.SIGHUP, syscall.SIGQUIT)
	v.signals <- syscall.SIGWINCH // the size may have changed since it was told
	queue := make(chan []byte, 4096)
	go v.read(queue)
	go v.write(queue)
	go v.followSize()
	return nil
}

func (v *terminalView) howToLeave() string {
	switch {
	case len(v.detach.keys) == 0:
		return "no key detaches"
	case v.client.inProcess:
		return v.detach.String() + " ends it"
	}
	return v.detach.String() + " detaches"
}

// read takes what is typed. It never waits for the program, so that the person
// can always leave.
func (v *terminalView) read(queue chan<- []byte) {
	defer restoring(v)
	for {
		select {
		case <-v.ctx.Done():
			return
		case data, ok := <-v.keys.typed:
			if !ok {
				v.leave(errHangup)
				return
			}
			data, detached := v.detach.feed(data)
			if len(data) > 0 {
				select {
				case queue <- data:
				case <-v.ctx.Done():
					return
				}
			}
			if detached {
				v.leave(errDetached)
				return
			}
		}
	}
}

// write sends what was typed, in its order.
func (v *terminalView) write(queue <-chan []byte) {
	defer restoring(v)
	for {
		select {
		case <-v.ctx.Done():
			return
		case data := <-queue:
			v.send(&pb.WriteInputRequest{Input: &pb.WriteInputRequest_Data{Data: data}})
		}
	}
}

// followSize passes the size of the terminal on as it changes, and leaves when it is
// gone.
func (v *terminalView) followSize() {
	defer restoring(v)
	for {
		select {
		case <-v.ctx.Done():
			return
		case got := <-v.signals:
			if got != syscall.SIGWINCH {
				v.leave(errHangup)
				return
			}
			if size := windowSize(); size != nil {
				v.send(&pb.WriteInputRequest{Input: &pb.WriteInputRequest_WindowSize{WindowSize: size}})
			}
		}
	}
}

// windowSize returns the size of this terminal; nil where it has none.
func windowSize() *pb.WindowSize {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return nil
	}
	return &pb.WindowSize{Rows: uint32(height), Columns: uint32(width)}
}

// send sends input. A program that has just started may take none yet: it is
// tried again until it does. What an execution no longer takes is nobody's loss.
func (v *terminalView) send(request *pb.WriteInputRequest) {
	proto.Merge(request, v.request)
	for {
		ends := false // a refusal means so, once the program has taken something before
		select {
		case <-v.listens:
			ends = true
		default:
		}
		_, err := v.client.WriteInput(v.ctx, request, grpc.WaitForReady(true))
		switch status.Code(err) {
		case codes.OK:
			v.once.Do(func() { close(v.listens) })
			return
		case codes.FailedPrecondition:
			if ends {
				return
			}
			select {
			case <-v.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		case codes.Unavailable:
			return // what was on its way when the connection broke
		default:
			v.leave(err)
			return
		}
	}
}

// leave ends the showing, for the first reason there is.
func (v *terminalView) leave(why error) {
	select {
	case v.left <- why:
	default:
	}
}

const screenOn, screenOff = "\x1b[?1049h", "\x1b[?1049l"

// output shows what the program wrote.
func (v *terminalView) output(data []byte, history bool) error {
	if history {
		data = v.replay.filter(data)
	} else if len(v.replay.held) > 0 { // what begins there was not answered yet
		data = append(v.replay.held, data...)
		v.replay.held = nil
	}
	if len(data) == 0 {
		return nil
	}
	v.mu.Lock()
	v.tail = append(v.tail, data...)
	if on, off := bytes.LastIndex(v.tail, []byte(screenOn)), bytes.LastIndex(v.tail, []byte(screenOff)); on != off {
		v.otherSide = on > off
	}
	v.tail = bytes.Clone(v.tail[max(len(v.tail)-len(screenOn)+1, 0):])
	v.mu.Unlock()
	if room := maxBegin - len(v.textView.begin); room > 0 {
		v.textView.begin = append(v.textView.begin, data[:min(len(data), room)]...)
	}
	_, err := v.stdout.file.Write(data)
	v.stdout.midline = data[len(data)-1] != '\n'
	v.stderr.midline = v.stdout.midline
	return err
}

// usual sets what programs change on a terminal: colours, cursor, wrapping, keys,
// mouse and pasting.
const usual = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l"

// close gives the terminal back as it was. It may be called more than once, by
// any goroutine.
func (v *terminalView) close() {
	v.cancel()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.before == nil {
		v.textView.close()
		return
	}
	signal.Stop(v.signals)
	if v.otherSide {
		v.stdout.file.WriteString(screenOff)
		v.stdout.midline, v.stderr.midline = false, false
	}
	v.stdout.file.WriteString(usual)
	term.Restore(int(os.Stdin.Fd()), v.before)
	v.before = nil
	v.stdout.raw, v.stderr.raw = false, false
}

// restoring gives the terminal back where a goroutine of ours breaks down.
func restoring(v view) {
	if reason := recover(); reason != nil {
		v.close()
		panic(reason)
	}
}

// detachKeys are what leaves an execution without ending it.
type detachKeys struct {
	keys []byte
	held int // how many of them were typed last
}

// feed returns what of data is for the program, and whether the keys are complete.
func (d *detachKeys) feed(data []byte) (send []byte, detached bool) {
	if len(d.keys) == 0 {
		return data, false
	}
	for _, c := range data {
		if c != d.keys[d.held] {
			send = append(send, d.keys[:d.held]...)
			d.held = 0
			if c != d.keys[0] {
				send = append(send, c)
				continue
			}
		}
		if d.held++; d.held == len(d.keys) {
			d.held = 0
			return send, true
		}
	}
	return send, false
}

// String names the keys for people.
func (d *detachKeys) String() string {
	names := make([]string, len(d.keys))
	for i, c := range d.keys {
		names[i] = string(rune(c))
		if c < ' ' {
			names[i] = "Ctrl-" + string(rune(c|0x40))
		}
	}
	return strings.Join(names, " ")
}

// parseDetachKeys reads keys such as "ctrl-p,ctrl-q".
func parseDetachKeys(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	var keys []byte
	for name := range strings.SplitSeq(text, ",") {
		key := strings.TrimSpace(name)
		letter, control := strings.CutPrefix(strings.ToLower(key), "ctrl-")
		switch {
		case control && len(letter) == 1 && (letter[0] >= 'a' && letter[0] <= 'z' || strings.Contains(`@[\]^_`, letter)):
			keys = append(keys, letter[0]&0x1f)
		case !control && len(key) == 1 && key[0] > ' ' && key[0] < 0x7f:
			keys = append(keys, key[0])
		default:
			return nil, fmt.Errorf(`--detach-keys %q: %q is no key: want letters, or ctrl- with one, such as "ctrl-]" or "ctrl-p,ctrl-q"`, text, name)
		}
	}
	return keys, nil
}
