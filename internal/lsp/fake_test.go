// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package lsp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// fakeServer has the test program be a language server, which speaks the protocol and does
// what no language server should.
const fakeServer = "fake-language-server"

type fakeMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type fake struct {
	in   *bufio.Reader
	root string
}

func (f *fake) receive() (m fakeMessage, err error) {
	length := 0
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			return m, err
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		fmt.Sscanf(line, "Content-Length: %d", &length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(f.in, body); err != nil {
		return m, err
	}
	return m, json.Unmarshal(body, &m)
}

func (f *fake) send(body string) {
	fmt.Printf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func (f *fake) answer(m fakeMessage, result string) {
	f.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

// serveFake serves in a mode until it is told to exit.
func serveFake(args []string) {
	mode := args[0]
	switch mode {
	case "dies":
		fmt.Fprintln(os.Stderr, "there is no licence")
		os.Exit(3)
	case "garbage":
		fmt.Println("Welcome to the language server of your dreams!")
		time.Sleep(time.Hour)
	case "huge":
		fmt.Print("Content-Length: 1999999999\r\n\r\n{")
		time.Sleep(time.Hour)
	}
	f := &fake{in: bufio.NewReader(os.Stdin)}
	for {
		m, err := f.receive()
		if err != nil || m.Method == "exit" {
			return
		}
		f.handle(mode, m)
	}
}

func (f *fake) handle(mode string, m fakeMessage) {
	switch m.Method {
	case "initialize":
		if mode == "silent" {
			return
		}
		var params struct {
			RootURI string `json:"rootUri"`
		}
		_ = json.Unmarshal(m.Params, &params)
		f.root = strings.TrimPrefix(params.RootURI, "file://")
		encoding := "utf-16"
		if mode == "counts-strangely" {
			encoding = "utf-7"
		}
		f.answer(m, `{"capabilities":{"positionEncoding":"`+encoding+`","definitionProvider":true,"referencesProvider":true,"hoverProvider":true,"renameProvider":true,"textDocumentSync":1}}`)
	case "initialized":
		switch mode {
		case "floods":
			for {
				f.send(`{"jsonrpc":"2.0","method":"window/logMessage","params":{"type":3,"message":"still here"}}`)
			}
		case "asks":
			for i := 0; ; i++ {
				f.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"client/registerCapability","params":{"registrations":[]}}`, i))
			}
		case "indexes":
			f.send(`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t","value":{"kind":"begin","title":"Indexing","percentage":7}}}`)
		case "cannot-load":
			f.send(`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t","value":{"kind":"begin","title":"Error loading workspace","message":"there are no modules"}}}`)
			f.send(`{"jsonrpc":"2.0","method":"window/showMessage","params":{"type":1,"message":"and no licence"}}`)
		}
	case "shutdown":
		f.answer(m, "null")
	case "textDocument/definition":
		f.define(mode, m)
	case "textDocument/rename":
		if mode == "waits" {
			_, _ = os.ReadFile(filepath.Join(f.root, "gate")) // a pipe
		}
		f.answer(m, strings.ReplaceAll(renames[mode], "ROOT", "file://"+f.root))
	case "textDocument/references":
		f.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"I would rather not"}}`)
	case "textDocument/hover":
		text, _ := json.Marshal(strings.Join(f.escapes(), "\n"))
		f.answer(m, `{"contents":`+string(text)+`}`)
	}
}

func (f *fake) define(mode string, m fakeMessage) {
	place := fmt.Sprintf(`{"uri":"file://%s/a.fake","range":{"start":{"line":0,"character":4},"end":{"line":0,"character":7}}}`, f.root)
	switch mode {
	case "hangs":
	case "wrong-ids":
		f.send(`{"jsonrpc":"2.0","id":123456,"result":` + place + `}`)
		f.send(`{"jsonrpc":"2.0","id":"x","result":` + place + `}`)
		f.send(`{"jsonrpc":"2.0","id":null,"result":` + place + `}`)
	case "dies-when-asked":
		os.Exit(4)
	case "eats":
		var all [][]byte
		for {
			more := make([]byte, 16<<20)
			for i := range more {
				more[i] = byte(i)
			}
			all = append(all, more)
			_ = all
		}
	case "answers-nonsense":
		f.answer(m, `{"uri":17,"range":"somewhere"}`)
	case "points-outside":
		f.answer(m, `[{"uri":"file:///etc/shadow","range":{"start":{"line":4000000000,"character":4000000000},"end":{"line":0,"character":0}}},`+
			strings.ReplaceAll(place, `"line":0,"character":4`, `"line":99,"character":99`)+`,{"uri":"untitled:x","range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}}}]`)
	default:
		f.answer(m, place)
	}
}

// renames are what servers would change, by mode.
var renames = map[string]string{
	"waits":      `{"changes":{"ROOT/b.fake":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"newText":"x"}]}}`,
	"outside":    `{"changes":{"ROOT/a.fake":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"newText":"x"}],"file:///etc/passwd":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"newText":"root"}]}}`,
	"up":         `{"changes":{"ROOT/../b.fake":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"newText":"x"}]}}`,
	"overlaps":   `{"changes":{"ROOT/a.fake":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":3}},"newText":"x"},{"range":{"start":{"line":0,"character":2},"end":{"line":0,"character":4}},"newText":"y"}]}}`,
	"backwards":  `{"changes":{"ROOT/a.fake":[{"range":{"start":{"line":0,"character":3},"end":{"line":0,"character":0}},"newText":"x"}]}}`,
	"no-file":    `{"documentChanges":[{"textDocument":{"uri":"ROOT/none.fake","version":null},"edits":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"newText":"x"}]}]}`,
	"link":       `{"changes":{"ROOT/link.fake":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"newText":"x"}]}}`,
	"moves":      `{"documentChanges":[{"kind":"rename","oldUri":"ROOT/a.fake","newUri":"ROOT/new/c.fake"},{"textDocument":{"uri":"ROOT/new/c.fake","version":null},"edits":[{"range":{"start":{"line":0,"character":4},"end":{"line":0,"character":7}},"newText":"é"}]},{"kind":"create","uri":"ROOT/d.fake"},{"kind":"delete","uri":"ROOT/b.fake"}]}`,
	"in-the-way": `{"documentChanges":[{"kind":"rename","oldUri":"ROOT/a.fake","newUri":"ROOT/b.fake"}]}`,
}

// escapes tries what a language server must not be able to do, and returns what it could.
func (f *fake) escapes() (done []string) {
	for _, path := range []string{filepath.Join(f.root, "planted"), filepath.Join(f.root, "a.fake"), filepath.Join(os.Getenv("HOME"), "planted"), "/tmp/planted", filepath.Join(os.Getenv("GOMODCACHE"), "planted")} {
		if file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
			file.Close()
			done = append(done, "wrote "+path)
		}
	}
	if os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), "own"), nil, 0o644) == nil {
		done = append(done, "wrote its own")
	}
	if conn, err := net.DialTimeout("tcp", os.Getenv("FAKE_DIAL"), time.Second); err == nil {
		conn.Close()
		done = append(done, "reached the network")
	}
	for _, name := range []string{"secret.fake", "later.fake"} {
		if data, _ := os.ReadFile(filepath.Join(f.root, name)); len(data) > 0 {
			done = append(done, "read "+name)
		}
	}
	return done
}
