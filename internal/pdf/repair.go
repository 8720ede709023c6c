// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
)

const scanLen = 64 << 10 // bytes looked at together

// repair finds the objects of a file whose tables are wrong by going through
// all of it. The last object with a number is the one that counts.
func (d *Document) repair() error {
	d.repaired = true
	d.entries, d.held = make(map[int]entry), nil
	tables, err := d.scan()
	if err != nil {
		return err
	}
	old := d.trailer
	d.trailer = make(dict)
	for _, at := range slices.Backward(tables) {
		l := newLexer(d.from(at), lexerBuf)
		token, _ := l.token()
		o, _ := l.value(token, 0)
		if found, ok := o.(dict); ok {
			mergeTrailer(d.trailer, found)
		}
	}
	// Object streams hold objects, cross-reference streams are trailers, and
	// one that is called a catalog is the root where nothing else is.
	var catalog object
	var streams []int
	for _, num := range slices.Sorted(maps.Keys(d.entries)) {
		o, _, err := d.readObject(d.entries[num].offset)
		if d.failure != nil {
			return d.failure
		}
		if err != nil {
			continue
		}
		switch found := d.dictOf(o); found["Type"] {
		case name("ObjStm"):
			streams = append(streams, num)
		case name("XRef"):
			mergeTrailer(d.trailer, found)
		case name("Catalog"):
			catalog = ref{num: num}
		}
	}
	mergeTrailer(d.trailer, old)
	if d.trailer["Encrypt"] != nil && d.crypt == nil {
		if err := d.unlock(); err != nil {
			return err
		}
	}
	for _, num := range streams {
		s, err := d.hold(num)
		if d.failure != nil {
			return d.failure
		}
		if err != nil {
			continue
		}
		for i, held := range s.numbers {
			if err := d.add(held, entry{kind: inStream, offset: int64(num), index: int32(i)}); err != nil {
				return err
			}
			if catalog == nil && d.dict(ref{num: held})["Type"] == name("Catalog") {
				catalog = ref{num: held}
			}
		}
	}
	if d.dict(d.trailer["Root"])["Pages"] == nil && catalog != nil {
		d.trailer["Root"] = catalog
	}
	return d.failure
}

// dictOf is dict for what needs no resolving.
func (d *Document) dictOf(o object) dict {
	if _, ok := o.(ref); ok {
		return nil
	}
	return d.dict(o)
}

// mergeTrailer adds what is missing.
func mergeTrailer(to, from dict) {
	for _, key := range []name{"Root", "Encrypt", "ID"} {
		if to[key] == nil && from[key] != nil {
			to[key] = from[key]
		}
	}
}

// scan notes each "12 0 obj" of the file and returns where dictionaries follow
// the word trailer.
func (d *Document) scan() (trailers []int64, err error) {
	const overlap = 32 // longer than what is looked for
	buf := make([]byte, scanLen+overlap)
	for at := int64(0); at < d.size; at += scanLen {
		n, err := d.file.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return nil, err
		}
		part := buf[:n]
		for i := 0; ; {
			found := bytes.Index(part[i:], []byte("obj"))
			if found < 0 {
				break
			}
			i += found
			// What ends in the overlap of the last part was seen there.
			if num, gen, start, ok := before(part[:i]); ok && (at == 0 || i+3 > overlap) {
				if len(d.entries) >= maxEntries {
					return nil, fmt.Errorf("%w: more than %d objects", ErrLimit, maxEntries)
				}
				d.entries[num] = entry{kind: inFile, gen: int32(gen), offset: at + int64(start)}
			}
			i += 3
		}
		for i := 0; len(trailers) < maxTables; {
			found := bytes.Index(part[i:], []byte("trailer"))
			if found < 0 {
				break
			}
			i += found + len("trailer")
			trailers = append(trailers, at+int64(i))
		}
	}
	if len(d.entries) == 0 {
		return nil, fmt.Errorf("%w: there are no objects in it", ErrBroken)
	}
	return trailers, nil
}

// before reads the two numbers that end a text, and where they start.
func before(part []byte) (num, gen, start int, ok bool) {
	i := len(part)
	read := func() (value int, ok bool) {
		end := i
		for i > 0 && isSpace(part[i-1]) {
			i--
		}
		spaces := end - i
		scale := 1
		for end = i; i > 0 && part[i-1] >= '0' && part[i-1] <= '9' && end-i < 9; i-- {
			value += int(part[i-1]-'0') * scale
			scale *= 10
		}
		return value, end > i && (spaces > 0 || end == len(part))
	}
	gen, ok1 := read()
	num, ok2 := read()
	return num, gen, i, ok1 && ok2
}
