// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Bounds of what runtimes serve.
const (
	maxOffered     = 64   // agents of one of them
	maxTasks       = 1000 // that one of them works on at once
	maxRuntimes    = 100  // of an owner
	maxWaiting     = 1000 // tasks of an owner that wait for one of them
	maxDescription = 2 << 10
	maxPatterns    = 256 // of tools, and bytes of each

	cancelGrace = 30 * time.Second
)

// Runtimes serve agents, each for its owner alone. Its methods are safe for concurrent use.
type Runtimes struct {
	taken func(name string) bool // by an agent of the operator
	Grace time.Duration          // for a runtime to answer a cancel; 30 seconds

	mu     sync.Mutex
	owners map[auth.Owner]*ownRuntimes
	given  uint64 // tasks so far
}

// ownRuntimes are those of one owner.
type ownRuntimes struct {
	runtimes []*runtime    // in the order they came
	waiting  []*assignment // in the order they came
}

// A runtime is a stream that serves agents. Its fields below jobs are guarded by the lock of
// [Runtimes].
type runtime struct {
	agents map[string]*Definition // by name in lower case
	room   int                    // tasks at once
	out    chan outgoing
	stir   chan struct{} // has room for one: there are ends
	gone   chan struct{} // closed when it serves no more
	jobs   map[string]*assignment
	last   uint64              // which task it was given last
	ends   []*pb.ServeResponse // of tasks, that it is not told yet
	lost   *lostError          // why it is gone
}

// outgoing is a message for a runtime, about a job.
type outgoing struct {
	*pb.ServeResponse
	job *assignment // nil where it is about none
}

// An assignment is a task for a runtime. Its fields below over are guarded by the lock of [Runtimes].
type assignment struct {
	id, agent string // agent is in lower case
	given     chan *runtime
	requests  chan *pb.ServeRequest
	over      chan struct{} // closed when nobody waits for it
	delivered bool          // the runtime has heard of it
	answered  bool          // its report, or its failure, has come
	left      bool          // nobody waits for it
}

// NewRuntimes returns where runtimes serve agents. The names that are taken are the
// operator's.
func NewRuntimes(taken func(name string) bool) *Runtimes {
	return &Runtimes{taken: taken, Grace: cancelGrace, owners: make(map[auth.Owner]*ownRuntimes)}
}

// Of returns the agents that the runtimes of an owner serve, by name, each as the runtime that
// came last says it.
func (r *Runtimes) Of(owner auth.Owner) []*Definition {
	r.mu.Lock()
	defer r.mu.Unlock()
	agents := make(map[string]*Definition)
	if own := r.owners[owner]; own != nil {
		for _, one := range own.runtimes {
			maps.Copy(agents, one.agents)
		}
	}
	return slices.SortedFunc(maps.Values(agents), func(x, y *Definition) int { return cmp.Compare(x.Name, y.Name) })
}

// List returns the agents that runtimes serve, of all owners that one stands for, by name.
func (r *Runtimes) List(of auth.Owner) (list []*pb.Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, own := range r.owners {
		if !of.Covers(owner) {
			continue
		}
		agents := make(map[string]*pb.Agent)
		for _, one := range own.runtimes {
			for key, d := range one.agents {
				a := cmp.Or(agents[key], &pb.Agent{Principal: owner.Name(), Tenant: owner.Tenant(), Worker: &pb.Agent_Runtimes{Runtimes: new(pb.Runtimes)}})
				a.Name, a.Description = d.Name, d.Description
				count := a.GetRuntimes()
				count.Count++
				count.MaxTasks += uint32(one.room)
				count.Running += uint32(len(one.jobs))
				agents[key] = a
			}
		}
		for _, j := range own.waiting {
			agents[j.agent].GetRuntimes().Waiting++
		}
		for _, a := range agents {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(x, y *pb.Agent) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Principal, y.Principal))
	})
	return list
}

// Counts returns how many runtimes serve, how many tasks they work on, and how many wait.
func (r *Runtimes) Counts() (runtimes, running, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, own := range r.owners {
		runtimes += len(own.runtimes)
		waiting += len(own.waiting)
		for _, one := range own.runtimes {
			running += len(one.jobs)
		}
	}
	return runtimes, running, waiting
}

// offer has a runtime serve what it offers.
func (r *Runtimes) offer(owner auth.Owner, offer *pb.AgentOffer) (*runtime, error) {
	one := &runtime{
		agents: make(map[string]*Definition), room: int(max(offer.GetMaxTasks(), 1)), jobs: make(map[string]*assignment),
		out: make(chan outgoing, 16), stir: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	switch n := len(offer.GetAgents()); {
	case n == 0:
		return nil, invalid("the offer has no agents: name at least one")
	case n > maxOffered:
		return nil, invalid("the offer has %d agents: at most %d", n, maxOffered)
	case one.room > maxTasks:
		return nil, invalid("max_tasks is %d: at most %d", offer.GetMaxTasks(), maxTasks)
	}
	for i, a := range offer.GetAgents() {
		d, err := offered(a)
		if err != nil {
			return nil, invalid("agents[%d]: %v", i, err)
		}
		key := strings.ToLower(d.Name)
		if one.agents[key] != nil {
			return nil, invalid("agents[%d]: the offer has an agent named %s already", i, d.Name)
		}
		if r.taken(d.Name) {
			return nil, status.Errorf(codes.AlreadyExists, "agents[%d]: %s is an agent of the operator: offer it by another name", i, d.Name)
		}
		one.agents[key] = d
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.owners[owner]
	if own == nil {
		own = new(ownRuntimes)
		r.owners[owner] = own
	}
	if len(own.runtimes) >= maxRuntimes {
		return nil, status.Errorf(codes.ResourceExhausted, "%s has %d runtimes that serve agents, which is as many as it may: end one of them", owner.Name(), maxRuntimes)
	}
	own.runtimes = append(own.runtimes, one)
	r.dispatch(own)
	return one, nil
}

// offered returns what an agent of an offer is.
func offered(a *pb.OfferedAgent) (*Definition, error) {
	d := &Definition{
		Name: a.GetName(), Description: a.GetDescription(), Tools: a.GetTools().GetInclude(), Exclude: a.GetTools().GetExclude(),
		Level: tools.Level(a.GetLevel()), Mode: tools.Mode(a.GetMode()), served: true,
	}
	if !agentName.MatchString(d.Name) {
		return nil, fmt.Errorf("%.80q is no name: want 1 to 64 letters, digits, dots, _ and -, beginning with a letter or digit", d.Name)
	}
	if len(d.Description) > maxDescription {
		return nil, fmt.Errorf("the description of %s has %d bytes: at most %d", d.Name, len(d.Description), maxDescription)
	}
	patterns := slices.Concat(d.Tools, d.Exclude)
	if len(patterns) > maxPatterns || slices.ContainsFunc(patterns, func(p string) bool { return p == "" || len(p) > maxPatterns }) {
		return nil, fmt.Errorf("the tools of %s: want at most %d names or patterns, of 1 to %d bytes each", d.Name, maxPatterns, maxPatterns)
	}
	if _, ok := pb.Level_name[int32(a.GetLevel())]; !ok {
		return nil, fmt.Errorf("the level %d of %s is unknown", a.GetLevel(), d.Name)
	}
	if _, ok := pb.Mode_name[int32(a.GetMode())]; !ok || a.GetMode() == pb.Mode_MODE_DENY {
		return nil, fmt.Errorf("the mode %s of %s lets no call run: want another, or none for that of the caller", a.GetMode(), d.Name)
	}
	return d, nil
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// withdraw ends a runtime. Its tasks fail.
func (r *Runtimes) withdraw(owner auth.Owner, one *runtime, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.lost != nil {
		return
	}
	one.lost = &lostError{why}
	close(one.gone)
	own := r.owners[owner]
	own.runtimes = slices.DeleteFunc(own.runtimes, func(o *runtime) bool { return o == one })
	r.dispatch(own)
	if len(own.runtimes) == 0 { // then nothing waits
		delete(r.owners, owner)
	}
}

// assign waits for a runtime that has room for a job. It is free to take others after
// [Runtimes.leave].
func (r *Runtimes) assign(ctx context.Context, owner auth.Owner, j *assignment) (*runtime, error) {
	r.mu.Lock()
	own := r.owners[owner]
	if own == nil || !own.serve(j.agent) {
		r.mu.Unlock()
		return nil, errNotServed(j.agent)
	}
	if len(own.waiting) >= maxWaiting {
		r.mu.Unlock()
		return nil, &tools.Failure{Code: "agent_busy", Message: fmt.Sprintf("%d tasks wait for runtimes that serve agents already: try again later, or do it yourself.", maxWaiting), Retryable: true}
	}
	own.waiting = append(own.waiting, j)
	r.dispatch(own)
	r.mu.Unlock()
	select {
	case one := <-j.given:
		if one == nil {
			return nil, errNotServed(j.agent)
		}
		return one, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case one := <-j.given: // at the same moment
		if one != nil {
			delete(one.jobs, j.id)
			r.dispatch(own)
		}
	default:
		own.waiting = slices.DeleteFunc(own.waiting, func(o *assignment) bool { return o == j })
	}
	return nil, context.Cause(ctx)
}

func errNotServed(name string) error {
	return &tools.Failure{Code: "agent_gone", Message: fmt.Sprintf("The agent %s is gone: no runtime serves it any more. Try again later, give the task to another, or do it yourself.", name), Retryable: true}
}

// serve reports whether one of the runtimes has an agent of a name.
func (own *ownRuntimes) serve(name string) bool {
	return slices.ContainsFunc(own.runtimes, func(o *runtime) bool { return o.agents[name] != nil })
}

// dispatch gives jobs that wait to runtimes with room, each to the one that was given
// nothing for longest. The caller holds the lock.
func (r *Runtimes) dispatch(own *ownRuntimes) {
	own.waiting = slices.DeleteFunc(own.waiting, func(j *assignment) bool {
		if !own.serve(j.agent) {
			j.given <- nil
			return true
		}
		var to *runtime
		for _, one := range own.runtimes {
			if one.agents[j.agent] != nil && len(one.jobs) < one.room && (to == nil || one.last < to.last) {
				to = one
			}
		}
		if to == nil {
			return false
		}
		r.given++
		to.last, to.jobs[j.id] = r.given, j
		j.given <- to
		return true
	})
}

// leave says that nobody waits for a job any more. A runtime that works on it is told, and has to
// answer before it is given another in its place.
func (r *Runtimes) leave(owner auth.Owner, one *runtime, j *assignment, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(j.over)
	j.left = true
	switch {
	case one.lost != nil:
	case j.answered:
		one.end(&pb.ServeResponse{Kind: &pb.ServeResponse_Taken{Taken: &pb.ReportTaken{TaskId: j.id}}})
		r.free(owner, one, j)
	case !j.delivered:
		r.free(owner, one, j)
	default:
		one.end(&pb.ServeResponse{Kind: &pb.ServeResponse_Cancelled{Cancelled: &pb.TaskCancelled{TaskId: j.id, Reason: output.Short(reason, maxText)}}})
		time.AfterFunc(r.Grace, func() {
			r.mu.Lock()
			stuck := one.jobs[j.id] == j
			r.mu.Unlock()
			if stuck {
				r.withdraw(owner, one, status.Errorf(codes.Aborted, "the task %s was cancelled %s ago, and the runtime has not answered with a report or a failure", j.id, r.Grace))
			}
		})
	}
}

// end has a runtime told of the end of a task. They cannot be many: before the runtime has
// heard of them, it is not told of other tasks either. The caller holds the lock.
func (one *runtime) end(m *pb.ServeResponse) {
	one.ends = append(one.ends, m)
	select {
	case one.stir <- struct{}{}:
	default:
	}
}

// free takes a job from its runtime. The caller holds the lock.
func (r *Runtimes) free(owner auth.Owner, one *runtime, j *assignment) {
	delete(one.jobs, j.id)
	if own := r.owners[owner]; own != nil {
		r.dispatch(own)
	}
}
