// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Secret returns what is in a file with a secret: one line.
func Secret(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Size() > 64<<10 {
		return "", fmt.Errorf("%s has %d bytes: want a secret of at most 64 KiB", file, info.Size())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", errors.New(file + " has no secret of one line in it")
	}
	return text, nil
}
