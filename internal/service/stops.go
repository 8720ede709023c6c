// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A stop is an emergency stop that is in force.
type stop struct {
	Tenant    string    `json:"tenant,omitempty"` // or auth.AllTenants; empty: the default one
	Principal string    `json:"principal"`        // or auth.Everybody
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by"`
	ByTenant  string    `json:"by_tenant,omitempty"` // that of the operator
	Since     time.Time `json:"since"`

	durable bool // it is in the file
}

// owner returns whom the stop is about.
func (s stop) owner() auth.Owner { return auth.NewOwner(s.Tenant, s.Principal) }

// by returns the operator.
func (s stop) by() auth.Owner { return auth.NewOwner(s.ByTenant, s.By) }

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

// stopList has the emergency stops in force. With a file they outlive the server.
type stopList struct {
	file    string
	current atomic.Pointer[map[auth.Owner]stop] // by whom they are about; never changed
	mu      sync.Mutex                          // held over changes
	retries bool                                // what could not be written is tried again; guarded by mu
}

// maxStops is how many principals can be stopped one by one.
const maxStops = 10_000

// maxStopFile is more than maxStops stops take with the longest names and reasons, however
// those are escaped: a larger file was not written by a server.
const maxStopFile = maxStops * 32 << 10

// openStops reads the stops that a server before this one left. A file that cannot be
// read is an error: nobody may go on because of it.
func openStops(file string) (*stopList, error) {
	s := &stopList{file: file}
	all := make(map[auth.Owner]stop)
	s.current.Store(&all)
	if file == "" {
		return s, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.write(all) // now is the time to learn that it cannot be written
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
	return s, nil
}

// of returns the stop that a caller is under; false where there is none.
func (s *stopList) of(p auth.Principal) (stop, bool) {
	return s.ofNames(p.Tenant, p.Name, p.OnBehalfOf)
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
// before. It is in force also where it cannot be written, which the error says.
func (s *stopList) put(wanted stop) (now stop, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.current.Load())
	now, known := all[wanted.owner()]
	switch {
	case known && now.by() == now.owner() && wanted.by() != now.owner():
		now = wanted // who stopped itself does not lift what another wants
	case known && now.durable == (s.file != ""):
		return now, false, nil
	case !known && len(all) >= maxStops:
		return stop{}, false, status.Errorf(codes.ResourceExhausted, "%d principals are stopped, the most there may be: stop everybody with *", len(all))
	case !known:
		now = wanted
	}
	all[now.owner()] = now
	s.current.Store(&all) // before it is written, which may take its time
	if s.file == "" {
		return now, !known, nil
	}
	if err := s.write(all); err != nil {
		return now, !known, err
	}
	return (*s.current.Load())[now.owner()], !known, nil
}

// writeLater writes stops that could not be written, as soon as they can, until ctx is done.
func (s *stopList) writeLater(ctx context.Context) {
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
			s.mu.Lock()
			if s.write(*s.current.Load()) == nil {
				s.retries = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
		}
	}()
}

// lift ends a stop; false where there is none. One that cannot be taken out of the file
// stays in force: it would come back.
func (s *stopList) lift(owner auth.Owner) (stop, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.current.Load())
	old, known := all[owner]
	if !known {
		return stop{}, false, nil
	}
	delete(all, owner)
	if s.file == "" {
		s.current.Store(&all)
		return old, true, nil
	}
	return old, true, s.write(all)
}

// write replaces the file, as a whole or not at all, and puts what it has in force.
func (s *stopList) write(all map[auth.Owner]stop) error {
	if err := s.writeFile(all); err != nil {
		return err
	}
	kept := maps.Clone(all)
	for name, one := range kept {
		one.durable = true
		kept[name] = one
	}
	s.current.Store(&kept)
	return nil
}

func (s *stopList) writeFile(all map[auth.Owner]stop) (err error) {
	list := slices.SortedFunc(maps.Values(all), func(a, b stop) int { return cmp.Compare(a.owner(), b.owner()) })
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.file)
	temporary, err := os.CreateTemp(dir, filepath.Base(s.file)+".*")
	if err != nil {
		return fmt.Errorf("stop_file: %w", err)
	}
	defer os.Remove(temporary.Name()) // which is gone where all went well
	_, err = temporary.Write(append(text, '\n'))
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), s.file)
	}
	if err != nil {
		return fmt.Errorf("stop_file: %w", err)
	}
	if opened, err := os.Open(dir); err == nil { // so that the name outlives a crash, too
		opened.Sync()
		opened.Close()
	}
	return nil
}

// servedWhileStopped are the methods that a stopped principal can still call: they show
// what there is, or end it. Whatever is not here is refused.
var servedWhileStopped = map[string]bool{
	pb.ToolService_GetServerInfo_FullMethodName:  true,
	pb.ToolService_ListTools_FullMethodName:      true,
	pb.ToolService_WatchTools_FullMethodName:     true,
	pb.ToolService_GetExecution_FullMethodName:   true,
	pb.ToolService_ListExecutions_FullMethodName: true,
	pb.ToolService_WatchExecution_FullMethodName: true,
	pb.ToolService_Cancel_FullMethodName:         true,

	pb.SessionService_GetSession_FullMethodName:      true,
	pb.SessionService_ListSessions_FullMethodName:    true,
	pb.SessionService_WatchSession_FullMethodName:    true,
	pb.SessionService_StopPrincipal_FullMethodName:   true,
	pb.SessionService_ResumePrincipal_FullMethodName: true,
	pb.SessionService_ListStops_FullMethodName:       true,

	pb.ApprovalService_ListApprovals_FullMethodName:  true,
	pb.ApprovalService_WatchApprovals_FullMethodName: true,
	pb.ApprovalService_ListGrants_FullMethodName:     true,
}

// refuse returns why a call of a principal is refused now, or nil.
func (s *stopList) refuse(p auth.Principal, method string) error {
	if found, ok := s.of(p); ok && !servedWhileStopped[method] && !isProbe(method) && methods[method].roles != auth.Operator {
		return found.refusal()
	}
	return nil
}

// refuseStopped is refuse for the chain.
func (s *Server) refuseStopped(ctx context.Context, method string) error {
	return s.stops.refuse(principalOf(ctx), method)
}
