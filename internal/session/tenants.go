// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolserver/toolserver/internal/quota"
)

// tenantPrefix begins the directories of tenants, below the WorkspaceRoot and below
// Caches. No other directory there begins so.
const tenantPrefix = "tenant-"

// tenantKey is the file, in the WorkspaceRoot, with the secret that names directories
// of tenants. Without it they are not found again.
const tenantKey = "tenants.key"

// tenantDirs names the directories of tenants: nobody guesses the name of one, and it is
// the same after a restart.
type tenantDirs struct {
	mu  sync.Mutex
	key []byte // nil before it is needed
}

// in returns the directory of a tenant below top, which is that of the default tenant.
// root is where the key is.
func (d *tenantDirs) in(top, root, tenant string) (string, error) {
	if tenant == "" {
		return top, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.key == nil {
		key, err := readTenantKey(root)
		if err != nil {
			return "", err
		}
		d.key = key
	}
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte(tenant))
	return filepath.Join(top, tenantPrefix+hex.EncodeToString(mac.Sum(nil)[:16])), nil
}

// readTenantKey reads the key, or makes it. Of several servers that make it at once, one
// succeeds, and all have that one's.
func readTenantKey(root string) ([]byte, error) {
	name := filepath.Join(root, tenantKey)
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeTenantKey(root, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		key, err = os.ReadFile(name)
	}
	if err == nil && len(key) != sha256.Size {
		return nil, fmt.Errorf("%s has %d bytes and not %d: it names the directories of tenants. Bring it back from a backup, or remove it to begin with empty ones", name, len(key), sha256.Size)
	}
	return key, err
}

// makeTenantKey writes the key as a whole or not at all.
func makeTenantKey(root, name string) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails
	file, err := os.CreateTemp(root, tenantKey+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(key)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Link(file.Name(), name)
}

// rootOf returns where the workspaces of a tenant are, or will be.
func (s *Store) rootOf(tenant string) (string, error) {
	return s.dirs.in(s.config.WorkspaceRoot, s.config.WorkspaceRoot, tenant)
}

// AllowedWorkspaces returns the directories at or below which callers of a tenant may
// choose a workspace.
func (s *Store) AllowedWorkspaces(tenant string) []string {
	if tenant == "" {
		return s.config.AllowedWorkspaces
	}
	entry := s.config.Tenants.Of(tenant)
	if entry.Name != tenant {
		return nil
	}
	return entry.AllowedWorkspaces
}

// checkTenant returns an error where a tenant has all the sessions that it may have. The
// store is locked.
func (s *Store) checkTenant(tenant string) error {
	most := s.config.Tenants.Of(tenant).MaxSessions
	if most == 0 {
		return nil
	}
	n := 0
	for k := range s.byKey {
		if k.owner.Tenant() == tenant {
			n++
		}
	}
	if n < most {
		return nil
	}
	return &quota.Error{Tenant: tenant, Quota: "max_sessions", Limit: fmt.Sprint(most), Help: "close sessions that are not needed"}
}

// stored is how much a tenant has on the disk, as far as that is known.
type stored struct {
	measuring sync.Mutex // held over a measurement

	mu    sync.Mutex
	bytes int64
	at    time.Time // when it was measured; zero: never
	took  time.Duration
}

const (
	// storedFor is how long a measurement counts at least, and storedShare of how many
	// times its duration.
	storedFor   = 5 * time.Second
	storedShare = 50
)

// Stored returns how many bytes the server keeps on the disk for a tenant: workspaces
// that were made for it, what its calls replaced, homes, temporary directories and
// caches. It is measured now and then, by one of those who ask.
func (s *Store) Stored(tenant string) (int64, error) {
	places, err := s.placesOf(tenant)
	if err != nil {
		return 0, err
	}
	known := s.storedOf(tenant)
	known.mu.Lock()
	bytes, first, fresh := known.bytes, known.at.IsZero(), time.Since(known.at) < max(storedFor, storedShare*known.took)
	known.mu.Unlock()
	switch {
	case first:
		known.measuring.Lock()
	case fresh || !known.measuring.TryLock():
		return bytes, nil
	}
	defer known.measuring.Unlock()
	begin := time.Now()
	bytes = 0
	for _, place := range places {
		bytes += bytesBelow(place)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	known.bytes, known.at, known.took = bytes, time.Now(), time.Since(begin)
	return bytes, nil
}

func (s *Store) storedOf(tenant string) *stored {
	known, _ := s.stored.LoadOrStore(tenant, new(stored))
	return known.(*stored)
}

// placesOf returns the directories that are a tenant's.
func (s *Store) placesOf(tenant string) (places []string, err error) {
	for _, top := range []string{s.config.WorkspaceRoot, s.config.Caches} {
		if top == "" {
			continue
		}
		dir, err := s.dirs.in(top, s.config.WorkspaceRoot, tenant)
		if err != nil {
			return nil, err
		}
		places = append(places, dir)
	}
	return places, nil
}

// bytesBelow returns how many bytes the files below a directory take, without those of
// other tenants. What cannot be read is passed over.
func bytesBelow(top string) (total int64) {
	filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && filepath.Dir(path) == top && strings.HasPrefix(entry.Name(), tenantPrefix):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if file, ok := info.Sys().(*syscall.Stat_t); ok {
				total += file.Blocks * 512 // a file may have holes
			}
		}
		return nil
	})
	return total
}
