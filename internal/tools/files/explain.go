// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/toolserver/toolserver/internal/effects"
	"github.com/toolserver/toolserver/internal/history"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
)

// checkPath is said of a path that leads to nothing, and to nothing like it.
const checkPath = "Check the path: it is relative to the workspace root."

// explainOf is explain for a call that names these files: where one is not there,
// it asks whether another was meant.
func explainOf(env tools.Env, err error, names ...string) error {
	err = explain(err)
	failure, ok := errors.AsType[*tools.Failure](err)
	if !ok || failure.Code != "file_not_found" {
		return err
	}
	for _, name := range names {
		if near := effects.NearFiles(env, name); len(near) > 0 {
			for i := range near {
				near[i] = plain(near[i])
			}
			message := strings.TrimSuffix(strings.TrimSpace(failure.Message), checkPath)
			return tools.Failf(failure.Code, "%s %s", strings.TrimSpace(message), tools.DidYouMean(near, ""))
		}
	}
	return err
}

// explain gives failures with files the words agent runtimes act on.
func explain(err error) error {
	if _, ok := errors.AsType[*tools.Failure](err); ok {
		return err
	}
	switch {
	case errors.Is(err, workspace.ErrMoved):
		return tools.Failf("path_moved", "%v: a link has appeared in it. Nothing was touched; call again if it is what you mean.", err)
	case errors.Is(err, workspace.ErrChanged):
		return tools.Failf("stale_file", "%v. Nothing was written. Read the file again, then repeat the call.", err)
	case errors.Is(err, workspace.ErrTooDeep):
		return tools.Failf("path_too_deep", "%v. Nothing was made.", err)
	case errors.Is(err, workspace.ErrTooLarge):
		return tools.Failf("file_too_large", "%v", err)
	case errors.Is(err, history.ErrNotKept):
		return tools.Failf("not_kept", "%v. Nothing was taken back. To take back another call, name it with call: list_changes lists them.", err)
	case errors.Is(err, workspace.ErrOutside):
		return tools.Failf("outside_workspace", "%v. Only files of the workspace can be used.", err)
	case errors.Is(err, workspace.ErrNotRegular):
		return tools.Failf("not_a_file", "%v. Name a file instead.", err)
	case errors.Is(err, fs.ErrNotExist):
		return tools.Failf("file_not_found", "%v. "+checkPath, err)
	case errors.Is(err, fs.ErrExist):
		return tools.Failf("file_exists", "%v. Nothing was replaced.", err)
	case errors.Is(err, syscall.ENOTDIR):
		return tools.Failf("not_a_directory", "%v: a file is where a directory would have to be.", err)
	case errors.Is(err, syscall.EXDEV):
		return tools.Failf("other_file_system", "%v: they are on different file systems. Write it anew where it is to be, then delete it where it was.", err)
	case errors.Is(err, syscall.EBUSY):
		return tools.Failf("busy", "%v: a file system is mounted there, or it is in use. Leave it where it is.", err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return tools.Failf("name_too_long", "%v: a part of a path can have 255 bytes, all of it 4095.", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return tools.Failf("disk_full", "%v. The old content is as it was. Free some space, then repeat the call.", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return tools.Failf("permission_denied", "%v", err)
	}
	return err
}
