// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package version tells what this program was built from.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// linked is set by the linker: -ldflags "-X github.com/toolserver/toolserver/internal/version.linked=v1.2.3".
var linked string

// Text returns the version of this program: as linked, or else of the
// module or commit it was built from.
func Text() string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return "devel-" + setting.Value[:12]
		}
	}
	return "devel"
}

// Line is versionText with what it was built with and for.
func Line() string {
	return fmt.Sprintf("toolserver %s %s %s/%s", Text(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
