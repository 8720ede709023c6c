// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// slice is what one short spell of calls showed.
type slice struct {
	rate     float64 // calls in a second
	p50, p99 float64 // of a call, in µs
	cpu      float64 // of the server, in µs for each call
	client   float64 // the same of this process
	foreign  float64 // cores that neither the server nor this process kept busy
}

// A caller makes one call, from beginning to end.
type caller func(context.Context) error

// load makes calls for a while, so many at once, and tells how it went.
func load(ctx context.Context, s *server, call caller, workers int, length time.Duration) (slice, error) {
	before, err := readClocks(s)
	if err != nil {
		return slice{}, err
	}
	var (
		wait      sync.WaitGroup
		latencies = make([][]float64, workers)
		errs      = make([]error, workers)
		begin     = time.Now()
		end       = begin.Add(length)
	)
	for i := range workers {
		wait.Go(func() {
			own := make([]float64, 0, 4096)
			for now := time.Now(); len(own) == 0 || now.Before(end); { // once at least: a machine can stall
				if errs[i] = call(ctx); errs[i] != nil {
					return
				}
				next := time.Now()
				own = append(own, float64(next.Sub(now))/1e3)
				now = next
			}
			latencies[i] = own
		})
	}
	wait.Wait()
	took := time.Since(begin)
	after, err := readClocks(s)
	if err := errors.Join(append(errs, err)...); err != nil {
		return slice{}, fmt.Errorf("%s: %w", s.name, err)
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	calls := float64(len(all))
	server := after.server - before.server
	return slice{
		rate: calls / took.Seconds(),
		p50:  quantile(all, 0.50), p99: quantile(all, 0.99),
		cpu:     float64(server) / 1e3 / calls,
		client:  float64(after.self-before.self) / 1e3 / calls,
		foreign: (after.busy - before.busy - server - (after.self - before.self)).Seconds() / took.Seconds(),
	}, s.emptyLog()
}

// clocks are the processor times that a slice is charged by.
type clocks struct{ server, self, busy time.Duration }

func readClocks(s *server) (c clocks, err error) {
	c.busy = busyTime()
	if c.self, err = cpuTime(os.Getpid()); err != nil {
		return c, err
	}
	c.server, err = cpuTime(s.pid())
	return c, err
}

// follow makes a call and hands every message to see.
func follow(ctx context.Context, client pb.ToolServiceClient, request *pb.ExecuteToolRequest, see func(*pb.ExecuteToolResponse) error) error {
	ctx, cancel := context.WithCancel(ctx) // for a see that fails
	defer cancel()
	stream, err := client.ExecuteTool(ctx, request)
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := see(message); err != nil {
			return err
		}
	}
}

// callNumber makes call ids that no server has seen: one that has answers with the
// call that it knows.
var callNumber atomic.Uint64

// noop calls a tool that does nothing and checks that it did. With callID the
// request carries an id of its own.
func noop(s *server, tool string, callID bool) caller {
	request := noopRequest()
	request.Tool = tool
	return func(ctx context.Context) error {
		request := request
		if callID {
			request = proto.CloneOf(request)
			request.CallId = proto.String("call_" + strconv.FormatUint(1e12+callNumber.Add(1), 10))
		}
		messages, size := 0, 0
		err := follow(ctx, s.client, request, func(message *pb.ExecuteToolResponse) error {
			messages++
			if finished := message.GetEvent().GetFinished(); finished != nil {
				size = len(finished.GetContent()[0].GetText())
			}
			return nil
		})
		if err == nil && (messages != 3 || size != work.ResultBytes) {
			err = fmt.Errorf("%d messages and %d bytes of result", messages, size)
		}
		return err
	}
}

// listTools lists the index and checks that it is whole.
func listTools(s *server) caller {
	return func(ctx context.Context) error {
		list, err := s.client.ListTools(ctx, &pb.ListToolsRequest{})
		if err == nil && len(list.GetTools()) != work.IndexTools {
			err = fmt.Errorf("listed %d tools", len(list.GetTools()))
		}
		return err
	}
}

// duel is a kind of call at one number of calls at once.
type duel struct {
	name    string
	make    func(*server) caller
	workers int
	sides[slice]
}

// fight runs duels against a new trio of servers.
func (h *harness) fight(ctx context.Context, duels []*duel) error {
	servers, err := h.startTrio(ctx)
	if err != nil {
		return err
	}
	defer servers.stop()
	return h.fightOn(ctx, servers, duels)
}

// fightOn is fight with servers that are there.
func (h *harness) fightOn(ctx context.Context, servers *trio, duels []*duel) error {
	var groups []group
	for _, d := range duels {
		side := func(s *server) func(context.Context) (slice, error) {
			call := d.make(s)
			return func(ctx context.Context) (slice, error) {
				sample, err := load(ctx, s, call, d.workers, h.plan.slice)
				h.foreign = append(h.foreign, sample.foreign)
				return sample, err
			}
		}
		groups = append(groups, d.entrants(side(servers.subject), side(servers.bare), side(servers.control)))
	}
	// Rounds that do not count: connections are made, pools and caches fill, and
	// the subject comes to keep as many ended executions as it ever will.
	if err := interleave(ctx, h.plan.warmups, groups...); err != nil {
		return err
	}
	for _, d := range duels {
		d.sides.forget()
	}
	return interleave(ctx, h.plan.rounds, groups...)
}

func rateOf(s slice) float64 { return s.rate }
func p50Of(s slice) float64  { return s.p50 }
func p99Of(s slice) float64  { return s.p99 }
func cpuOf(s slice) float64  { return s.cpu }

// clientOf is what the client of the measurement costs.
func clientOf(s slice) float64 { return s.client }

// executeTool is figure 1.
func executeTool(ctx context.Context, h *harness) ([]row, error) {
	var plain, others []*duel
	for _, n := range h.plan.concurrency {
		plain = append(plain, &duel{
			name: fmt.Sprintf("ExecuteTool, %d at once", n), workers: n,
			make: func(s *server) caller { return noop(s, work.Noop, false) },
		})
		others = append(others, &duel{
			name: fmt.Sprintf("ExecuteTool with call ids, %d at once", n), workers: n,
			make: func(s *server) caller { return noop(s, work.Noop, true) },
		})
	}
	if err := h.fight(ctx, slices.Concat(plain, others)); err != nil {
		return nil, err
	}
	var rows []row
	for _, d := range plain {
		rows = append(rows,
			d.row(d.name, "calls/s", rateOf, ratioAtLeast(0.85)),
			d.row(d.name+": p50", "µs", p50Of, target{}),
			d.row(d.name+": p99", "µs", p99Of, ratioAtMost(1.3)),
			d.row(d.name+": server CPU", "µs/call", cpuOf, target{}))
	}
	for _, d := range others {
		rows = append(rows,
			d.row(d.name, "calls/s", rateOf, target{}),
			d.row(d.name+": server CPU", "µs/call", cpuOf, target{}))
	}
	return rows, nil
}

// listIndex is figure 2.
func listIndex(ctx context.Context, h *harness) ([]row, error) {
	var duels []*duel
	for _, n := range h.plan.concurrency {
		duels = append(duels, &duel{
			name: fmt.Sprintf("ListTools of %d tools, %d at once", work.IndexTools, n), workers: n, make: listTools,
		})
	}
	if err := h.fight(ctx, duels); err != nil {
		return nil, err
	}
	var rows []row
	for _, d := range duels {
		rows = append(rows,
			d.row(d.name, "calls/s", rateOf, ratioAtLeast(0.9)),
			d.row(d.name+": server CPU", "µs/call", cpuOf, target{}))
	}
	return rows, nil
}
