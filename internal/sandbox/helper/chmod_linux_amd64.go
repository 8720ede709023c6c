// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

import "golang.org/x/sys/unix"

const sysChmod = unix.SYS_CHMOD
