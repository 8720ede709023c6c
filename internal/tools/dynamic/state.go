// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package dynamic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/wholefile"
)

// Tools of principals are files: a directory for each principal, named by a digest, and
// a file for each tool with all its versions. A file is replaced as a whole.

const (
	suffix  = ".json"
	maxFile = 2 * maxOfPrincipal // bytes, as JSON
)

// file returns where a tool of a principal is kept. Names of tools that differ in case
// are refused, so that a file system need not tell them apart.
func (s *Set) file(m *made) string {
	owner := sha256.Sum256([]byte(m.Private.Tenant + "\x00" + m.Private.Principal))
	return filepath.Join(s.config.Dir, hex.EncodeToString(owner[:16]), m.Name+suffix)
}

// save writes the file of a tool.
func (s *Set) save(m *made) error {
	if s.config.Dir == "" {
		return tools.Failf("not_kept", "This server keeps no tools of principals: make it with scope session.")
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // a schema stays what it is
	if err := encoder.Encode(m); err != nil {
		return err
	}
	if err := wholefile.Replace(s.file(m), text.Bytes()); err != nil {
		return notKept(err)
	}
	return nil
}

// forget removes the file of a tool.
func (s *Set) forget(m *made) error {
	if err := os.Remove(s.file(m)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return notKept(err)
	}
	return nil
}

func notKept(err error) error {
	return &tools.Failure{Code: "not_kept", Message: fmt.Sprintf("Nothing was changed: the server could not write what it keeps of tools: %v.", wholefile.Cause(err)), Retryable: true}
}

// load reads what was kept, and offers it. The error tells of every file that is left
// out.
func (s *Set) load() error {
	var errs []error
	paths, err := filepath.Glob(filepath.Join(s.config.Dir, "*", "*"+suffix)) // sorted
	if err != nil {
		return err
	}
	for _, path := range paths {
		m, err := s.read(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is left out: %w", path, err))
			continue
		}
		s.made = append(s.made, m)
	}
	return errors.Join(append(errs, s.publish(nil))...)
}

// read reads the file of a tool. What is not what was kept is no tool.
func (s *Set) read(path string) (*made, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("it has %d bytes, at most %d", info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := new(made)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	switch {
	case len(m.Versions) == 0 || m.Private.Session != "" || m.Private == tools.Private{}:
		return nil, errors.New("it is no tool of a principal")
	case s.file(m) != path:
		return nil, fmt.Errorf("it is another tool than its name says: %s", strings.ToValidUTF8(m.Name, "?"))
	}
	for i := range m.Versions {
		v := &m.Versions[i]
		if v.digest(m.Name) != v.Digest || interpreters[v.Interpreter] == "" {
			return nil, fmt.Errorf("version %d is not what was kept: its digest is another", v.Number)
		}
	}
	if m.tool, err = s.tool(m); err != nil {
		return nil, err
	}
	return m, nil
}
