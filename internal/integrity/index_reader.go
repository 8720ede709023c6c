// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/workspace"
)

// An index of git names the files of a work tree. Git lets no entry in that leads
// into its own directory, and does not look again when it reads an index: whoever
// writes one by hand has the next "git restore ." of a person write hooks. So it is
// read here as git's read-cache.c does. What git never writes is forged: two
// readers might read it differently.

const (
	maxIndex     = 256 << 20
	maxGitlinks  = 100_000  // of one index
	maxIndexName = 64 << 10 // the names that can be written have at most 4,096 bytes
	maxPart      = 1 << 10  // and their parts 255, or as many of two bytes

	indexHead  = 12 // signature, version, entries
	statData   = 40 // of an entry, before its hash
	statMode   = 24 // where in it the mode is
	typeMask   = 0o170000
	gitlink    = 0o160000
	maxBlocks  = 1 << 16 // that threads read
	extended   = 0x4000  // in the flags of an entry
	lengthMask = 0x0fff
)

// forged is what is wrong with an index that git did not write.
const forged = "it is none that git writes"

// indexFacts is what there is to know of an index.
type indexFacts struct {
	bad    string // what is wrong with it; empty: nothing
	shared string // the hash of the index that has the rest, in hexadecimal

	// links are the entries that are repositories, which git goes into to see
	// whether they have changed. renames says that one of them is called by an
	// entry of the shared index, whatever that was there.
	links   []string
	renames bool
}

// block is a part of the entries, for a thread to read.
type block struct {
	offset int64
	count  uint32
}

// indexReader reads an index by one size of hashes.
type indexReader struct {
	file   io.ReaderAt
	size   int64
	hash   int64
	all    bool              // each entry may be a repository
	seen   func(name []byte) // for tests
	blocks []block

	in      *bufio.Reader
	at      int64
	end     int64 // of what is read: git takes entries for such up to the last byte
	version uint32
	name    []byte // of the entry that was read last
	mode    uint32 // its mode
	links   []string
	renames bool
}

var (
	errForged = errors.New(forged)
	errEnd    = errors.New("it ends too early")
)

// read returns what there is to know of the index. One that git refuses has nothing
// wrong.
func (x *indexReader) read() (facts indexFacts, err error) {
	if x.size < indexHead+x.hash {
		return facts, nil
	}
	x.end = x.size - x.hash
	x.seek(0)
	head, err := x.take(indexHead)
	if err != nil {
		return facts, err
	}
	x.version = binary.BigEndian.Uint32(head[4:])
	entries := binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "DIRC" || x.version < 2 || x.version > 4 {
		return facts, nil
	}
	end, err := x.findBlocks()
	if err == nil {
		x.seek(indexHead)
		x.end = x.size
		facts.bad, err = x.entries(entries)
		if errors.Is(err, errEnd) {
			return x.cut() // git breaks down, or reads zeros from there on
		}
		x.end = x.size - x.hash
	}
	if err == nil && facts.bad == "" && end >= 0 && end != x.at {
		err = errForged
	}
	if err == nil && facts.bad == "" {
		facts.shared, err = x.extensions()
	}
	facts.links, facts.renames = x.links, x.renames
	if errors.Is(err, errForged) || errors.Is(err, errEnd) {
		return indexFacts{bad: forged}, nil
	}
	return facts, err
}

// cut judges a name that the end of the file has cut off.
func (x *indexReader) cut() (facts indexFacts, err error) {
	if leadsAway(x.name, 0) {
		facts.bad = entryText(x.name)
	}
	return facts, nil
}

func entryText(name []byte) string { return "its entry " + clip(string(name)) }

func (x *indexReader) seek(at int64) {
	section := io.NewSectionReader(x.file, at, x.size-at)
	if x.in == nil {
		x.in = bufio.NewReaderSize(section, 64<<10)
	} else {
		x.in.Reset(section)
	}
	x.at = at
}

// take returns the next bytes. They are good until more are read.
func (x *indexReader) take(n int64) ([]byte, error) {
	if n > x.end-x.at {
		return nil, errEnd
	}
	data, err := x.in.Peek(int(n))
	if err != nil {
		return nil, x.short(err)
	}
	x.in.Discard(int(n))
	x.at += n
	return data, nil
}

func (x *indexReader) skip(n int64) error {
	if n > x.end-x.at {
		return errEnd
	}
	_, err := x.in.Discard(int(n))
	x.at += n
	return x.short(err)
}

// short tells that a file has less than it had.
func (x *indexReader) short(err error) error {
	if errors.Is(err, io.EOF) {
		return workspace.ErrChanged
	}
	return err
}

// entries reads the entries, and returns what is wrong with them.
func (x *indexReader) entries(count uint32) (bad string, err error) {
	blocks, left := x.blocks, uint64(0)
	for i := range count {
		begins := i == 0
		for left == 0 && len(blocks) > 0 {
			if blocks[0].offset != x.at {
				return "", errForged
			}
			left, begins, blocks = uint64(blocks[0].count), true, blocks[1:]
		}
		if len(x.blocks) > 0 {
			if left == 0 {
				return "", errForged
			}
			left--
		}
		from, err := x.entry(i == 0, begins)
		if err != nil {
			return "", err
		}
		if x.seen != nil {
			x.seen(x.name)
		}
		if leadsAway(x.name, from) {
			return entryText(x.name), nil
		}
		switch isLink := x.mode&typeMask == gitlink; {
		case isLink && len(x.name) == 0:
			x.renames = true
		case isLink || x.all:
			if len(x.links) == maxGitlinks {
				return fmt.Sprintf("it has more than %d links to repositories", maxGitlinks), nil
			}
			x.links = append(x.links, string(x.name))
		}
	}
	for _, b := range blocks {
		left += uint64(b.count)
	}
	if left != 0 {
		return "", errForged
	}
	return "", nil
}

// entry reads one entry, and returns how much of its name is that of the one before.
func (x *indexReader) entry(first, begins bool) (from int, err error) {
	start := x.at
	head, err := x.take(statData + x.hash + 2)
	if err != nil {
		x.name = x.name[:0]
		return 0, err
	}
	x.mode = binary.BigEndian.Uint32(head[statMode:])
	flags := binary.BigEndian.Uint16(head[statData+x.hash:])
	if flags&extended != 0 {
		if err := x.skip(2); err != nil {
			return 0, err
		}
	}
	if x.version == 4 {
		strip, err := x.varint()
		if err != nil {
			return 0, err
		}
		if !first {
			if strip > uint64(len(x.name)) {
				return 0, errForged
			}
			from = len(x.name) - int(strip)
		}
		if begins && from != 0 {
			return 0, errForged // threads would read another name
		}
	}
	x.name = x.name[:from]
	if err := x.rest(int(flags & lengthMask)); err != nil {
		return 0, err
	}
	if x.version == 4 {
		return from, nil
	}
	// The NUL was read; there may be seven more.
	size := (x.at - start - 1 + 8) &^ 7
	return 0, x.skip(size - (x.at - start))
}

// rest reads the rest of a name, with the NUL behind it.
func (x *indexReader) rest(length int) error {
	if length == lengthMask { // or more
		for {
			part, err := x.in.ReadSlice(0)
			x.at += int64(len(part))
			x.name = append(x.name, part...)
			switch {
			case len(x.name) > maxIndexName:
				return errForged
			case err == nil:
				x.name = x.name[:len(x.name)-1]
				return nil
			case errors.Is(err, io.EOF) && x.at == x.end:
				return errEnd
			case !errors.Is(err, bufio.ErrBufferFull):
				return x.short(err)
			}
		}
	}
	if length < len(x.name) {
		return errForged
	}
	part, err := x.take(int64(length-len(x.name)) + 1)
	if errors.Is(err, errEnd) {
		left, err := x.take(x.end - x.at)
		left, _, _ = bytes.Cut(left, []byte{0})
		x.name = append(x.name, left...)
		return errors.Join(err, errEnd)
	}
	if err != nil {
		return err
	}
	if bytes.IndexByte(part, 0) != len(part)-1 {
		return errForged
	}
	x.name = append(x.name, part[:len(part)-1]...)
	return nil
}

func (x *indexReader) varint() (uint64, error) {
	b, err := x.take(1)
	if err != nil {
		return 0, err
	}
	value := uint64(b[0] & 0x7f)
	for b[0]&0x80 != 0 {
		if value > math.MaxUint32 {
			return 0, errForged
		}
		if b, err = x.take(1); err != nil {
			return 0, err
		}
		value = (value+1)<<7 + uint64(b[0]&0x7f)
	}
	return value, nil
}

// findBlocks finds what threads begin with: the end of the entries, which an
// extension before the hash at the end tells, and the blocks, which another behind
// the entries does. It returns -1 where there is no such end.
func (x *indexReader) findBlocks() (end int64, err error) {
	const size = 4 + 20 // whatever the hash
	tail := x.size - x.hash - 8 - size
	if tail < indexHead {
		return -1, nil
	}
	x.seek(tail)
	data, err := x.take(8 + 4)
	if err != nil {
		return 0, err
	}
	if string(data[:4]) != "EOIE" || binary.BigEndian.Uint32(data[4:]) != size {
		return -1, nil
	}
	end = int64(binary.BigEndian.Uint32(data[8:]))
	if end < indexHead || end >= tail {
		return 0, errForged
	}
	x.seek(end)
	for x.at+8 <= x.size-x.hash {
		head, err := x.take(8)
		if err != nil {
			return 0, err
		}
		length := int64(binary.BigEndian.Uint32(head[4:]))
		if string(head[:4]) != "IEOT" {
			if err := x.skip(length); err != nil {
				return 0, err
			}
			continue
		}
		if length < 4 || (length-4)/8 > maxBlocks {
			return 0, errForged
		}
		if _, err := x.take(4); err != nil { // its version
			return 0, err
		}
		for range (length - 4) / 8 {
			b, err := x.take(8)
			if err != nil {
				return 0, err
			}
			x.blocks = append(x.blocks, block{int64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])})
		}
		break
	}
	return end, nil
}

// extensions reads what is behind the entries.
func (x *indexReader) extensions() (shared string, err error) {
	for x.at+8 <= x.size-x.hash {
		head, err := x.take(8)
		if err != nil {
			return "", err
		}
		name, length := string(head[:4]), int64(binary.BigEndian.Uint32(head[4:]))
		if name == "link" {
			if shared != "" || length < x.hash {
				return "", errForged
			}
			base, err := x.take(x.hash)
			if err != nil {
				return "", err
			}
			shared = hex.EncodeToString(base)
			length -= x.hash
		}
		if err := x.skip(length); err != nil {
			return "", err
		}
	}
	if strings.Trim(shared, "0") == "" {
		return "", nil // it has no other
	}
	return shared, nil
}

// leadsAway reports whether git would never take a name into an index: it leads out
// of the work tree, or into the directory of git. What is before from was looked at
// with another name.
func leadsAway(name []byte, from int) bool {
	if len(name) > 0 && name[0] == '/' {
		return true
	}
	rest := name[bytes.LastIndexByte(name[:from], '/')+1:]
	for more := true; more; {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte{'/'})
		if len(part) <= maxPart && (string(part) == ".." || isDotGit(part)) {
			return true
		}
	}
	return false
}

// isDotGit reports whether a part of a name is .git, to any system of files.
func isDotGit(part []byte) bool {
	if len(part) < len(gitName) || part[0] != '.' && part[0]|0x20 != 'g' && part[0] < utf8.RuneSelf {
		return false
	}
	if bytes.ContainsFunc(part, func(r rune) bool { return r >= utf8.RuneSelf }) {
		part = bytes.Map(func(r rune) rune {
			if isIgnored(r) {
				return -1
			}
			return r
		}, part)
	}
	for _, name := range []string{gitName, "git~1"} {
		if len(part) < len(name) || !strings.EqualFold(string(part[:len(name)]), name) {
			continue
		}
		rest := bytes.TrimLeft(part[len(name):], ". ")
		if len(rest) == 0 || rest[0] == ':' || rest[0] == '\\' {
			return true
		}
	}
	return false
}

// isIgnored reports whether HFS+ does not see a character in a name.
func isIgnored(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}
