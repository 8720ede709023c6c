// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// An archive reads the bytes of an archive from the messages of a stream.
type archive struct {
	in     *incoming[pb.UploadTreeRequest]
	data   []byte // of the last message, not read yet
	n      int64
	limit  int64
	sum    hash.Hash
	tail   []byte // the last bytes
	failed error  // why no more can be read, but for the end
}

// trailer is what an archive ends with, at least.
const trailer = 1024

func (a *archive) Read(p []byte) (int, error) {
	for len(a.data) == 0 {
		if err := a.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.data)
	a.data = a.data[n:]
	return n, nil
}

// more takes the next message.
func (a *archive) more() error {
	if a.failed != nil {
		return a.failed
	}
	message, err := a.in.next()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		a.failed = err
		return err
	}
	part, ok := message.GetPart().(*pb.UploadTreeRequest_Data)
	if !ok {
		a.failed = invalid("the stream has a second header, or a message without data: after the header comes data alone")
		return a.failed
	}
	a.data = part.Data
	a.n += int64(len(a.data))
	if a.n > 2*a.limit { // names and padding may take as much as the files
		a.failed = fmt.Errorf("the archive has more than %d bytes: %w", 2*a.limit, errTooMany)
		return a.failed
	}
	a.sum.Write(a.data)
	a.tail = append(a.tail, a.data[max(0, len(a.data)-trailer):]...)
	a.tail = append(a.tail[:0], a.tail[max(0, len(a.tail)-trailer):]...)
	return nil
}

// end reads what comes after the last entry, and makes sure that it is the end.
func (a *archive) end() error {
	for {
		if err := a.more(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if len(a.tail) < trailer || len(bytes.Trim(a.tail, "\x00")) > 0 {
		return invalid("the archive has no end, so that a part may be missing: a tar archive ends with 1024 zero bytes. What it has was written.")
	}
	return nil
}

// explain tells why an archive cannot be read on.
func (a *archive) explain(err error) error {
	switch {
	case a.failed != nil:
		return a.failed
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return invalid("the archive ends in the middle of an entry. What came before was written.")
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return invalid("the archive is malformed (%v): want a tar archive that is not compressed. What came before was written.", err)
	}
	return err
}
