// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lines is a transport of messages, each of which is a line. That of the SDK hangs up on
// the first line that is none, and takes batches and messages of any depth; it also
// decodes each message three times.
type lines struct {
	in    io.ReadCloser
	out   io.Writer
	ended func() // called when there are no more lines

	incoming chan jsonrpc.Message
	closed   chan struct{}
	close    sync.Once
	err      error // why incoming is closed

	writing sync.Mutex
}

// Connect implements [mcp.Transport].
func (l *lines) Connect(context.Context) (mcp.Connection, error) {
	l.incoming, l.closed = make(chan jsonrpc.Message), make(chan struct{})
	go l.receive()
	return l, nil
}

// receive reads lines until there are no more. Nothing can be done about one that waits
// for input which never comes: it ends with the process.
func (l *lines) receive() {
	defer l.ended()
	defer close(l.incoming)
	reader := bufio.NewReaderSize(l.in, 64<<10)
	for {
		line, err := readLine(reader, int(Limits{}.WithDefaults().MaxBody))
		if len(bytes.TrimSpace(line)) > 0 {
			message, refused := decodeLine(line)
			if refused != nil {
				l.refuse(refused)
			} else {
				select {
				case l.incoming <- message:
				case <-l.closed:
					return
				}
			}
		}
		if err != nil {
			l.err = err
			return
		}
	}
}

// readLine returns the next line, which is the caller's.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return nil, fmt.Errorf("a message has more than %d bytes", limit)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// decodeLine decodes one message.
func decodeLine(line []byte) (jsonrpc.Message, *jsonrpc.Error) {
	if depth := depthOf(line); depth > maxDepth {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the message is nested %d deep: want at most %d", depth, maxDepth)}
	}
	var wire struct {
		Version string          `json:"jsonrpc"`
		ID      any             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	switch err := json.Unmarshal(line, &wire); {
	case !json.Valid(line):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not one JSON value"}
	case err != nil || wire.Version != "2.0":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the line is not one message of JSON-RPC 2.0; there are no batches"}
	}
	if wire.Method == "" { // an answer to a question
		message, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
		}
		return message, nil
	}
	id, err := jsonrpc.MakeID(wire.ID)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	}
	message := &jsonrpc.Request{ID: id, Method: wire.Method, Params: wire.Params}
	if wantsTask(line) {
		who := &request{gone: context.Background(), wantsTask: true}
		message.Extra = &mcp.RequestExtra{TokenInfo: who.token()}
	}
	return message, nil
}

// refuse answers a line that is no message.
func (l *lines) refuse(err *jsonrpc.Error) {
	data, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": err})
	l.write(data)
}

// Read implements [mcp.Connection].
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case message, ok := <-l.incoming:
		if !ok {
			return nil, l.err
		}
		return message, nil
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [mcp.Connection].
func (l *lines) Write(_ context.Context, message jsonrpc.Message) error {
	data, err := encodeLine(message)
	if err != nil {
		return err
	}
	return l.write(data)
}

// encodeLine encodes one message. Of an answer the result is JSON already, which the SDK
// would go through once more.
func encodeLine(message jsonrpc.Message) ([]byte, error) {
	r, ok := message.(*jsonrpc.Response)
	if !ok || r.Error != nil {
		return jsonrpc.EncodeMessage(message)
	}
	id, err := json.Marshal(r.ID.Raw())
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(r.Result)+len(id)+40)
	line = append(append(line, `{"jsonrpc":"2.0","id":`...), id...)
	line = append(append(line, `,"result":`...), r.Result...)
	return append(line, '}'), nil
}

func (l *lines) write(data []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.out.Write(append(data, '\n'))
	return err
}

// Close implements [mcp.Connection].
func (l *lines) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.in.Close()
}

// SessionID implements [mcp.Connection]: there is one session.
func (l *lines) SessionID() string { return "" }
