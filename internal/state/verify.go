// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/minio/highwayhash"
)

// The engine drops what it cannot read and goes on without it. So its files are read
// here first, by the format of its store: a space is a directory with its configuration,
// a checksum of that, and blocks of records, each with a checksum of its own.
const (
	metaName   = "meta.inf"
	sumName    = "meta.sum"
	blocksName = "msgs"
	blockExt   = ".blk"

	recordHead   = 22 // length, number, time, length of the subject
	recordSum    = highwayhash.Size64
	headersBit   = 1 << 31 // of the length: headers follow, with a length of their own
	headersLen   = 4
	maxRecord    = 32 << 20
	maxComplains = 10
)

// A Report tells what is in a directory.
type Report struct {
	Spaces  []SpaceReport
	Clean   bool     // the last process that used it closed it
	Damages []string // what is not as it was written
}

// A SpaceReport tells what is in a space.
type SpaceReport struct {
	Name    string
	Log     bool
	Records int // with those that were replaced or removed, as long as they are in files
	Bytes   int64
}

// inspection reads a directory.
type inspection struct {
	d      *directory
	report Report
	// repair has the checksums of configurations written that a crash left behind.
	repair bool
}

// verify refuses a directory that is damaged. What only a crash leaves behind is none.
func (d *directory) verify() error {
	i := inspection{d: d, repair: true}
	if err := i.run(); err != nil {
		return err
	}
	if n := len(i.report.Damages); n > 0 {
		return damaged(d.path, strings.Join(i.report.Damages[:min(n, maxComplains)], "; "))
	}
	return nil
}

func (i *inspection) damage(format string, v ...any) {
	i.report.Damages = append(i.report.Damages, fmt.Sprintf(format, v...))
}

func (i *inspection) run() error {
	i.report.Clean = i.d.manifest.Blocks != nil
	streams := filepath.Join(i.d.path, streamsPath)
	entries, err := os.ReadDir(streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the state: %w", err)
	}
	there := make(map[string]bool)
	for _, entry := range entries {
		there[entry.Name()] = true
		if !slices.Contains(i.d.manifest.Streams, entry.Name()) {
			continue // a crash was quicker than our note: nobody was told that it is there
		}
		if err := i.stream(filepath.Join(streams, entry.Name()), entry.Name()); err != nil {
			return fmt.Errorf("the state: %w", err)
		}
	}
	for _, name := range i.d.manifest.Streams {
		if !there[name] {
			i.damage("%s is missing", filepath.Join(streams, name))
		}
	}
	for name, size := range i.d.manifest.Blocks {
		info, err := os.Stat(filepath.Join(streams, name))
		if err != nil {
			i.damage("%s is missing", filepath.Join(streams, name))
		} else if info.Size() != size {
			i.damage("%s has %d bytes, and had %d when it was closed", filepath.Join(streams, name), info.Size(), size)
		}
	}
	return nil
}

func (i *inspection) stream(dir, name string) error {
	if !i.hasConfig(dir, name) {
		return nil
	}
	blocks, err := blocksOf(dir)
	if err != nil {
		return err
	}
	report := SpaceReport{Name: name, Log: strings.HasPrefix(name, "LOG_")}
	if _, short, ok := strings.Cut(name, "-"); ok {
		report.Name = short
	}
	for n, block := range blocks {
		data, err := os.ReadFile(filepath.Join(dir, blocksName, block.name))
		if err != nil {
			return err
		}
		records, rest := readBlock(data, hasher(fmt.Sprintf("%s-%d", name, block.index)))
		report.Records += records
		report.Bytes += int64(len(data))
		// The end of the last block may be half a record, which a crash
		// interrupted: it was not acknowledged.
		last := n == len(blocks)-1
		if len(rest) > 0 && (i.report.Clean || !last || !torn(rest)) {
			i.damage("%s is damaged at byte %d of %d", filepath.Join(dir, blocksName, block.name), len(data)-len(rest), len(data))
		}
	}
	i.report.Spaces = append(i.report.Spaces, report)
	return nil
}

// hasConfig checks the configuration of a space. The engine writes it and then its checksum:
// between the two a crash leaves an older checksum, which would make the engine forget
// the space.
func (i *inspection) hasConfig(dir, name string) bool {
	var config struct {
		Name string `json:"name"`
	}
	text, err := os.ReadFile(filepath.Join(dir, metaName))
	if err != nil || json.Unmarshal(text, &config) != nil || config.Name != name {
		i.damage("%s does not tell what is there", filepath.Join(dir, metaName))
		return false
	}
	h := hasher(name)
	h.Write(text)
	want := hex.EncodeToString(h.Sum(nil))
	if got, err := os.ReadFile(filepath.Join(dir, sumName)); err == nil && string(got) == want {
		return true
	}
	if i.report.Clean {
		i.damage("%s is not what was written", filepath.Join(dir, metaName))
		return false
	}
	if i.repair {
		if err := os.WriteFile(filepath.Join(dir, sumName), []byte(want), 0o600); err != nil {
			i.damage("%s cannot be written: %v", filepath.Join(dir, sumName), err)
		}
	}
	return true
}

type block struct {
	name  string
	index int
}

// blocksOf lists the blocks of a space in their order.
func blocksOf(dir string) ([]block, error) {
	entries, err := os.ReadDir(filepath.Join(dir, blocksName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var blocks []block
	for _, entry := range entries {
		b := block{name: entry.Name()}
		if n, err := fmt.Sscanf(b.name, "%d"+blockExt, &b.index); err == nil && n == 1 && strings.HasSuffix(b.name, blockExt) {
			blocks = append(blocks, b)
		}
	}
	slices.SortFunc(blocks, func(a, b block) int { return a.index - b.index })
	return blocks, err
}

func hasher(of string) hash.Hash64 {
	key := sha256.Sum256([]byte(of))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // only for a key of another length
	}
	return h
}

// readBlock counts the records of a block, and returns what follows the last that is whole.
func readBlock(data []byte, h hash.Hash64) (records int, rest []byte) {
	for len(data) >= recordHead {
		length := binary.LittleEndian.Uint32(data)
		headers := length&headersBit != 0
		length &^= headersBit
		subject := int(binary.LittleEndian.Uint16(data[20:]))
		start := recordHead + subject
		if headers {
			start += headersLen
		}
		if length > maxRecord || int(length) > len(data) || int(length) < start+recordSum {
			break
		}
		end := int(length) - recordSum
		h.Reset()
		h.Write(data[4:20])
		h.Write(data[recordHead : recordHead+subject])
		h.Write(data[start:end])
		if !bytes.Equal(h.Sum(nil), data[end:length]) {
			break
		}
		records++
		data = data[length:]
	}
	return records, data
}

// torn reports whether the end of a block can be what a crash left of one record: less
// than it says, or space that was made for it and not filled.
func torn(rest []byte) bool {
	if len(rest) < recordHead || len(bytes.Trim(rest, "\x00")) == 0 {
		return true
	}
	length := binary.LittleEndian.Uint32(rest) &^ headersBit
	return int(length) >= len(rest) && length <= maxRecord
}
