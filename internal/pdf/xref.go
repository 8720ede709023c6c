// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// An entry tells where an object is.
type entry struct {
	kind   byte  // free, inFile or inStream
	gen    int32 // of an object in the file
	offset int64 // in the file; or the number of the object stream
	index  int32 // in the object stream
}

const (
	free byte = iota
	inFile
	inStream
)

const (
	maxEntries  = 500_000 // objects of a document
	maxTables   = 4096    // cross-reference tables: one for each time it was saved
	maxDeep     = 16      // objects needed to load an object
	maxHeld     = 16 << 20
	tailLen     = 2048
	maxXrefCell = 8 // bytes of a field in a cross-reference stream
)

// add notes where an object is, unless a newer table did.
func (d *Document) add(num int, e entry) error {
	if _, known := d.entries[num]; known || num < 0 {
		return nil
	}
	if len(d.entries) >= maxEntries {
		return fmt.Errorf("%w: more than %d objects", ErrLimit, maxEntries)
	}
	d.entries[num] = e
	return nil
}

// readTables reads the cross-reference tables, the newest first.
func (d *Document) readTables() error {
	tail := make([]byte, min(d.size, tailLen))
	if _, err := d.file.ReadAt(tail, d.size-int64(len(tail))); err != nil && err != io.EOF {
		return err
	}
	at := bytes.LastIndex(tail, []byte("startxref"))
	if at < 0 {
		return fmt.Errorf("%w: there is no startxref at its end", ErrBroken)
	}
	first, err := newLexer(bytes.NewReader(tail[at+len("startxref"):]), lexerBuf).token()
	if err != nil {
		return fmt.Errorf("%w: nothing follows startxref", ErrBroken)
	}
	queue, seen := []object{first}, make(map[int]bool)
	for len(queue) > 0 {
		offset, ok := integer(queue[0])
		queue = queue[1:]
		if !ok || offset < 0 || int64(offset) >= d.size || len(seen) >= maxTables {
			return fmt.Errorf("%w: a cross-reference table is outside of the file", ErrBroken)
		}
		if seen[offset] {
			continue
		}
		seen[offset] = true
		trailer, err := d.readTable(int64(offset))
		if err != nil {
			return err
		}
		if d.trailer == nil {
			d.trailer = trailer
		}
		for _, key := range []name{"XRefStm", "Prev"} { // in this order: the stream belongs to this table
			if next, ok := trailer[key]; ok {
				queue = append(queue, next)
			}
		}
	}
	return d.unlock()
}

// readTable reads one table, or the stream that is one, and returns its trailer.
func (d *Document) readTable(offset int64) (dict, error) {
	l := newLexer(d.from(offset), contentBuf)
	first, err := l.token()
	if err != nil {
		return nil, fmt.Errorf("%w: there is no cross-reference table at %d", ErrBroken, offset)
	}
	if first != keyword("xref") {
		return d.readXrefStream(offset)
	}
	for {
		l.room = maxObject
		token, err := l.token()
		if err != nil {
			return nil, fmt.Errorf("%w: a cross-reference table has no end", ErrBroken)
		}
		if token == keyword("trailer") {
			break
		}
		num, ok1 := integer(token)
		second, _ := l.token()
		count, ok2 := integer(second)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("%w: a cross-reference table has no numbers", ErrBroken)
		}
		for i := range count {
			l.room = maxObject
			at, err1 := l.token()
			gen, err2 := l.token()
			kind, err3 := l.token()
			if err := errors.Join(err1, err2, err3); err != nil {
				return nil, fmt.Errorf("%w: a cross-reference table is cut", ErrBroken)
			}
			e := entry{kind: free}
			if generation, ok := integer(gen); ok && kind == keyword("n") {
				e = entry{kind: inFile, gen: int32(generation), offset: int64(decimal(at))}
			}
			if err := d.add(num+i, e); err != nil {
				return nil, err
			}
		}
	}
	token, err := l.token()
	if err != nil {
		return nil, fmt.Errorf("%w: there is no trailer", ErrBroken)
	}
	o, err := l.value(token, 0)
	trailer, ok := o.(dict)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: there is no trailer", ErrBroken)
	}
	return trailer, nil
}

// readXrefStream reads a table that is a stream.
func (d *Document) readXrefStream(offset int64) (dict, error) {
	o, _, err := d.readObject(offset)
	if err != nil {
		return nil, err
	}
	s, ok := o.(stream)
	if !ok || s.dict["Type"] != name("XRef") {
		return nil, fmt.Errorf("%w: there is no cross-reference table at %d", ErrBroken, offset)
	}
	widths, _ := s.dict["W"].(array)
	var w [3]int
	for i := range w {
		if i >= len(widths) {
			return nil, fmt.Errorf("%w: a cross-reference stream has no widths", ErrBroken)
		}
		n, ok := integer(widths[i])
		if !ok || n < 0 || n > maxXrefCell {
			return nil, fmt.Errorf("%w: a cross-reference stream has wrong widths", ErrBroken)
		}
		w[i] = n
	}
	index, _ := s.dict["Index"].(array)
	if index == nil {
		index = array{0.0, s.dict["Size"]}
	}
	data, err := d.decodePlain(s)
	if err != nil {
		return nil, err
	}
	row := make([]byte, w[0]+w[1]+w[2])
	if len(row) == 0 {
		return nil, fmt.Errorf("%w: a cross-reference stream has wrong widths", ErrBroken)
	}
	for i := 0; i+1 < len(index); i += 2 {
		num, ok1 := integer(index[i])
		count, ok2 := integer(index[i+1])
		for n := 0; ok1 && ok2 && n < count; n++ {
			if _, err := io.ReadFull(data, row); err != nil {
				return s.dict, d.failure // one that is cut is used as far as it goes
			}
			if err := d.add(num+n, xrefEntry(row, w)); err != nil {
				return nil, err
			}
		}
	}
	return s.dict, nil
}

func xrefEntry(row []byte, w [3]int) entry {
	field := func(start, n int) (v int64) {
		for _, c := range row[start : start+n] {
			v = v<<8 | int64(c)
		}
		return v
	}
	kind, second, third := int64(1), field(w[0], w[1]), field(w[0]+w[1], w[2])
	if w[0] > 0 {
		kind = field(0, w[0])
	}
	switch kind {
	case 1:
		return entry{kind: inFile, gen: int32(third), offset: second}
	case 2:
		return entry{kind: inStream, offset: second, index: int32(third)}
	}
	return entry{kind: free}
}

// readObject reads the object at an offset.
func (d *Document) readObject(offset int64) (object, ref, error) {
	if offset < 0 || offset >= d.size {
		return nil, ref{}, fmt.Errorf("%w: an object is outside of the file", ErrBroken)
	}
	if err := d.spend(&d.loaded, 1, maxLoaded, "objects would have to be read"); err != nil {
		return nil, ref{}, err
	}
	l := d.lexerAt(offset)
	var id ref
	for _, n := range []*int{&id.num, &id.gen} {
		token, _ := l.token()
		v, ok := integer(token)
		if !ok {
			return nil, id, fmt.Errorf("%w: there is no object at %d", ErrBroken, offset)
		}
		*n = v
	}
	if token, _ := l.token(); token != keyword("obj") {
		return nil, id, fmt.Errorf("%w: there is no object at %d", ErrBroken, offset)
	}
	items, end, err := l.items(0)
	if err != nil {
		return nil, id, err
	}
	if len(items) == 0 {
		return nil, id, nil
	}
	if held, ok := items[0].(dict); ok && end == "stream" {
		// The data begins after one end of a line.
		if c, err := l.take(); err == nil && c == '\r' {
			c, err = l.take()
			if err == nil && c != '\n' {
				l.back()
			}
		} else if err == nil && c != '\n' {
			l.back()
		}
		return stream{dict: held, ref: id, offset: offset + l.pos}, id, nil
	}
	return items[0], id, nil
}

// lexerAt returns the one lexer for objects of the file: reading one does not
// need another.
func (d *Document) lexerAt(offset int64) *lexer {
	if d.lexer == nil {
		d.lexer = newLexer(nil, lexerBuf)
	}
	d.lexer.in.Reset(d.from(offset))
	d.lexer.pos, d.lexer.room = 0, maxObject
	return d.lexer
}

// load returns an object by its number. What is not there is nil, as is what
// cannot be read; where that ends all work, d.failure says so.
func (d *Document) load(num int) object {
	e, ok := d.entries[num]
	if !ok || e.kind == free || d.depth >= maxDeep || d.failure != nil {
		return nil
	}
	d.depth++
	defer func() { d.depth-- }()
	if e.kind == inStream {
		return d.loadHeld(int(e.offset), int(e.index), num)
	}
	o, id, err := d.readObject(e.offset)
	if err != nil || id.num != num {
		if d.failure != nil || d.repaired || errors.Is(err, ErrLimit) || d.repair() != nil {
			return nil
		}
		return d.load(num)
	}
	return o
}

// resolve returns what an object refers to.
func (d *Document) resolve(o object) object {
	for range maxDeep {
		r, ok := o.(ref)
		if !ok {
			return o
		}
		o = d.load(r.num)
	}
	return nil
}

// dict returns the dictionary an object is or has, perhaps nil.
func (d *Document) dict(o object) dict {
	switch o := d.resolve(o).(type) {
	case dict:
		return o
	case stream:
		return o.dict
	}
	return nil
}

// A heldStream is an object stream: many objects in one.
type heldStream struct {
	num     int
	data    []byte
	numbers []int // of the objects
	offsets []int
}

// loadHeld returns an object of an object stream.
func (d *Document) loadHeld(streamNum, index, num int) object {
	s, err := d.hold(streamNum)
	if err != nil {
		return nil
	}
	if index < 0 || index >= len(s.numbers) || s.numbers[index] != num {
		if index = slices.Index(s.numbers, num); index < 0 {
			return nil
		}
	}
	if d.spend(&d.loaded, 1, maxLoaded, "objects would have to be read") != nil {
		return nil
	}
	l := newLexer(bytes.NewReader(s.data[s.offsets[index]:]), lexerBuf)
	items, _, err := l.items(0)
	if err != nil || len(items) == 0 {
		return nil
	}
	return items[0]
}

// hold decodes an object stream. The last ones are kept, as far as they fit.
func (d *Document) hold(num int) (heldStream, error) {
	for i, s := range d.held {
		if s.num == num {
			copy(d.held[1:i+1], d.held[:i])
			d.held[0] = s
			return s, nil
		}
	}
	if d.entries[num].kind != inFile { // an object stream is not inside of another
		return heldStream{}, fmt.Errorf("%w: there is no object stream %d", ErrBroken, num)
	}
	source, ok := d.load(num).(stream)
	if !ok {
		return heldStream{}, fmt.Errorf("%w: there is no object stream %d", ErrBroken, num)
	}
	decoded, err := d.decode(source)
	if err != nil {
		return heldStream{}, err
	}
	data, err := io.ReadAll(io.LimitReader(decoded, maxHeld+1))
	if err != nil {
		return heldStream{}, err
	}
	if len(data) > maxHeld {
		return heldStream{}, fmt.Errorf("%w: an object stream has more than %d bytes", ErrLimit, maxHeld)
	}
	s := heldStream{num: num, data: data}
	count, _ := integer(d.resolve(source.dict["N"]))
	first, _ := integer(d.resolve(source.dict["First"]))
	l := newLexer(bytes.NewReader(data), contentBuf)
	for range min(count, maxEntries) {
		l.room = maxObject
		a, _ := l.token()
		b, _ := l.token()
		number, ok1 := integer(a)
		offset, ok2 := integer(b)
		if !ok1 || !ok2 || first+offset < 0 || first+offset > len(data) {
			break
		}
		s.numbers, s.offsets = append(s.numbers, number), append(s.offsets, first+offset)
	}
	d.held = slices.Insert(d.held, 0, s)
	total := 0
	for i, s := range d.held {
		if total += len(s.data) + 16*len(s.numbers); i > 0 && total > maxHeld {
			clear(d.held[i:])
			d.held = d.held[:i]
			break
		}
	}
	return s, nil
}
