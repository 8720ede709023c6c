// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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

func keyOf(r session.Ref) string {
	return state.Key(r.Owner.Tenant(), r.Owner.Name(), r.ID, strconv.FormatInt(r.Epoch, 10))
}

// record stores the grants that a session is about to have. The store is locked.
func (s *Store) record(of session.Ref, grants []policy.Grant) error {
	if s.config.Records == nil {
		return nil
	}
	found, err := s.config.Sessions.Resolve(of)
	if err == nil {
		err = found.Persist()
	}
	var value []byte
	if err == nil {
		value, err = json.Marshal(record{recordVersion, of, grants})
	}
	if err == nil {
		_, err = s.config.Records.Put(context.Background(), keyOf(of), value, 0)
	}
	if err != nil {
		return fmt.Errorf("nothing was changed, for the grants of the session could not be stored: %w", state.Brief(err))
	}
	return nil
}

// recordLater stores the grants that a session has as soon as that can be. It reports false
// where that is never. The store is locked.
func (s *Store) recordLater(of session.Ref) bool {
	if s.closed {
		return false
	}
	if s.unstored[of] {
		return true
	}
	s.unstored[of] = true
	s.work.Go(func() {
		for again := true; again; {
			select {
			case <-s.closing:
				again = false // this is the last time
			case <-time.After(retryTime):
			}
			s.mu.Lock()
			err := s.record(of, s.Grants(of))
			if again = again && (errors.Is(err, state.ErrUnavailable) || errors.Is(err, state.ErrFull) || errors.Is(err, state.ErrBusy)); !again {
				delete(s.unstored, of)
			}
			s.mu.Unlock()
		}
	})
	return true
}

// retryTime is after how long it is tried again to store what could not be.
const retryTime = time.Second

// erase removes what is stored of a session.
func (s *Store) erase(of session.Ref) error {
	if s.config.Records == nil {
		return nil
	}
	return s.config.Records.Delete(context.Background(), keyOf(of), 0)
}

// RestoreOf brings back the grants of one session that goes on here.
func (s *Store) RestoreOf(ctx context.Context, of session.Ref) error {
	if s.config.Records == nil {
		return nil
	}
	entry, err := s.config.Records.Get(ctx, keyOf(of))
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	var found record
	if err == nil {
		err = json.Unmarshal(entry.Value, &found)
	}
	if err == nil && found.Version > recordVersion {
		err = fmt.Errorf("they were stored by a later version of this server, as version %d", found.Version)
	}
	if err != nil {
		return fmt.Errorf("grants of the session: %w", err)
	}
	if s.forgetWith(of) {
		s.grants.set(of, found.Grants)
	}
	return nil
}

// Restore brings back the grants of sessions that go on after a restart, once these are
// there. What cannot be read is told in the log and grants nothing.
func (s *Store) Restore(ctx context.Context, logger *zap.Logger) error {
	if s.config.Records == nil {
		return nil
	}
	var gone []session.Ref
	err := state.Snapshot(ctx, s.config.Records, "", func(e state.Entry) {
		var found record
		err := json.Unmarshal(e.Value, &found)
		if err == nil && found.Version > recordVersion {
			err = fmt.Errorf("they were stored by a later version of this server, as version %d", found.Version)
		}
		switch {
		case err != nil:
			logger.Error("grants of a session cannot be brought back", zap.String("key", e.Key), zap.Error(err))
		case s.forgetWith(found.Session):
			s.grants.set(found.Session, found.Grants)
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
