// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/wholefile"
)

// maxDocuments is how many bytes the documents of a session have together.
const maxDocuments = 256 << 10

// documentsVersion is that of the file.
const documentsVersion = 1

// documents keeps the documents of a session in one file, which is replaced as a whole.
// They are [tools.Documents]. Nobody else knows that it is a file.
type documents struct {
	store *Store
	owner auth.Owner
	id    string

	mu    sync.Mutex // comes before that of the store
	file  string     // empty before something is written
	alone bool       // its directory is not its own
	over  bool       // they are removed
}

// documentsFile is what is in the file.
type documentsFile struct {
	Version   int                        `json:"version"`
	Owner     auth.Owner                 `json:"owner"`
	Session   string                     `json:"session"`
	Documents map[string]json.RawMessage `json:"documents"`
}

// newDocuments returns the documents of a session. Those of a default session are in root
// and outlive the server, as its workspace does; others do where sessions are stored that
// persist.
func (s *Store) newDocuments(owner auth.Owner, id, root string, persists bool) *documents {
	d := &documents{store: s, owner: owner, id: id}
	switch {
	case id == DefaultID:
		d.file = filepath.Join(root, "documents-"+fileName(owner.Name())+".json")
	case persists && s.config.Records != nil:
		d.file, d.alone = filepath.Join(s.config.Records.dir(root), "documents-"+strings.ToLower(rand.Text())+".json"), true
	}
	return d
}

// Documents returns what the session keeps for its calls.
func (s *Session) Documents() tools.Documents { return s.documents }

func (d *documents) Read(name string) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.read()
	return all[name], err
}

func (d *documents) Change(name string, change func(old json.RawMessage) (json.RawMessage, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.read()
	if err != nil {
		return err
	}
	next, err := change(all[name])
	if err != nil {
		return err
	}
	if next == nil {
		delete(all, name)
	} else {
		all[name] = next
	}
	return d.write(all)
}

// read returns all documents.
func (d *documents) read() (map[string]json.RawMessage, error) {
	all := documentsFile{Documents: make(map[string]json.RawMessage)}
	if d.file == "" {
		return all.Documents, nil
	}
	file, err := os.Open(d.file)
	if errors.Is(err, fs.ErrNotExist) {
		return all.Documents, nil
	}
	if err != nil {
		return nil, notKept("read", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 2*maxDocuments))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	switch {
	case err != nil:
		return nil, notKept("read", err)
	case all.Version != documentsVersion:
		return nil, notKept("read", fmt.Errorf("they are of version %d, and this server knows %d", all.Version, documentsVersion))
	}
	return all.Documents, nil
}

// write replaces all documents, or none.
func (d *documents) write(all map[string]json.RawMessage) error {
	text, err := json.Marshal(documentsFile{documentsVersion, d.owner, d.id, all})
	if err != nil {
		return err
	}
	if len(text) > maxDocuments {
		return tools.Failf("documents_full", "Nothing was changed: what a session keeps of todos, plans and notes has %d bytes at most, and this would be %d. Remove or shorten something.",
			maxDocuments, len(text))
	}
	if d.over {
		return tools.Failf("session_closed", "The session is closed.")
	}
	if d.file == "" {
		dir, err := d.store.privateDir(d.owner.Tenant())
		if err != nil {
			return notKept("written", err)
		}
		d.file = filepath.Join(dir, "documents.json")
	}
	if err := wholefile.Replace(d.file, text); err != nil {
		return notKept("written", err)
	}
	return nil
}

// remove removes the documents, unless they outlive the session.
func (d *documents) remove() {
	if d.id == DefaultID {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.alone {
		os.Remove(d.file)
	} else if d.file != "" {
		os.RemoveAll(filepath.Dir(d.file))
	}
}

// notKept says what could not be done, and not where.
func notKept(what string, err error) error {
	return &tools.Failure{Code: "not_kept", Retryable: true,
		Message: fmt.Sprintf("What the session keeps of todos, plans and notes could not be %s, and nothing was changed: %v. Its operator can help.", what, wholefile.Cause(err))}
}
