// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/wholefile"
)

// A stop is an emergency stop that is in force.
type stop struct {
	Tenant    string    `json:"tenant,omitempty"` // or auth.AllTenants; empty: the default one
	Principal string    `json:"principal"`        // or auth.Everybody
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by"`
	ByTenant  string    `json:"by_tenant,omitempty"` // that of the operator
	Since     time.Time `json:"since"`

	// InState says in the file that the state has it, too, which tells whether it is still in
	// force when the server starts.
	InState bool `json:"in_state,omitempty"`

	durable bool // it is where it outlives the server
}

// owner returns whom the stop is about.
func (s stop) owner() auth.Owner { return auth.NewOwner(s.Tenant, s.Principal) }

// by returns the operator.
func (s stop) by() auth.Owner { return auth.NewOwner(s.ByTenant, s.By) }

// overrules reports whether a stop takes the place of another of the same principal: who stopped
// itself does not lift what another wants.
func (s stop) overrules(old stop) bool { return old.by() == old.owner() && s.by() != old.owner() }

// why tells of the stop, in words that follow whom it is about.
func (s stop) why() string {
	text := "stopped by " + s.By
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// refusal is what a call of a stopped principal is answered with. It is not UNAVAILABLE:
// clients send that again by themselves.
func (s stop) refusal() error {
	who, resume := fmt.Sprintf("%q was", s.Principal), quoted(s.Principal)
	if s.Principal == auth.Everybody {
		who, resume = "all callers were", "--all"
	}
	operator := "one of the default tenant or of all tenants"
	switch s.Tenant {
	case "":
	case auth.AllTenants:
		operator = "one of all tenants"
	default:
		operator = "one of tenant " + s.Tenant + " or of all tenants"
	}
	if s.Tenant != "" {
		resume = "--tenant " + quoted(s.Tenant) + " " + resume
	}
	return status.Errorf(codes.FailedPrecondition,
		"%s %s (at %s). Do not call again: calls are refused until an operator lifts the stop, %s, with toolserver resume %s",
		who, s.why(), s.Since.UTC().Format(time.RFC3339), operator, resume)
}

// quoted returns a name as a shell takes it.
func quoted(name string) string {
	if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@+-") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// stopList has the emergency stops in force. In the state, which all replicas have, or else
// in a file, they outlive the server.
type stopList struct {
	file    string
	shared  *sharedStops                        // nil where nothing outlives the server but the file
	current atomic.Pointer[map[auth.Owner]stop] // by whom they are about; never changed
	mu      sync.Mutex                          // held over changes
	storing sync.Mutex                          // held while a stop is put into the state or lifted; comes before the others
	writing sync.Mutex                          // held while the file is written
	retries bool                                // what could not be stored is tried again; guarded by mu
}

// maxStops is how many principals can be stopped one by one.
const maxStops = 10_000

// maxStopFile is more than maxStops stops take with the longest names and reasons, however
// those are escaped: a larger file was not written by a server.
const maxStopFile = maxStops * 32 << 10

// openStops reads the stops that a server before this one left, and with entries those of all
// replicas, until ctx is done. What cannot be read is an error: nobody may go on because of it.
// appeared is called with each that another replica puts in force later.
func openStops(ctx context.Context, file string, entries state.KV, appeared func(stop)) (*stopList, error) {
	s := &stopList{file: file}
	all, err := readStops(file)
	if err != nil {
		return nil, err
	}
	s.current.Store(&all)
	if entries != nil {
		if err := s.share(ctx, entries, appeared); err != nil {
			return nil, err
		}
	}
	if file == "" {
		return s, nil
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return s, s.write("") // now is the time to learn that it cannot be written
	}
	if s.shared != nil {
		s.write("") // which of them the state has; or the next change does
	}
	return s, nil
}

// readStops reads a file of stops, which may be missing.
func readStops(file string) (map[auth.Owner]stop, error) {
	all := make(map[auth.Owner]stop)
	if file == "" {
		return all, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("stop_file: %w", err)
	}
	var list []stop
	if len(text) > maxStopFile || json.Unmarshal(text, &list) != nil {
		return nil, fmt.Errorf("stop_file: %s has no list of stops: put back what was there, or remove the file to lift all stops", file)
	}
	for _, one := range list {
		if one.Principal == "" {
			return nil, fmt.Errorf("stop_file: %s has a stop of nobody", file)
		}
		one.durable = true
		all[one.owner()] = one
	}
	return all, nil
}

// of returns the stop that a caller is under; false where there is none.
func (s *stopList) of(p auth.Principal) (stop, bool) {
	return s.ofNames(p.Tenant, p.Name, p.OnBehalfOf)
}

// overtake cancels the execution of a caller who was stopped while the call was on its way.
func (s *stopList) overtake(ctx context.Context, x *executor.Execution) {
	if stopped, ok := s.of(principalOf(ctx)); ok {
		x.Cancel(stopped.why(), stopped.By)
	}
}

// ofNames returns the stop that one of some principals of a tenant is under: the one by
// name before that of everybody, that of the tenant before that of all tenants.
func (s *stopList) ofNames(tenant string, names ...string) (stop, bool) {
	all := *s.current.Load()
	if len(all) == 0 {
		return stop{}, false
	}
	for _, name := range append(names, auth.Everybody) {
		for _, tenant := range []string{tenant, auth.AllTenants} {
			if found, ok := all[auth.NewOwner(tenant, name)]; ok && name != "" {
				return found, true
			}
		}
	}
	return stop{}, false
}

// byOther returns the stop by name that another operator has put on a caller; false
// where there is none.
func (s *stopList) byOther(p auth.Principal) (stop, bool) {
	for _, one := range *s.current.Load() {
		if one.Principal != auth.Everybody && one.owner().Covers(p.Owner()) && one.by() != p.Owner() {
			return one, true
		}
	}
	return stop{}, false
}

// list returns the stops in force, the oldest first.
func (s *stopList) list() []stop {
	return slices.SortedFunc(maps.Values(*s.current.Load()), func(a, b stop) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.owner(), b.owner()))
	})
}

// put puts a stop in force, and returns the one that is; fresh says that there was none
// before. It is to be kept then.
func (s *stopList) put(wanted stop) (now stop, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, known := (*s.current.Load())[wanted.owner()]
	switch {
	case known && wanted.overrules(now):
		now = wanted
	case known:
		return now, false, nil
	case len(*s.current.Load()) >= maxStops:
		return stop{}, false, status.Errorf(codes.ResourceExhausted, "%d principals are stopped, the most there may be: stop everybody with *", maxStops)
	default:
		now = wanted
	}
	s.set(now.owner(), &now)
	return now, !known, nil
}

// set puts a stop in force, or lifts it. The list is locked.
func (s *stopList) set(of auth.Owner, one *stop) {
	all := maps.Clone(*s.current.Load())
	if one == nil {
		delete(all, of)
	} else {
		all[of] = *one
	}
	s.current.Store(&all)
}

// keep has a stop outlive the server, and returns it as it is then. It is in force also where
// that fails, which the error says.
func (s *stopList) keep(one stop) (stop, error) {
	if one.durable || s.file == "" && s.shared == nil {
		return one, nil
	}
	err := s.storeInForce(one.owner())
	if s.file != "" {
		err = errors.Join(err, s.write(""))
	}
	if now, inForce := (*s.current.Load())[one.owner()]; inForce {
		one = now
	}
	return one, err
}

// storeInForce puts a stop into the state, unless it was lifted meanwhile or is there already.
func (s *stopList) storeInForce(of auth.Owner) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	if one, inForce := (*s.current.Load())[of]; inForce && !one.InState {
		return s.shared.store(one)
	}
	return nil
}

// keepLater keeps stops that could not be kept, as soon as they can be, until ctx is done.
func (s *stopList) keepLater(ctx context.Context) {
	s.mu.Lock()
	begin := !s.retries
	s.retries = true
	s.mu.Unlock()
	if !begin {
		return
	}
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var err error
			for of := range *s.current.Load() {
				if err == nil {
					err = s.storeInForce(of)
				}
			}
			if s.file != "" {
				err = errors.Join(err, s.write(""))
			}
			s.mu.Lock()
			if err == nil && !slices.ContainsFunc(s.list(), func(one stop) bool { return !one.durable }) { // also none that came meanwhile
				s.retries = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
		}
	}()
}

// lift ends a stop; false where there is none. One that cannot be taken out of the state or
// the file stays in force: it would come back.
func (s *stopList) lift(of auth.Owner) (stop, bool, error) {
	s.storing.Lock()
	defer s.storing.Unlock()
	old, known := (*s.current.Load())[of]
	if !known {
		return stop{}, false, nil
	}
	if err := s.shared.remove(of); err != nil {
		return old, true, err
	}
	if s.file != "" {
		if err := s.write(of); err != nil && !old.InState { // of one in the state, that has the last word
			return old, true, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := (*s.current.Load())[of]; now.Since.Equal(old.Since) && now.by() == old.by() { // or another has been put meanwhile
		s.set(of, nil)
	}
	return old, true, nil
}

// write replaces the file, as a whole or not at all, by what is in force, but for one that is
// about to be lifted.
func (s *stopList) write(but auth.Owner) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	written := maps.Clone(*s.current.Load())
	delete(written, but)
	if err := s.writeFile(written); err != nil || s.shared != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, one := range *s.current.Load() {
		if before, is := written[of]; is && !one.durable && before.Since.Equal(one.Since) {
			one.durable = true
			s.set(of, &one)
		}
	}
	return nil
}

func (s *stopList) writeFile(all map[auth.Owner]stop) error {
	list := slices.SortedFunc(maps.Values(all), func(a, b stop) int { return cmp.Compare(a.owner(), b.owner()) })
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	err = wholefile.Write(s.file, func(to io.Writer) error { _, err := to.Write(append(text, '\n')); return err })
	if err != nil {
		return fmt.Errorf("stop_file: %w", err)
	}
	return nil
}

// refuse returns why a call of a principal is refused now, or nil.
func (s *stopList) refuse(p auth.Principal, method string) error {
	if found, ok := s.of(p); ok && !methods[method].stopped && !isProbe(method) && methods[method].roles != auth.Operator {
		return found.refusal()
	}
	return nil
}

// refuseStopped is refuse for the chain.
func (s *Server) refuseStopped(ctx context.Context, method string) error {
	return s.stops.refuse(principalOf(ctx), method)
}
