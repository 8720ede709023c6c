// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/toolserver/toolserver/internal/tools"
)

// Masked returns the end without secrets, as [Executor] records it.
func (f *Finished) Masked(mask func(string) string, formed bool) *Finished {
	masked := *f
	masked.mask(mask, formed)
	return &masked
}

// mask takes the secrets out of the texts. JSON content is what a caller asked to have
// exactly, and stays, unless it is a text in the form of another system.
func (f *Finished) mask(mask func(string) string, formed bool) {
	if mask == nil {
		return
	}
	f.Result.Content = maskedContent(f.Result.Content, mask)
	for i, c := range f.Result.Content {
		if content, ok := c.(tools.JSON); ok && formed && mask(string(content)) != string(content) {
			f.Result.Content = slices.Clone(f.Result.Content)
			f.Result.Content[i] = tools.JSON(maskedJSON(content, mask))
		}
	}
	if f.Failure != nil {
		failure := *f.Failure
		failure.Message = mask(failure.Message)
		f.Failure = &failure
	}
	if details := string(f.Result.Details); details != "" && mask(details) != details {
		f.Result.Details = maskedJSON(f.Result.Details, mask)
	}
}

// maskedContent returns content without secrets in its texts. Content without any
// is returned as it is.
func maskedContent(content []tools.Content, mask func(string) string) []tools.Content {
	copied := false
	for i, c := range content {
		text, ok := c.(tools.Text)
		if !ok {
			continue
		}
		if without := mask(string(text)); without != string(text) {
			if !copied {
				content, copied = append([]tools.Content(nil), content...), true
			}
			content[i] = tools.Text(without)
		}
	}
	return content
}

// MaskedJSON returns a JSON value without the secrets in its strings, as inputs are told.
func MaskedJSON(text []byte, mask func(string) string) []byte {
	if mask(string(text)) == string(text) {
		return text
	}
	return maskedJSON(text, mask)
}

// maskedJSON masks the strings of a JSON value; what cannot be read is left out.
func maskedJSON(text []byte, mask func(string) string) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	out, err := json.Marshal(maskedValue(value, mask))
	if err != nil {
		return nil
	}
	return out
}

func maskedValue(value any, mask func(string) string) any {
	switch value := value.(type) {
	case string:
		return mask(value)
	case []any:
		for i := range value {
			value[i] = maskedValue(value[i], mask)
		}
	case map[string]any:
		for key := range value {
			value[key] = maskedValue(value[key], mask)
		}
	}
	return value
}
