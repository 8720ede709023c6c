// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
)

// A principalCache is a directory in which commands of one principal keep what they have
// fetched and built. It outlives sessions. Beside it lies a file that every
// session which uses it has locked, in this process and in others: what holds the
// lock alone may prune. The file also tells, by its time, when that was last done.
type principalCache struct {
	dir  string
	lock *os.File
}

// pruneAfter is how long a cache is not looked at again for being too large.
const pruneAfter = time.Hour

// openCache opens the cache of a principal below root, where it is made if there
// is none. It waits while somebody prunes it.
func openCache(root string, owner auth.Owner) (*principalCache, error) {
	sum := sha256.Sum256([]byte(owner))
	dir := filepath.Join(root, hex.EncodeToString(sum[:16]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := &principalCache{dir, lock}
	if err := c.flock(syscall.LOCK_SH); err != nil {
		lock.Close()
		return nil, err
	}
	c.disarm()
	return c, nil
}

func (c *principalCache) flock(how int) error {
	for {
		if err := syscall.Flock(int(c.lock.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// path returns where the cache is; "" where there is none.
func (c *principalCache) path() string {
	if c == nil {
		return ""
	}
	return c.dir
}

// armed is what a command can put into a cache to have other commands of later
// sessions run it, without it being something fetched or built.
var armed = []string{
	"cargo/config", "cargo/config.toml", "cargo/credentials", "cargo/credentials.toml", "cargo/bin",
	"gradle/init.d", "gradle/init.gradle", "gradle/init.gradle.kts", "gradle/gradle.properties",
}

// disarm removes that. Commands may be at work in the directory: no link that
// they make leads out of it.
func (c *principalCache) disarm() {
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return
	}
	defer root.Close()
	for _, name := range armed {
		root.RemoveAll(name)
	}
}

// close ends the use of the cache, and prunes it to max bytes if nobody else uses
// it and that was not done lately.
func (c *principalCache) close(max int64) {
	defer c.lock.Close()
	info, err := c.lock.Stat()
	if err != nil || time.Since(info.ModTime()) < pruneAfter || c.flock(syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return
	}
	prune(c.dir, max)
	now := time.Now()
	os.Chtimes(c.lock.Name(), now, now)
}

// prune removes caches, each as a whole, for of what is left of one nobody knows
// whether it can be used: those first that were not written for the longest time,
// until what remains has at most max bytes.
func prune(dir string, max int64) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	type part struct {
		name  string
		bytes int64
		last  time.Time
	}
	var parts []part
	var total int64
	fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return nil
		}
		if path.Dir(name) == "." {
			parts = append(parts, part{name: name})
		}
		if info, err := entry.Info(); err == nil {
			p := &parts[len(parts)-1]
			if info.Mode().IsRegular() {
				p.bytes += info.Size()
				total += info.Size()
			}
			if info.ModTime().After(p.last) {
				p.last = info.ModTime()
			}
		}
		return nil
	})
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.name, b.name)) })
	for _, p := range parts {
		if total <= max {
			return
		}
		removeAll(root, p.name)
		total -= p.bytes
	}
}

// removeAll removes a directory, also where what is in it was made read-only, as
// Go does with modules.
func removeAll(root *os.Root, name string) {
	if root.RemoveAll(name) == nil {
		return
	}
	fs.WalkDir(root.FS(), name, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			root.Chmod(name, 0o700)
		}
		return nil
	})
	root.RemoveAll(name)
}
