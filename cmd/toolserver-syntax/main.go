// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command toolserver-syntax parses programs with tree-sitter for toolserver,
// which starts it in the sandbox: it sees no files, and may crash. It is a module
// of its own since it is the only part that needs a C compiler.
//
// It answers requests on standard input one after another until that ends. A
// message is its length in four bytes and a body; all numbers are little-endian.
//
//	request  op, length of the language's name, the name; for a parse then: the most
//	         nodes that are wanted (4), levels (4), how many places (4), the places
//	         (4 each), the text
//	answer   0 and what was asked for; or 1 and why not
//
// Op 'k' asks for the kinds of nodes and the fields of a language: JSON. Op 'p'
// asks for the nodes of a text in preorder, see syntax_node and syntax_wanted in
// parse.h. Which nodes are symbols or match a pattern is the server's to know.
package main

// #include "parse.h"
// #include <stdlib.h>
import "C"

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	sitter "github.com/tree-sitter/go-tree-sitter"
)

// maxRequest is how long a request may be.
const maxRequest = 64 << 20

func main() {
	if err := serve(bufio.NewReaderSize(os.Stdin, 64<<10), os.Stdout); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "toolserver-syntax is started by toolserver:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	var length [4]byte
	var request []byte
	for {
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(length[:])
		if n > maxRequest {
			return fmt.Errorf("a request of %d bytes", n)
		}
		if cap(request) < int(n) || cap(request) > 4<<20 {
			request = make([]byte, n)
		}
		request = request[:n]
		if _, err := io.ReadFull(in, request); err != nil {
			return err
		}
		if err := answer(request, out); err != nil {
			return err
		}
		if n > 4<<20 {
			debug.FreeOSMemory()
		}
	}
}

// answer answers one request. The error is that of writing.
func answer(request []byte, out io.Writer) error {
	if len(request) < 2 || len(request) < 2+int(request[1]) {
		return errors.New("a request that is too short")
	}
	name, rest := string(request[2:2+request[1]]), request[2+request[1]:]
	grammar, ok := grammars[name]
	if !ok {
		return refuse(out, "there is no grammar of "+name)
	}
	switch request[0] {
	case 'k':
		return describe(sitter.NewLanguage(grammar()), out)
	case 'p':
		return parse(grammar(), rest, out)
	}
	return refuse(out, fmt.Sprintf("there is no operation %q", request[0]))
}

func parse(language unsafe.Pointer, rest []byte, out io.Writer) error {
	const head = 12
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(rest[4*i:]) }
	if len(rest) < head || uint64(len(rest)) < head+4*uint64(number(2)) {
		return refuse(out, "a request that is too short")
	}
	rest = append(rest, 0) // so that all parts of it have an address
	places := rest[head:]
	text := places[4*int(number(2)):]
	wanted := C.syntax_wanted{
		most: C.uint32_t(number(0)), levels: C.uint32_t(number(1)), count: C.uint32_t(number(2)),
		places: (*C.uint8_t)(unsafe.SliceData(places)),
	}
	var pin runtime.Pinner
	pin.Pin(wanted.places)
	defer pin.Unpin()
	var nodes C.uint32_t
	list := C.syntax_parse(language, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.uint32_t(len(text)-1), wanted, &nodes)
	if list == nil {
		return refuse(out, fmt.Sprintf("its tree has more than %d nodes", number(0)))
	}
	defer C.free(unsafe.Pointer(list))
	return send(out, unsafe.Slice((*byte)(unsafe.Pointer(list)), int(nodes)*int(unsafe.Sizeof(*list))))
}

// describe tells the kinds and fields of a language, by their numbers.
func describe(l *sitter.Language, out io.Writer) error {
	var kinds, fields []string
	for i := range l.NodeKindCount() {
		kinds = append(kinds, l.NodeKindForId(uint16(i)))
	}
	for i := range l.FieldCount() + 1 {
		fields = append(fields, l.FieldNameForId(uint16(i)))
	}
	body, err := json.Marshal(map[string][]string{"kinds": kinds, "fields": fields})
	if err != nil {
		return err
	}
	return send(out, body)
}

func send(out io.Writer, body []byte) error {
	head := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body)+1)), 0)
	if _, err := out.Write(head); err != nil {
		return err
	}
	_, err := out.Write(body)
	return err
}

func refuse(out io.Writer, why string) error {
	head := append(binary.LittleEndian.AppendUint32(nil, uint32(len(why)+1)), 1)
	_, err := out.Write(append(head, why...))
	return err
}
