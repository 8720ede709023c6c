// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package helper

const sysChmod = -1 // there is fchmodat alone
