// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
)

// recordVersion is that of the records. A field that is added needs no new one.
const recordVersion = 1

// A record is what is stored of the grants of one session.
type record struct {
	Version int            `json:"v"`
	Session session.Ref    `json:"session"`
	Grants  []policy.Grant `json:"grants"`
}

// maxChanges is how often a change is tried that others get ahead of.
const maxChanges = 10

// change has a session have other grants: what edit makes of those that it has, stored first. Another
// replica may have stored some since, for it has the session by now, or had it: then edit is asked
// again, about those but for what was revoked here meanwhile. The store is locked.
func (s *Store) change(of session.Ref, edit func([]policy.Grant) ([]policy.Grant, error)) error {
	old, revision := s.Grants(of), s.revisions[of]
	for attempt := 1; ; attempt++ {
		next, err := edit(old)
		if err != nil {
			return err
		}
		stored, err := s.record(of, next, revision)
		if err == nil {
			s.revisions[of] = stored
			s.grants.set(of, next)
			return nil
		}
		if errors.Is(err, state.ErrConflict) && attempt < maxChanges {
			var found record
			if found, revision, err = s.readRecord(context.Background(), of); err == nil {
				old = omit(found.Grants, s.revoking[of])
				continue
			}
		}
		return fmt.Errorf("nothing was changed, for the grants of the session could not be stored: %w", state.Brief(err))
	}
}

// record stores the grants that a session is about to have, where a revision of them is stored. The
// store is locked.
func (s *Store) record(of session.Ref, grants []policy.Grant, last state.Revision) (state.Revision, error) {
	if s.config.Records == nil {
		return 0, nil
	}
	found, err := s.config.Sessions.Resolve(of)
	if err == nil {
		err = found.Persist()
	}
	if err == nil {
		err = found.Prove()
	}
	var value []byte
	if err == nil {
		value, err = json.Marshal(record{recordVersion, of, grants})
	}
	if err != nil {
		return 0, err
	}
	return s.config.Records.Update(context.Background(), of.Key(), value, last, 0)
}

// readRecord returns what is stored of a session; nothing is an empty record.
func (s *Store) readRecord(ctx context.Context, of session.Ref) (found record, revision state.Revision, err error) {
	entry, err := s.config.Records.Get(ctx, of.Key())
	if errors.Is(err, state.ErrNotFound) {
		return record{}, 0, nil
	}
	if err == nil {
		found, err = decode(entry.Value)
	}
	return found, entry.Revision, err
}

func decode(value []byte) (found record, err error) {
	err = json.Unmarshal(value, &found)
	if err == nil && found.Version > recordVersion {
		err = fmt.Errorf("they were stored by a later version of this server, as version %d", found.Version)
	}
	return found, err
}

// revokeLater stores as soon as that can be that a session has a grant no longer. It reports false
// where that is never. The store is locked.
func (s *Store) revokeLater(of session.Ref, id string) bool {
	if s.closed {
		return false
	}
	if s.revoking[of] = append(s.revoking[of], id); len(s.revoking[of]) > 1 {
		return true
	}
	s.work.Go(func() {
		for again := true; again; {
			select {
			case <-s.closing:
				again = false // this is the last time
			case <-time.After(retryTime):
			}
			s.mu.Lock()
			err := s.change(of, without(s.revoking[of]...))
			if again = again && (errors.Is(err, state.ErrUnavailable) || errors.Is(err, state.ErrFull) || errors.Is(err, state.ErrConflict)); !again {
				delete(s.revoking, of)
			}
			s.mu.Unlock()
		}
	})
	return true
}

// without returns the edit that takes grants away.
func without(ids ...string) func([]policy.Grant) ([]policy.Grant, error) {
	return func(old []policy.Grant) ([]policy.Grant, error) { return omit(old, ids), nil }
}

func omit(grants []policy.Grant, ids []string) []policy.Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g policy.Grant) bool { return slices.Contains(ids, g.ID) })
}

// retryTime is after how long it is tried again to store what could not be.
const retryTime = time.Second

// erase removes what is stored of a session.
func (s *Store) erase(of session.Ref) error {
	if s.config.Records == nil {
		return nil
	}
	return s.config.Records.Delete(context.Background(), of.Key(), 0)
}

// RestoreOf brings back the grants of one session that goes on here.
func (s *Store) RestoreOf(ctx context.Context, of session.Ref) error {
	if s.config.Records == nil {
		return nil
	}
	found, revision, err := s.readRecord(ctx, of)
	if err != nil {
		return fmt.Errorf("grants of the session: %w", err)
	}
	if revision != 0 && s.forgetWith(of) {
		s.restored(of, found.Grants, revision)
	}
	return nil
}

func (s *Store) restored(of session.Ref, grants []policy.Grant, revision state.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revisions[of] = revision
	s.grants.set(of, grants)
}

// Restore brings back the grants of sessions that go on after a restart, once these are
// there. What cannot be read is told in the log and grants nothing.
func (s *Store) Restore(ctx context.Context, logger *zap.Logger) error {
	if s.config.Records == nil {
		return nil
	}
	var gone []session.Ref
	err := state.Snapshot(ctx, s.config.Records, "", func(e state.Entry) {
		found, err := decode(e.Value)
		switch {
		case err != nil:
			logger.Error("grants of a session cannot be brought back", zap.String("key", e.Key), zap.Error(err))
		case s.forgetWith(found.Session):
			s.restored(found.Session, found.Grants, e.Revision)
		default:
			gone = append(gone, found.Session)
		}
	})
	if err != nil {
		return fmt.Errorf("grants cannot be brought back: %w", err)
	}
	for _, of := range gone {
		stored, err := s.config.Sessions.Recorded(ctx, of) // then it may be there after the next start, and has to have them
		if err == nil && !stored {
			s.erase(of) // or the next start does
		}
	}
	return nil
}
