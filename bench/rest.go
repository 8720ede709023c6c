// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/bench/work"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// restConcurrency is how many unary calls are made at once.
var restConcurrency = []int{1, 16}

// restFigure is the figure of the HTTP edge. The yardstick is the same server by gRPC.
func restFigure(ctx context.Context, h *harness) ([]row, error) {
	e, err := h.startEdge(ctx)
	if err != nil {
		return nil, err
	}
	defer e.stop()
	ended, err := e.ended(ctx)
	if err != nil {
		return nil, err
	}

	var groups []group
	unary := make([]sides[slice], len(restConcurrency))
	for i, n := range restConcurrency {
		by := func(call caller) func(context.Context) (slice, error) {
			return func(ctx context.Context) (slice, error) {
				sample, err := load(ctx, e.server, call, n, h.plan.slice)
				h.foreign = append(h.foreign, sample.foreign)
				return sample, err
			}
		}
		grpc := func(ctx context.Context) error {
			_, err := e.client.GetExecution(ctx, &pb.GetExecutionRequest{ExecutionId: ended})
			return err
		}
		groups = append(groups, unary[i].entrants(by(e.get("/v1/executions/"+ended)), by(grpc), by(grpc)))
	}
	var bulk sides[stretch]
	grpc := func(ctx context.Context) (stretch, error) { return h.stretch(ctx, e.server) }
	groups = append(groups, bulk.entrants(func(ctx context.Context) (stretch, error) { return e.stretch(ctx, h.plan.outputSlice) }, grpc, grpc))
	if err := interleave(ctx, h.plan.warmups, groups...); err != nil {
		return nil, err
	}
	for i := range unary {
		unary[i].forget()
	}
	bulk.forget()
	if err := interleave(ctx, h.plan.rounds, groups...); err != nil {
		return nil, err
	}
	var rows []row
	for i, n := range restConcurrency {
		name := fmt.Sprintf("GetExecution by HTTP, %d at once (bare: by gRPC)", n)
		rows = append(rows, unary[i].row(name, "calls/s", rateOf, ratioAtLeast(0.5)), unary[i].row(name+": server CPU", "µs/call", cpuOf, target{}))
	}
	const name = "output as NDJSON (bare: by gRPC)"
	rows = append(rows, bulk.row(name, "MiB/s", func(s stretch) float64 { return s.speed }, ratioAtLeast(0.4)),
		bulk.row(name+": server CPU", "ms/GiB", func(s stretch) float64 { return s.cpu }, target{}))
	painted, err := e.paint(ctx)
	if err != nil {
		return nil, err
	}
	rows = append(rows, row{Name: "first contentful paint of the console", Unit: "ms", Rounds: len(painted), Toolserver: spreadOf(painted)}.judge(valueAtMost(200)))
	each, err := h.weighStreams(ctx)
	return append(rows, single(fmt.Sprintf("RSS of each of %d open event streams", h.plan.agents), "KiB", each, valueAtMost(100))), err
}

// edgeServer is a server with its HTTP edge.
type edgeServer struct {
	*server
	url  string
	http *http.Client
}

func (h *harness) startEdge(ctx context.Context) (*edgeServer, error) {
	s, err := h.start(ctx, h.command(h.subject, "serve", "--listen", anyPort, "--admin", "off", "--http", anyPort))
	if err != nil {
		return nil, err
	}
	address, err := s.httpAddress()
	if err != nil {
		s.stop()
		return nil, err
	}
	return &edgeServer{s, "http://" + address, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}, nil
}

// ended returns an execution that has ended, with a result of 1 KiB.
func (e *edgeServer) ended(ctx context.Context) (id string, err error) {
	err = follow(ctx, e.client, &pb.ExecuteToolRequest{Tool: work.Noop, InputJson: work.JSON(work.NoopInput{Text: "x"})}, func(message *pb.ExecuteToolResponse) error {
		id = message.GetEvent().GetExecutionId()
		return nil
	})
	return id, err
}

// get fetches a path.
func (e *edgeServer) get(path string) caller {
	return func(ctx context.Context) error {
		response, err := e.ask(ctx, http.MethodGet, path, nil, "")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}

func (e *edgeServer) ask(ctx context.Context, method, path string, body []byte, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := e.http.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		response.Body.Close()
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return response, err
}

// stretch has output come as lines, and reads them without looking into them.
func (e *edgeServer) stretch(ctx context.Context, size int64) (stretch, error) {
	before, err := cpuTime(e.pid())
	if err != nil {
		return stretch{}, err
	}
	begin := time.Now()
	body := fmt.Appendf(nil, `{"tool":%q,"input":%s}`, work.Output, work.JSON(work.OutputInput{Bytes: size, Chunk: work.ChunkBytes}))
	response, err := e.ask(ctx, http.MethodPost, "/v1/executions", body, "")
	if err != nil {
		return stretch{}, err
	}
	defer response.Body.Close()
	var last string
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	count := int64(0)
	for lines.Scan() {
		count++
		if len(lines.Bytes()) < 4096 {
			last = lines.Text()
		}
	}
	took := time.Since(begin)
	if err := lines.Err(); err != nil {
		return stretch{}, err
	}
	if !strings.Contains(last, "OUTCOME_SUCCEEDED") || count < size/work.ChunkBytes {
		return stretch{}, fmt.Errorf("output as lines: %d of them, the last %.200q", count, last)
	}
	after, err := cpuTime(e.pid())
	return stretch{
		speed: float64(size) / mib / took.Seconds(),
		cpu:   float64(after-before) / 1e6 / (float64(size) / (1024 * mib)),
	}, errors.Join(err, e.emptyLog())
}

// weighStreams returns the KiB that each of many open event streams adds to a server, each
// over a connection of its own, as browsers have them.
func (h *harness) weighStreams(ctx context.Context) (float64, error) {
	e, err := h.startEdge(ctx)
	if err != nil {
		return 0, err
	}
	defer e.stop()
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	id := make(chan string, 1)
	reading.Go(func() {
		follow(ctx, e.client, &pb.ExecuteToolRequest{Tool: work.Sleep, InputJson: work.JSON(work.SleepInput{DurationMS: 600_000})}, func(message *pb.ExecuteToolResponse) error {
			select {
			case id <- message.GetEvent().GetExecutionId():
			default:
			}
			return nil
		})
	})
	var path string
	select {
	case first := <-id:
		path = "/v1/executions/" + first + "/events"
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	idle, err := h.idleMemory(ctx, e.server)
	if err != nil {
		return 0, err
	}
	for range h.plan.agents {
		response, err := e.ask(ctx, http.MethodGet, path, nil, "text/event-stream")
		if err != nil {
			return 0, err
		}
		reading.Go(func() {
			defer response.Body.Close()
			io.Copy(io.Discard, response.Body)
		})
	}
	if err := pause(ctx, 4*h.plan.settle); err != nil {
		return 0, err
	}
	now, _, err := memory(e.pid())
	return (now - idle) / 1024 / float64(h.plan.agents), err
}
