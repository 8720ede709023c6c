// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"strings"
	"unsafe"

	textencoding "golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// An encoding is how the characters of a file are bytes.
type encoding int

const (
	utf8Plain encoding = iota
	utf8Marked
	utf16Little
	utf16Big
)

var encodingNames = [...]string{"UTF-8", "UTF-8 with a byte order mark", "UTF-16 little-endian", "UTF-16 big-endian"}

func (e encoding) String() string { return encodingNames[e] }

var marks = map[encoding]string{utf8Marked: "\xEF\xBB\xBF", utf16Little: "\xFF\xFE", utf16Big: "\xFE\xFF"}

// wide are the encodings with two bytes a unit; they read and write the mark.
var wide = map[encoding]textencoding.Encoding{
	utf16Little: unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	utf16Big:    unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
}

// utf32Mark begins as UTF-16 does.
const utf32Mark = "\xFF\xFE\x00\x00"

// decodeText returns the text of a file that is to be changed, and how to
// encode it again. Bytes that are not valid in UTF-8 are kept as they are.
func decodeText(name string, data []byte) (string, encoding, error) {
	for _, e := range []encoding{utf8Marked, utf16Little, utf16Big} {
		rest, ok := bytes.CutPrefix(data, []byte(marks[e]))
		if !ok || bytes.HasPrefix(data, []byte(utf32Mark)) {
			continue
		}
		if e == utf8Marked {
			return asString(rest), e, nil
		}
		text, err := wide[e].NewDecoder().Bytes(data)
		if err != nil || !bytes.Equal(encodeText(asString(text), e), data) {
			return "", e, tools.Failf("bad_encoding", "%s is %s with bytes that are no characters: it cannot be changed without damage.", name, e)
		}
		return asString(text), e, nil
	}
	if bytes.IndexByte(data[:min(len(data), sniffLen)], 0) >= 0 {
		return "", 0, binaryFile(name, data, "changed")
	}
	return asString(data), utf8Plain, nil
}

// asString and asBytes share the memory of what they are given, which nobody
// changes: files are large, and copying them would cost as much as writing them.
func asString(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

func asBytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

func encodeText(text string, e encoding) []byte {
	switch e {
	case utf8Plain:
		return asBytes(text)
	case utf8Marked:
		return []byte(marks[e] + text)
	}
	data, _ := wide[e].NewEncoder().Bytes(asBytes(text)) // which never fails
	return data
}

// usesCRLF reports whether most lines of a text end with CRLF.
func usesCRLF(text string) bool {
	crlf := strings.Count(text, "\r\n")
	return crlf > 0 && 2*crlf > strings.Count(text, "\n")
}

func toLF(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

func toCRLF(text string) string { return strings.ReplaceAll(toLF(text), "\n", "\r\n") }

// kinds tells what files are by how they begin.
var kinds = []struct{ begins, kind string }{
	{"\x89PNG\r\n\x1a\n", "a PNG image"}, {"\xFF\xD8\xFF", "a JPEG image"}, {"GIF87a", "a GIF image"}, {"GIF89a", "a GIF image"},
	{"BM", "a BMP image"}, {"II*\x00", "a TIFF image"}, {"MM\x00*", "a TIFF image"}, {"\x00\x00\x01\x00", "an icon"},
	{"%PDF-", "a PDF document"}, {"PK\x03\x04", "a ZIP archive, or a document that is one inside"}, {"PK\x05\x06", "an empty ZIP archive"},
	{"\x1f\x8b", "gzip data"}, {"BZh", "bzip2 data"}, {"\xFD7zXZ\x00", "xz data"}, {"\x28\xB5\x2F\xFD", "zstd data"}, {"7z\xBC\xAF\x27\x1C", "a 7-Zip archive"},
	{"\x7fELF", "an ELF program or library"}, {"MZ", "a Windows program or library"}, {"\xCF\xFA\xED\xFE", "a macOS program or library"},
	{"\xCA\xFE\xBA\xBE", "a Java class or a macOS program"}, {"\x00asm", "a WebAssembly module"}, {"!<arch>\n", "a library archive"},
	{"SQLite format 3\x00", "an SQLite database"}, {"ID3", "an MP3 recording"}, {"OggS", "an Ogg recording"}, {"fLaC", "a FLAC recording"},
	{"\x1A\x45\xDF\xA3", "a Matroska or WebM video"}, {"wOFF", "a font"}, {"wOF2", "a font"}, {"\x00\x01\x00\x00\x00", "a font"}, {"OTTO", "a font"},
	{utf32Mark, "text in UTF-32"}, {"\x00\x00\xFE\xFF", "text in UTF-32"},
}

// kindOfData says what binary data is.
func kindOfData(data []byte) string {
	for _, k := range kinds {
		if strings.HasPrefix(string(data[:min(len(data), 16)]), k.begins) {
			return k.kind
		}
	}
	switch {
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "a WebP image"
	case len(data) >= 12 && string(data[:4]) == "RIFF":
		return "a WAV or AVI recording"
	case len(data) >= 12 && string(data[4:8]) == "ftyp":
		return "an MP4 or HEIF file"
	case len(data) >= 262 && string(data[257:262]) == "ustar":
		return "a tar archive"
	case isWide(data[:min(len(data), sniffLen)]):
		return "it looks like UTF-16, but has no byte order mark"
	}
	return "it has NUL bytes"
}

// isWide reports whether every other byte of data is NUL, and none between.
func isWide(data []byte) bool {
	var zeros [2]int
	for i, b := range data {
		if b == 0 {
			zeros[i&1]++
		}
	}
	half := len(data) / 2
	return half > 1 && (zeros[0] == 0 && zeros[1] == half || zeros[1] == 0 && zeros[0] >= half)
}

// binaryFile refuses what is no text.
func binaryFile(name string, head []byte, done string) error {
	more := ""
	if done == "read" {
		more = ": a command such as file or xxd tells more of the others"
	}
	return tools.Failf("binary_file", "%s is a binary file: %s. Only text can be %s%s.", name, kindOfData(head), done, more)
}

// visible returns text as valid UTF-8, for people and models.
func visible(text string) string { return output.ValidText(text) }

// lineCount counts the lines of a text; a last one without an ending counts.
func lineCount(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
