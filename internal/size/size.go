// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package size has sizes as people write them, so that a package can say what an
// operator may set, and take it as it was read.
package size

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is a number of bytes.
type Bytes int64

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

// UnmarshalText reads a number of bytes, or a number with a unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	for _, unit := range units {
		number, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n > (1<<62)/unit.bytes || n < -(1<<62)/unit.bytes {
			break
		}
		*b = Bytes(n * unit.bytes)
		return nil
	}
	return fmt.Errorf(`%q is not a size: want bytes, or a number with KiB, MiB or GiB, such as "4MiB"`, text)
}

// String writes the size with the largest unit that divides it.
func (b Bytes) String() string {
	for _, unit := range []int{2, 1, 0} {
		if u := units[unit]; b != 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
