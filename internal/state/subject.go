// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Texts of callers become subjects of the engine part by part: letters, digits, "_" and
// "-" stand for themselves, every other byte is "=" and two digits. What would be too
// long is a digest, and the text itself travels with the data; so subjects are short, and
// different texts have different ones.
const (
	maxText   = 32 << 10
	maxParts  = 8
	maxToken  = 96
	emptyPart = "="
	longPart  = "=h" // no digits of an escape begin with a lower-case letter
	moreParts = "=r"
)

// subjectOf returns the subject of a text, and whether the text can be told from it.
func subjectOf(text string) (subject string, whole bool, err error) {
	if text == "" || len(text) > maxText {
		return "", false, fmt.Errorf("%w: a key, topic or subject has 1 to %d bytes, not %d", ErrTooLarge, maxText, len(text))
	}
	parts := strings.SplitN(text, "/", maxParts)
	whole = true
	for i, part := range parts {
		if i == maxParts-1 && strings.Contains(part, "/") {
			parts[i], whole = moreParts+digest(part), false
			continue
		}
		token := tokenOf(part)
		if len(token) > maxToken {
			token, whole = longPart+digest(part), false
		}
		parts[i] = token
	}
	return strings.Join(parts, "."), whole, nil
}

// filterOf returns the subjects of which those below a prefix are some.
func filterOf(prefix string) (string, error) {
	if prefix == "" {
		return ">", nil
	}
	if !strings.HasSuffix(prefix, "/") || len(prefix) > maxText {
		return "", fmt.Errorf("a prefix is empty or ends in %q, and has at most %d bytes", "/", maxText)
	}
	parts := strings.Split(strings.TrimSuffix(prefix, "/"), "/")
	if len(parts) > maxParts-1 {
		parts = parts[:maxParts-1]
	}
	subject, _, err := subjectOf(strings.Join(parts, "/") + "/")
	return strings.TrimSuffix(subject, emptyPart) + ">", err
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func tokenOf(part string) string {
	if part == "" {
		return emptyPart
	}
	var b strings.Builder
	for i := range len(part) {
		if c := part[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// textOf is the inverse of subjectOf, for subjects that tell their text.
func textOf(subject string) (text string, whole bool) {
	parts := strings.Split(subject, ".")
	for i, token := range parts {
		if strings.HasPrefix(token, longPart) || strings.HasPrefix(token, moreParts) {
			return "", false
		}
		part, ok := partOf(token)
		if !ok {
			return "", false // nothing of ours
		}
		parts[i] = part
	}
	return strings.Join(parts, "/"), true
}

func partOf(token string) (string, bool) {
	if token == emptyPart {
		return "", true
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			b.WriteByte(token[i])
			continue
		}
		if i+3 > len(token) {
			return "", false
		}
		c, err := hex.DecodeString(token[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	return b.String(), true
}

// pack returns the subject of a text with the data to send there.
func pack(text string, data []byte) (subject string, packed []byte, err error) {
	if len(data) > MaxValue {
		return "", nil, fmt.Errorf("%w: %d bytes, and %d are allowed", ErrTooLarge, len(data), MaxValue)
	}
	subject, whole, err := subjectOf(text)
	if err != nil || whole {
		return subject, data, err
	}
	packed = binary.AppendUvarint(nil, uint64(len(text)))
	packed = append(packed, text...)
	return subject, append(packed, data...), nil
}

// unpack is the inverse of pack. The text is empty where neither subject nor data tell
// it, as when the engine itself says that an entry is past its time.
func unpack(subject string, packed []byte) (text string, data []byte) {
	if text, whole := textOf(subject); whole {
		return text, packed
	}
	size, n := binary.Uvarint(packed)
	if n <= 0 || size > uint64(len(packed)-n) {
		return "", nil
	}
	return string(packed[n : n+int(size)]), packed[n+int(size):]
}
