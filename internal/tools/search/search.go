// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package search is the family of tools that find files of the workspace by name
// and by what is in them. One room per tool.
package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	engine "github.com/toolserver/toolserver/internal/search"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// category is the family's name in specs.
const category = "search"

// Tools returns the family.
func Tools(engines *engine.Pool) []tools.Tool {
	return []tools.Tool{
		Glob(engines),
		Grep(engines),
	}
}

// maxText is how many bytes of text a result has.
const maxText = 60_000

// explain gives failures of a search the words agent runtimes act on.
func explain(err error, path string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tools.Failf("file_not_found", "%s: there is no such file or directory. Check the path: it is relative to the workspace root.", path)
	case errors.Is(err, fs.ErrPermission):
		return tools.Failf("permission_denied", "%v", err)
	case errors.Is(err, workspace.ErrOutside):
		return tools.Failf("outside_workspace", "%v. Only files of the workspace can be searched.", err)
	case errors.Is(err, workspace.ErrNotRegular):
		return tools.Failf("not_a_file", "%s: it is neither a file nor a directory.", path)
	}
	return tools.Failf("invalid_search", "%v", err)
}

// stopped reports whether a search ended because its context did.
func stopped(ctx context.Context, err error) bool { return err != nil && ctx.Err() != nil }

// shown returns a path as one line: names may have anything in them.
func shown(path string) string {
	if strings.ContainsFunc(path, unicode.IsControl) || !utf8.ValidString(path) {
		return strconv.Quote(path)
	}
	return path
}

// count says how many there are of something.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
