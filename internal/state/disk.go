// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// A disk that is full is met before the engine meets it: a write that fails makes the
// engine give the space up. So the last of the disk is not ours.
const (
	reserveBytes = 32 << 20
	reserveShare = 16 // of a small disk
	lookEvery    = 250 * time.Millisecond
)

// disk knows whether there is room for what is written to it.
type disk struct {
	path string

	mu      sync.Mutex
	looked  time.Time
	left    int64 // above the reserve, when it was looked
	reserve int64
}

// room is ErrFull where size more bytes would take of the reserve.
func (d *disk) room(size int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.looked) > lookEvery || d.left < int64(size) {
		if err := d.measure(); err != nil {
			return fmt.Errorf("%w: %v", ErrUnavailable, err)
		}
	}
	if d.left < int64(size) {
		return fmt.Errorf("%w: the disk of %s has less than %d MiB left", ErrFull, d.path, d.reserve>>20)
	}
	d.left -= int64(size)
	return nil
}

func (d *disk) measure() error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.path, &s); err != nil {
		return err
	}
	size := int64(s.Bsize)
	d.reserve = min(reserveBytes, int64(s.Blocks)*size/reserveShare)
	d.left = int64(s.Bavail)*size - d.reserve
	d.looked = time.Now()
	return nil
}
