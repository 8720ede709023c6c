// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// crew is one at work. It is for one goroutine.
type crew struct {
	*agent.Crew
	agents  *Agents
	env     tools.Env
	out     tools.Sink
	stages  map[string]*stage
	results map[string]string // of those that succeeded
	ended   chan *stage       // whose loop has ended
	running int
}

// stage is one of a crew.
type stage struct {
	agent.Ending
	agent string // as its definition writes it
	loop  *loop  // nil until it has begun
	over  bool
}

// Crew has agents work on the stages of a crew, each as soon as those have succeeded that
// it depends on. Every stage is told as waiting first, and as ended once.
func (a *Agents) Crew(ctx context.Context, env tools.Env, plan *agent.Crew, out tools.Sink) ([]agent.Ending, error) {
	a.renew()
	c := &crew{
		Crew: plan, agents: a, env: env, out: out,
		stages: make(map[string]*stage), results: make(map[string]string), ended: make(chan *stage, len(plan.Stages)),
	}
	for i := range plan.Stages {
		s := &plan.Stages[i]
		chosen, err := a.choose(env, s.Agent)
		if err != nil {
			if failure, ok := errors.AsType[*tools.Failure](err); ok {
				failure.Message = "Nothing was begun, for the stage " + s.Name + ": " + failure.Message
			}
			return nil, err
		}
		c.stages[s.Name] = &stage{Ending: agent.Ending{Stage: s}, agent: chosen.Name}
	}
	for i := range plan.Stages {
		s := &plan.Stages[i]
		c.tell(c.stages[s.Name], &pb.StageChanged{State: pb.StageState_STAGE_STATE_WAITING, Description: s.Description(), DependsOn: s.DependsOn})
	}
	c.work(ctx)
	endings := make([]agent.Ending, len(plan.Stages))
	for i := range plan.Stages {
		endings[i] = c.stages[plan.Stages[i].Name].Ending
	}
	return endings, context.Cause(ctx)
}

// work has all stages end.
func (c *crew) work(ctx context.Context) {
	limit := c.agents.config.MaxParallel
	if c.Parallel > 0 {
		limit = min(limit, c.Parallel)
	}
	for {
		for i := range c.Stages { // those before it first: what is skipped has others skipped
			s := c.stages[c.Stages[i].Name]
			switch ready, why := c.ready(s); {
			case s.over || s.loop != nil:
			case why != nil:
				c.end(s, agent.Status{Agent: s.agent, Err: why}, true)
			case ctx.Err() != nil:
				c.end(s, agent.Status{Agent: s.agent, Err: tools.Failf("skipped", "the crew was stopped before it began")}, true)
			case ready && c.running < limit:
				c.begin(ctx, s)
			}
		}
		if c.running == 0 {
			return
		}
		select {
		case s := <-c.ended:
			c.running--
			c.end(s, s.loop.Status(), false)
		case message := <-c.out.Messages():
			for _, s := range c.stages {
				if s.loop != nil && !s.over {
					s.loop.Send(message) // one that comes too late is nobody's
				}
			}
		}
	}
}

// ready reports whether a stage can begin, or why it never will.
func (c *crew) ready(s *stage) (ready bool, never error) {
	ready = true
	for _, name := range s.Stage.DependsOn {
		before := c.stages[name]
		switch {
		case !before.over:
			ready = false
		case before.Skipped:
			return false, tools.Failf("skipped", "it depends on %s, which was skipped", name)
		case before.Status.Err != nil:
			return false, tools.Failf("skipped", "it depends on %s, which failed", name)
		}
	}
	return ready, nil
}

// begin has the agent of a stage begin.
func (c *crew) begin(ctx context.Context, s *stage) {
	begun, err := c.agents.Begin(ctx, c.env, agent.Task{
		Agent: s.agent, Stage: s.Stage.Name, Description: s.Stage.Description(), Prompt: c.Filled(s.Stage, c.results),
	}, c.out)
	if err != nil {
		c.end(s, agent.Status{Agent: s.agent, Err: err}, false)
		return
	}
	s.loop = begun.(*loop)
	c.running++
	go func() {
		<-s.loop.done // which is soon where ctx is
		c.ended <- s
	}()
}

// end takes note of how a stage ended.
func (c *crew) end(s *stage, status agent.Status, skipped bool) {
	s.over, s.Status, s.Skipped = true, status, skipped
	changed := &pb.StageChanged{State: pb.StageState_STAGE_STATE_DONE}
	switch {
	case skipped:
		changed.State = pb.StageState_STAGE_STATE_SKIPPED
	case status.Err != nil:
		changed.State = pb.StageState_STAGE_STATE_FAILED
	default:
		c.results[s.Stage.Name] = status.Report.Text
	}
	if status.Err != nil {
		changed.Reason = output.Short(status.Err.Error(), maxText)
	}
	c.tell(s, changed)
}

// tell tells the caller's stream what became of a stage.
func (c *crew) tell(s *stage, changed *pb.StageChanged) {
	u := &Update{Stage: s.Stage.Name, Agent: s.agent, Kind: &pb.Nested_StageChanged{StageChanged: changed}}
	if s.loop != nil {
		u.ChildLoopId = s.loop.id
	}
	if encoded, err := proto.Marshal(u); err == nil {
		c.out.Emit(tools.Nested(encoded))
	}
}
