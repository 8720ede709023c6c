// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/lease"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/workspace"
)

// workspaceFor returns the directory a new session works in, and whether it
// was made for it. root is where the workspaces of its tenant are.
func (s *Store) workspaceFor(owner auth.Owner, root string, request Request) (dir string, scratch bool, err error) {
	if dir, ok := s.config.DefaultWorkspace[string(owner)]; ok && request.Below == nil && (request.ID == DefaultID && request.Workspace == "" || request.Workspace == dir) {
		return dir, false, nil // which it has anyway
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", false, err
	}
	if request.Below != nil {
		dir, err := workspaceBelow(request.Below.Parent, request.Workspace)
		return dir, false, err
	}
	if request.Workspace != "" {
		dir, err := s.chosen(owner, request.Workspace)
		return dir, false, err
	}
	if request.Restore {
		t, err := s.kept(owner, request.ID)
		if err != nil {
			return "", false, err
		}
		return t.Workspace, true, nil
	}
	if request.ID == DefaultID { // the same directory after a restart
		dir := filepath.Join(root, "default-"+fileName(owner.Name()))
		return dir, false, os.MkdirAll(dir, 0o700)
	}
	if s.config.Records != nil {
		dir, err = s.config.Records.newWorkspace(root)
		return dir, true, err
	}
	dir, err = s.newScratch(owner.Tenant(), root)
	return dir, true, err
}

// privateDir makes a directory for what a session of a tenant keeps outside its
// workspace.
func (s *Store) privateDir(tenant string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", fmt.Errorf("%w: the server is shutting down", ErrFull)
	}
	root, err := s.rootOf(tenant)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	return s.newScratch(tenant, root)
}

// newScratch makes a directory of a tenant that does not outlive the server, after it
// has removed those of servers that are gone. The store is locked.
func (s *Store) newScratch(tenant, root string) (dir string, err error) {
	if s.scratch[tenant] == nil {
		const leased = "scratch"
		if err := lease.Sweep(root, leased); err != nil {
			return "", err
		}
		made, err := lease.New(root, leased)
		if err != nil {
			return "", err
		}
		if s.scratch == nil {
			s.scratch = make(map[string]*lease.Dir)
		}
		s.scratch[tenant] = made
	}
	return os.MkdirTemp(s.scratch[tenant].Path(), "session-")
}

// fileName spells a principal's name with letters that are safe in a file
// name, one name for each principal. Of a long name it has the beginning and a digest.
func fileName(owner string) string {
	var b strings.Builder
	for i := range len(owner) {
		if c := owner[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() > maxFileName {
		digest := sha256.Sum256([]byte(owner))
		return b.String()[:maxFileName-2*len(digest)-1] + "~" + hex.EncodeToString(digest[:])
	}
	return b.String()
}

// maxFileName leaves room for what stands before and behind, in the 255 bytes that a
// file system has for a name.
const maxFileName = 200

// chosen judges a workspace that a caller chose.
func (s *Store) chosen(owner auth.Owner, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%w: workspace %.256q: want an absolute path", ErrInvalid, dir)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	allowed := s.AllowedWorkspaces(owner.Tenant())
	// The same answer for all that is elsewhere: a caller does not learn what exists there.
	elsewhere := fmt.Errorf("%w: workspace %.256q %s", ErrForbidden, dir, choices(owner.Tenant(), allowed))
	if err != nil || !s.allowed(resolved, allowed) {
		return "", elsewhere
	}
	for k, other := range s.byKey {
		if k.owner == owner || !quota.Overlap(resolved, other.Workspace.Dir()) {
			continue
		}
		if k.owner.Tenant() != owner.Tenant() {
			return "", elsewhere
		}
		return "", fmt.Errorf("%w: workspace %q belongs to somebody else's session", ErrForbidden, dir)
	}
	return resolved, nil
}

// choices says which workspaces a caller of a tenant may choose, and what to do where
// that is none.
func choices(tenant string, allowed []string) string {
	key := "sessions.allowed_workspaces"
	if tenant != "" {
		key = "allowed_workspaces of tenant " + tenant + " in tenants"
	}
	if len(allowed) == 0 {
		return "cannot be chosen: no directory may, for " + key + " of the server's configuration is empty. " +
			"Its operator lists there the directories at or below which sessions may work. Without a workspace the session gets an empty one, " +
			"which uploads fill (toolserver cp DIR/ SESSION:)"
	}
	const shown = 5
	list := strings.Join(allowed[:min(shown, len(allowed))], ", ")
	if more := len(allowed) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return "is not an existing directory below those that " + key + " of the server's configuration allows: " + list
}

// allowed reports whether a caller may choose dir, where these are the directories to
// choose from. Below the WorkspaceRoot, or above it, it would see the workspaces of
// others.
func (s *Store) allowed(dir string, tops []string) bool {
	root, err := filepath.EvalSymlinks(s.config.WorkspaceRoot)
	if err != nil || within(dir, root) || within(root, dir) {
		return false
	}
	return slices.ContainsFunc(tops, func(top string) bool {
		resolved, err := filepath.EvalSymlinks(top)
		return err == nil && within(dir, resolved)
	})
}

// within reports whether dir is top or below it; both are clean and absolute.
func within(dir, top string) bool {
	rel, err := filepath.Rel(top, dir)
	return err == nil && filepath.IsLocal(rel)
}

// openWorkspace opens the workspace of a session. root is where those of its tenant are;
// scratch says that what is left of it is removed as a whole.
func (s *Store) openWorkspace(dir, root string, scratch bool) (*workspace.Workspace, error) {
	config := workspace.Config{
		State:  root,
		Closed: append(slices.Clip(s.config.Closed), s.config.WorkspaceRoot, s.config.Caches),
	}
	if scratch {
		config.State = ""
	}
	return config.Open(dir)
}
