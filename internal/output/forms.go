// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MinValue is how long a value must be to be masked.
const MinValue = 8

// formsOf returns the forms in which a value is looked for.
func formsOf(value string) []string {
	forms := []string{value}
	for _, escaped := range []string{url.QueryEscape(value), url.PathEscape(value)} {
		forms = append(forms, escaped, lowerEscapes(escaped))
	}
	if utf8.ValidString(value) {
		forms = append(forms, inJSON(value, false), inJSON(value, true))
	}
	if strings.Contains(value, "\n") {
		forms = append(forms, strings.ReplaceAll(value, "\n", "\r\n")) // as terminals write it
	}
	// In base64 a value looks different by what is before it. The characters that
	// it shares with its neighbours are not looked for.
	for before, first := range []int{0, 2, 3} {
		plain := append(make([]byte, before), value...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, encoding.EncodeToString(plain)[first:len(plain)*8/6])
		}
	}
	return forms
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(escaped string) string {
	parts := strings.Split(escaped, "%")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToLower(part[:2]) + part[2:]
	}
	return strings.Join(parts, "%")
}

func inJSON(value string, escapeHTML bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escapeHTML)
	if err := encoder.Encode(value); err != nil { // strings always have a form
		panic(err)
	}
	quoted := strings.TrimSuffix(out.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// rarest returns where in a value the two grams begin that ordinary text is
// least likely to have.
func rarest(value string) int {
	const near = 12 // the beginning is looked for from a gram on backwards
	best, least := 0, 1<<30
	for at := 0; at <= min(near, len(value)-4); at++ {
		sum := 0
		for _, b := range []byte(value[at : at+4]) {
			switch {
			case 'a' <= b && b <= 'z', b == ' ':
				sum += 4
			case '0' <= b && b <= '9', b == '-', b == '/', b == '.':
				sum += 2
			case 'A' <= b && b <= 'Z':
				sum++
			}
		}
		if sum < least {
			best, least = at, sum
		}
	}
	return best
}
