// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/wholefile"
)

// recordSuffix ends the name of the file that lies beside an artifact which outlives its
// store, and says what the artifact is. An artifact without one was never complete. It
// is a file and no entry of an engine: bytes and record come and go together.
const recordSuffix = ".json"

// A record is what the file has.
type record struct {
	Version    int       `json:"v"`
	Owner      string    `json:"owner"`
	Session    string    `json:"session"`
	Name       string    `json:"name"`
	MediaType  string    `json:"media_type"`
	Size       uint64    `json:"size"`
	Written    uint64    `json:"written"`
	Incomplete string    `json:"incomplete,omitempty"`
	Expires    time.Time `json:"expires"`
}

const recordVersion = 1

func recordOf(of SessionID, i Info) record {
	return record{recordVersion, of.Owner, of.Session, i.Name, i.MediaType, i.Size, i.Written, i.Incomplete, i.Expires.Round(0)}
}

// info returns what the artifact is that has the record.
func (r *record) info(id string) Info {
	return Info{
		ID: id, Name: r.Name, MediaType: r.MediaType, Size: r.Size, Written: r.Written,
		Complete: r.Incomplete == "", Incomplete: r.Incomplete, Expires: r.Expires,
	}
}

// errNewer says that a record is of a later version, which is not this server's to remove.
var errNewer = errors.New("it was stored by a later version of this server")

// record has an artifact be there after a restart, or at other servers.
func (s *Store) record(k *storedArtifact) {
	s.mu.Lock()
	if !s.closed {
		s.shared.offer(k, k.info.Size)
	}
	info := k.info
	s.mu.Unlock()
	if s.lasts == "" {
		return
	}
	text, err := json.Marshal(recordOf(k.session, info))
	if err == nil {
		err = wholefile.Replace(k.path+recordSuffix, text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || k.gone { // on a full disk it ends with the store
		os.Remove(k.path + recordSuffix)
	}
}

// load finds the artifacts of before, and removes what is none.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.lasts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stays := make(map[string]bool) // by id
	for _, entry := range entries {
		if name, isRecord := strings.CutSuffix(entry.Name(), recordSuffix); isRecord {
			k, err := s.read(name)
			if stays[name] = err == nil || errors.Is(err, errNewer); err != nil {
				continue
			}
			s.byID[name] = k
			s.oldest = append(s.oldest, k)
			s.charge(k, int64(k.info.Size))
		}
	}
	for _, entry := range entries {
		if !stays[strings.TrimSuffix(entry.Name(), recordSuffix)] {
			os.Remove(filepath.Join(s.lasts, entry.Name()))
		}
	}
	slices.SortFunc(s.oldest, func(a, b *storedArtifact) int { return a.info.Expires.Compare(b.info.Expires) })
	s.watch()
	return nil
}

// read reads the record of an artifact that is as the record has it.
func (s *Store) read(id string) (*storedArtifact, error) {
	path := filepath.Join(s.lasts, id)
	text, err := os.ReadFile(path + recordSuffix)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case r.Version > recordVersion:
		return nil, errNewer
	case !IsID(id) || uint64(info.Size()) < r.Size || !r.Expires.After(time.Now()):
		return nil, ErrNotFound
	}
	return &storedArtifact{session: SessionID{r.Owner, r.Session}, path: path, info: r.info(id)}, nil
}
