// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/persona"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
)

// settle fills in defaults and refuses what the operator does not permit, nor the session
// that one is below.
func (s *Store) settle(settings Settings, below *Below) (Settings, error) {
	settings = settings.clone()
	settings.Level = cmp.Or(settings.Level, s.config.Default.Level)
	settings.Mode = cmp.Or(settings.Mode, s.config.Default.Mode)
	settings.Network = cmp.Or(settings.Network, s.config.Default.Network)
	settings.Answer = cmp.Or(settings.Answer, s.config.Default.Answer)
	settings.EditErrors = cmp.Or(settings.EditErrors, s.config.Default.EditErrors)
	settings.Activation = settings.Activation.or(s.config.Default.Activation)
	settings.IdleTTL = cmp.Or(settings.IdleTTL, s.config.Default.IdleTTL, Forever)
	if settings.Level > s.config.MaxLevel {
		return settings, fmt.Errorf("%w: level %s is above %s, the highest the operator allows", ErrForbidden, settings.Level, s.config.MaxLevel)
	}
	if !s.permits(settings.Mode, settings) {
		return settings, fmt.Errorf("%w: mode %s is not among those the operator allows you: %v", ErrForbidden, settings.Mode, s.Modes(settings.MaxMode))
	}
	if settings.Network > s.config.MaxNetwork {
		return settings, fmt.Errorf("%w: network %s is above %s, the furthest the operator lets commands reach", ErrForbidden, settings.Network, s.config.MaxNetwork)
	}
	if settings.IdleTTL < 0 {
		return settings, fmt.Errorf("%w: idle time %s is negative", ErrInvalid, settings.IdleTTL)
	}
	if settings.EditErrors > MaxEditErrors || settings.EditErrors < NoEditErrors {
		return settings, fmt.Errorf("%w: edits cannot wait %s for errors: at most %s are possible", ErrInvalid, settings.EditErrors, MaxEditErrors)
	}
	if err := settings.Answer.Check(s.config.MaxAnswer); err != nil {
		return settings, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, ok := persona.Named(settings.Persona); !ok && settings.Persona != "" {
		return settings, fmt.Errorf("%w: persona %.64q: want one of %s", ErrInvalid, settings.Persona, strings.Join(persona.Names(), ", "))
	}
	if settings.Dialect != "" {
		if _, err := toolcall.Named(settings.Dialect); err != nil {
			return settings, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	if err := settings.Activation.Check(); err != nil {
		return settings, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := settings.Tools.Check(); err != nil {
		return settings, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(settings.Labels) > 32 {
		return settings, fmt.Errorf("%w: %d labels: at most 32", ErrInvalid, len(settings.Labels))
	}
	for name, value := range settings.Labels {
		if name == "" || len(name) > 256 || len(value) > 256 {
			return settings, fmt.Errorf("%w: label %.32q: keys need 1 to 256 bytes, values at most 256", ErrInvalid, name)
		}
	}
	if below != nil {
		return settings, below.check(&settings)
	}
	return settings, nil
}

// permits reports whether the operator lets a session with such settings have a mode.
func (s *Store) permits(mode tools.Mode, settings Settings) bool {
	return slices.Contains(s.Modes(settings.MaxMode), mode)
}

// AtMost returns the one of two modes that permits less; most 0 is no bound.
func AtMost(mode, most tools.Mode) tools.Mode {
	if most != 0 && mode.Above(most) {
		return most
	}
	return mode
}

// Modes returns the modes that sessions may have whose principal may have at most one
// that permits so much; 0: the server's. The default is always among them.
func (s *Store) Modes(most tools.Mode) []tools.Mode {
	var list []tools.Mode
	most = cmp.Or(most, s.config.MaxMode)
	for mode := tools.ModeAsk; mode <= tools.ModeAcceptEdits; mode++ {
		if mode == s.config.Default.Mode || !mode.Above(most) && (len(s.config.Modes) == 0 || slices.Contains(s.config.Modes, mode)) {
			list = append(list, mode)
		}
	}
	return list
}

// Update changes settings of a session: change gets a copy of them.
func (s *Store) Update(owner auth.Owner, id string, change func(*Settings)) (*Session, error) {
	session, err := s.Get(owner, id)
	if err != nil {
		return nil, err
	}
	return session, s.update(session, func(settings *Settings) error {
		change(settings)
		return nil
	})
}

// update is Update of a session, unless change fails. What is in force is stored.
func (s *Store) update(session *Session, change func(*Settings) error) error {
	session.changing.Lock()
	defer session.changing.Unlock()
	settings := session.Settings().clone()
	if err := change(&settings); err != nil {
		return err
	}
	if session.Below != nil {
		settings = session.Below.inherit(settings)
		settings.MaxMode = LeastMode(settings.MaxMode, session.Settings().MaxMode)
	}
	settings, err := s.settle(settings, session.Below)
	if err != nil {
		return err
	}
	if err := session.saveOrLower(settings); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	session.change(settings)
	session.watchIdle(func() { s.idled(session) })
	return nil
}
