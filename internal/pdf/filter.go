// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

const (
	maxFilters = 8        // one after the other
	maxStream  = 32 << 20 // bytes that come out of one
	maxRow     = 1 << 20  // bytes of a row that a predictor works on
)

// decode returns the data of a stream, decrypted and with its filters undone.
// It is read as far as it goes: data that is cut or damaged ends where it does.
func (d *Document) decode(s stream) (io.Reader, error) {
	data := d.raw(s)
	if d.crypt != nil && s.dict["Type"] != name("XRef") {
		var err error
		if data, err = d.crypt.decrypt(data, s); err != nil {
			return nil, err
		}
	}
	return d.filtered(data, s)
}

// decodePlain is decode for what is never encrypted.
func (d *Document) decodePlain(s stream) (io.Reader, error) { return d.filtered(d.raw(s), s) }

// raw returns the bytes of a stream as they are in the file.
func (d *Document) raw(s stream) io.Reader {
	return io.NewSectionReader(d.file, s.offset, d.length(s))
}

// length returns how many bytes a stream has: as many as it says, if that is
// where it ends.
func (d *Document) length(s stream) int64 {
	if n, ok := integer(d.resolve(s.dict["Length"])); ok && n >= 0 && int64(n) <= d.size-s.offset {
		tail := make([]byte, 16)
		got, _ := d.file.ReadAt(tail, s.offset+int64(n))
		if bytes.HasPrefix(bytes.TrimLeft(tail[:got], "\r\n \t"), []byte("endstream")) {
			return int64(n)
		}
	}
	const end = "endstream"
	buf := make([]byte, scanLen+len(end))
	for at := s.offset; at < d.size; at += scanLen {
		n, _ := d.file.ReadAt(buf, at)
		if i := bytes.Index(buf[:n], []byte(end)); i >= 0 {
			return at + int64(i) - s.offset
		}
		if d.failure != nil {
			return 0
		}
	}
	return d.size - s.offset
}

// filtered undoes the filters of a stream.
func (d *Document) filtered(data io.Reader, s stream) (io.Reader, error) {
	filters := d.list(s.dict["Filter"])
	parms := d.list(s.dict["DecodeParms"])
	if len(filters) > maxFilters {
		return nil, fmt.Errorf("%w: a stream has more than %d filters", ErrLimit, maxFilters)
	}
	for i, f := range filters {
		var parm dict
		if i < len(parms) {
			parm = d.dict(parms[i])
		}
		filter, _ := d.resolve(f).(name)
		var err error
		if data, err = d.filter(data, filter, parm); err != nil {
			return nil, err
		}
		data = &counted{in: data, d: d}
	}
	return data, nil
}

// list returns what is an array, or the one thing that stands for an array.
func (d *Document) list(o object) array {
	switch o := d.resolve(o).(type) {
	case nil:
		return nil
	case array:
		return o
	default:
		return array{o}
	}
}

// filter undoes one filter.
func (d *Document) filter(data io.Reader, filter name, parm dict) (io.Reader, error) {
	switch filter {
	case "FlateDecode", "Fl":
		in := bufio.NewReaderSize(data, 4<<10)
		if head, err := in.Peek(2); err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			_, _ = in.Discard(2) // the head of zlib; its sum at the end is not checked
		}
		return d.predicted(untilDamage{flate.NewReader(in)}, parm)
	case "LZWDecode", "LZW":
		early := 1
		if n, ok := integer(d.resolve(parm["EarlyChange"])); ok {
			early = n & 1
		}
		return d.predicted(newStepReader(data, newLZW(early).step), parm)
	case "ASCIIHexDecode", "AHx":
		return newStepReader(data, stepHex), nil
	case "ASCII85Decode", "A85":
		return newStepReader(data, step85), nil
	case "RunLengthDecode", "RL":
		return newStepReader(data, stepRuns), nil
	case "Crypt": // which one was seen to in decrypt
		return data, nil
	}
	return nil, fmt.Errorf("%w: its data is %q, which holds no text", ErrBroken, string(filter))
}

// counted is what comes out of a filter.
type counted struct {
	in io.Reader
	d  *Document
	n  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err2 := c.d.spend(&c.d.decoded, n, maxDecoded, "bytes come out of its streams"); err2 != nil {
		return 0, err2
	}
	if c.n += int64(n); c.n > maxStream {
		return 0, fmt.Errorf("%w: more than %d bytes come out of a stream", ErrLimit, maxStream)
	}
	return n, err
}

// untilDamage ends where what was compressed is damaged or cut.
type untilDamage struct{ in io.Reader }

func (u untilDamage) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// A stepReader is a filter that appends what comes next to out.
type stepReader struct {
	in   *bufio.Reader
	step func(in *bufio.Reader, out []byte) ([]byte, error)
	out  []byte
	at   int // of what was read
	err  error
}

func newStepReader(in io.Reader, step func(*bufio.Reader, []byte) ([]byte, error)) *stepReader {
	return &stepReader{in: bufio.NewReaderSize(in, 4<<10), step: step}
}

func (s *stepReader) Read(p []byte) (int, error) {
	if s.at == len(s.out) {
		s.out, s.at = s.out[:0], 0
		for len(s.out) < 4<<10 && s.err == nil {
			s.out, s.err = s.step(s.in, s.out)
		}
	}
	n := copy(p, s.out[s.at:])
	s.at += n
	if n == 0 && len(p) > 0 {
		return 0, s.err
	}
	return n, nil
}

func stepHex(in *bufio.Reader, out []byte) ([]byte, error) {
	value, digits := 0, 0
	for digits < 2 {
		c, err := in.ReadByte()
		if err != nil || c == '>' {
			if digits == 1 {
				out = append(out, byte(value<<4))
			}
			if err == nil {
				err = io.EOF
			}
			return out, err
		}
		if digit := unhex(c); digit >= 0 {
			value = value<<4 | digit
			digits++
		}
	}
	return append(out, byte(value)), nil
}

func step85(in *bufio.Reader, out []byte) ([]byte, error) {
	value, digits := uint32(0), 0
	for digits < 5 {
		c, err := in.ReadByte()
		switch {
		case err != nil || c == '~':
			for i := digits; i < 5; i++ {
				value = value*85 + 84
			}
			for i := range digits - 1 {
				out = append(out, byte(value>>(24-8*i)))
			}
			if err == nil {
				err = io.EOF
			}
			return out, err
		case c == 'z' && digits == 0:
			return append(out, 0, 0, 0, 0), nil
		case c >= '!' && c <= 'u':
			value = value*85 + uint32(c-'!')
			digits++
		}
	}
	return append(out, byte(value>>24), byte(value>>16), byte(value>>8), byte(value)), nil
}

func stepRuns(in *bufio.Reader, out []byte) ([]byte, error) {
	n, err := in.ReadByte()
	switch {
	case err != nil:
		return out, err
	case n == 128:
		return out, io.EOF
	case n > 128:
		c, err := in.ReadByte()
		if err != nil {
			return out, err
		}
		for range 257 - int(n) {
			out = append(out, c)
		}
		return out, nil
	}
	for range int(n) + 1 {
		c, err := in.ReadByte()
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// lzw is the state of LZWDecode, which is that of TIFF: the high bits first,
// and codes that become longer one early.
type lzw struct {
	early  int
	bits   uint32
	have   uint
	width  uint
	next   int // code that is made next
	last   int // code that came last, or -1
	prefix [4096]uint16
	suffix [4096]byte
	buf    [4096]byte
}

const (
	lzwClear = 256
	lzwEnd   = 257
)

func newLZW(early int) *lzw {
	z := &lzw{early: early}
	z.clear()
	return z
}

func (z *lzw) clear() { z.width, z.next, z.last = 9, lzwEnd+1, -1 }

func (z *lzw) step(in *bufio.Reader, out []byte) ([]byte, error) {
	for z.have < z.width {
		c, err := in.ReadByte()
		if err != nil {
			return out, err
		}
		z.bits, z.have = z.bits<<8|uint32(c), z.have+8
	}
	z.have -= z.width
	code := int(z.bits>>z.have) & (1<<z.width - 1)
	switch {
	case code == lzwClear:
		z.clear()
		return out, nil
	case code == lzwEnd, code > z.next, code == z.next && z.last < 0:
		return out, io.EOF
	}
	// The text of a code is found from its end.
	at, c := len(z.buf), code
	if code == z.next { // the one that is being made: the last one and its own beginning
		at--
		c = z.last
	}
	for c > lzwEnd {
		at--
		z.buf[at] = z.suffix[c]
		c = int(z.prefix[c])
	}
	at--
	z.buf[at] = byte(c)
	if code == z.next {
		z.buf[len(z.buf)-1] = byte(c)
	}
	out = append(out, z.buf[at:]...)
	if z.last >= 0 && z.next < len(z.prefix) {
		z.prefix[z.next], z.suffix[z.next] = uint16(z.last), byte(c)
		z.next++
		if z.next+z.early >= 1<<z.width && z.width < 12 {
			z.width++
		}
	}
	z.last = code
	return out, nil
}

// predicted undoes the predictor of Flate and LZW.
func (d *Document) predicted(data io.Reader, parm dict) (io.Reader, error) {
	value := func(key name, otherwise int) int {
		if n, ok := integer(d.resolve(parm[key])); ok && n > 0 {
			return n
		}
		return otherwise
	}
	predictor := value("Predictor", 1)
	if predictor == 1 {
		return data, nil
	}
	colors, bits, columns := value("Colors", 1), value("BitsPerComponent", 8), value("Columns", 1)
	if colors > 32 || bits > 32 || columns > maxRow || colors*bits*columns/8 > maxRow {
		return nil, fmt.Errorf("%w: the rows of a predictor have more than %d bytes", ErrLimit, maxRow)
	}
	p := &predictorRows{pixel: max(1, colors*bits/8), row: make([]byte, (colors*bits*columns+7)/8)}
	if predictor < 10 {
		if bits != 8 {
			return nil, fmt.Errorf("%w: a predictor of %d bits", ErrBroken, bits)
		}
		return newStepReader(data, p.tiff), nil
	}
	p.above = make([]byte, len(p.row))
	return newStepReader(data, p.png), nil
}

type predictorRows struct {
	pixel      int // bytes
	row, above []byte
}

// fill reads a row, perhaps the part of one that there is.
func (p *predictorRows) fill(in *bufio.Reader) ([]byte, error) {
	n, err := io.ReadFull(in, p.row)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return p.row[:n], err
}

func (p *predictorRows) tiff(in *bufio.Reader, out []byte) ([]byte, error) {
	row, err := p.fill(in)
	for i := p.pixel; i < len(row); i++ {
		row[i] += row[i-p.pixel]
	}
	return append(out, row...), err
}

func (p *predictorRows) png(in *bufio.Reader, out []byte) ([]byte, error) {
	kind, err := in.ReadByte()
	if err != nil {
		return out, err
	}
	row, err := p.fill(in)
	for i := range row {
		var left, corner byte
		if i >= p.pixel {
			left, corner = row[i-p.pixel], p.above[i-p.pixel]
		}
		switch kind {
		case 1:
			row[i] += left
		case 2:
			row[i] += p.above[i]
		case 3:
			row[i] += byte((int(left) + int(p.above[i])) / 2)
		case 4:
			row[i] += paeth(int(left), int(p.above[i]), int(corner))
		}
	}
	out = append(out, row...)
	p.row, p.above = p.above, p.row
	return out, err
}

func paeth(left, up, corner int) byte {
	distance := func(n int) int { return max(n-(left+up-corner), left+up-corner-n) }
	switch {
	case distance(left) <= distance(up) && distance(left) <= distance(corner):
		return byte(left)
	case distance(up) <= distance(corner):
		return byte(up)
	}
	return byte(corner)
}
