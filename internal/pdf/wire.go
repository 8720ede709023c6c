// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// The process answers with an opened, then with each Page: JSON, after its
// length in four bytes. An end before the first, or inside of one, is a crash.

// opened is what became of opening a document.
type opened struct {
	Pages int
	Fault fault
	Why   string
}

// A fault is what is wrong with a document.
type fault string

const (
	faultNone      fault = ""
	faultBroken    fault = "broken"
	faultEncrypted fault = "encrypted"
	faultOurs      fault = "ours" // nothing of the document's
)

func (o opened) err() error {
	switch o.Fault {
	case faultNone:
		return nil
	case faultBroken:
		return fmt.Errorf("%w: %s", ErrBroken, o.Why)
	case faultEncrypted:
		return fmt.Errorf("%w, and a password is needed to open it", ErrEncrypted)
	}
	return fmt.Errorf("documents cannot be read: %s", o.Why)
}

func startsPDF(head []byte) bool { return bytes.Contains(head, []byte("%PDF-")) }

func send(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// receive returns io.EOF if the process said that no more comes: an empty
// message.
func receive(r *bufio.Reader, message any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return io.ErrUnexpectedEOF
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 {
		return io.EOF
	}
	if n > maxAnswer {
		return fmt.Errorf("%w: a page takes more than %d bytes to tell", ErrLimit, maxAnswer)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(body, message)
}
