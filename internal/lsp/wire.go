// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.lsp.dev/jsonrpc2"
)

// Bounds of what a language server says. Beyond them it is ended.
const (
	maxMessage = 64 << 20 // bytes of one message
	maxHeader  = 32       // lines before one
	maxQueued  = 1024     // messages to a server that does not read

	// In floodTime a server may send so many messages and bytes.
	floodTime     = 10 * time.Second
	floodMessages = 50_000
	floodBytes    = 512 << 20
)

var (
	errFlood     = errors.New("it sent more messages than anybody could want")
	errDeaf      = errors.New("it does not read what it is sent")
	errNoMessage = errors.New("what it wrote to its standard output is no message of the protocol")
)

// A wire is the connection with a language server: a [jsonrpc2.Stream] that bounds what
// the server says. Nothing that is sent waits for the server, which may itself wait for
// somebody to read what it writes.
type wire struct {
	in     *bufio.Reader
	closed chan struct{}
	close  sync.Once
	end    func()

	offer  func([]byte) (int, error) // writes what the server takes at once
	out    chan []byte               // the rest, which somebody else writes
	mu     sync.Mutex
	queued int // pieces in out, and the one that is being written

	began    time.Time // of what is counted
	messages int
	bytes    int
}

// newWire returns a wire that reads from one side. A message is offered to the other; what
// that does not take is given to write, one piece after the other, until the wire is closed.
// end is called once, when it is.
func newWire(in io.Reader, offer func([]byte) (int, error), write func([]byte) error, end func()) *wire {
	w := &wire{in: bufio.NewReaderSize(in, 64<<10), offer: offer, out: make(chan []byte, maxQueued), closed: make(chan struct{}), end: end}
	go func() {
		for {
			select {
			case data := <-w.out:
				if write(data) != nil {
					return
				}
				w.mu.Lock()
				w.queued--
				w.mu.Unlock()
			case <-w.closed:
				return
			}
		}
	}()
	return w
}

// Read implements [jsonrpc2.Stream].
func (w *wire) Read(context.Context) (jsonrpc2.Message, int64, error) {
	length, err := w.header()
	if err != nil {
		return nil, 0, err
	}
	if err := w.count(length); err != nil {
		return nil, 0, err
	}
	body := make([]byte, 0, min(length, 1<<20)) // a length alone takes no memory
	for len(body) < length {
		n := min(length-len(body), max(cap(body)-len(body), 1<<20))
		at := len(body)
		body = append(body, make([]byte, n)...)
		if _, err := io.ReadFull(w.in, body[at:]); err != nil {
			return nil, 0, err
		}
	}
	message, err := jsonrpc2.DecodeMessage(body)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errNoMessage, err)
	}
	return message, int64(length), nil
}

// header reads what comes before a message, and returns how long that is.
func (w *wire) header() (length int, err error) {
	length = -1
	for range maxHeader {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = errNoMessage
			}
			return 0, err
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" && length >= 0 {
			return length, nil
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return 0, fmt.Errorf("%w: %.80q", errNoMessage, text)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil || n <= 0 {
				return 0, fmt.Errorf("%w: %.80q", errNoMessage, text)
			}
			if n > maxMessage {
				return 0, fmt.Errorf("a message of it has %d bytes, at most %d are possible", n, maxMessage)
			}
			length = n
		}
	}
	return 0, errNoMessage
}

// count notes a message, and finds out whether there are too many.
func (w *wire) count(length int) error {
	if now := time.Now(); now.Sub(w.began) > floodTime {
		w.began, w.messages, w.bytes = now, 0, 0
	}
	w.messages++
	w.bytes += length
	if w.messages > floodMessages || w.bytes > floodBytes {
		return errFlood
	}
	return nil
}

// Write implements [jsonrpc2.Stream].
func (w *wire) Write(_ context.Context, message jsonrpc2.Message) (int64, error) {
	body, err := jsonrpc2.EncodeMessage(message)
	if err != nil {
		return 0, err
	}
	data := append([]byte("Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"), body...)
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := 0
	if w.queued == 0 {
		if sent, err = w.offer(data); err != nil || sent == len(data) {
			return int64(sent), err
		}
	}
	select {
	case <-w.closed:
		return 0, io.ErrClosedPipe
	case w.out <- data[sent:]:
		w.queued++
		return int64(len(data)), nil
	default:
		return 0, errDeaf
	}
}

// Close implements [jsonrpc2.Stream].
func (w *wire) Close() error {
	w.close.Do(func() {
		close(w.closed)
		w.end()
	})
	return nil
}
