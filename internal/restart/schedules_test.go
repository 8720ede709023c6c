// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolserver/toolserver/internal/soaktest"
	"github.com/toolserver/toolserver/internal/state/statetest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

const schedulingConfiguration = `
authentication:
  tokens:
    - {principal: agent, max_mode: allow, token: the-token-of-agent}
sessions: {workspace_root: %s, allowed_workspaces: [%s], max_per_principal: 3000}
schedules: {max_per_principal: 3000}
state: {engine: cluster, url: "%s"}
replica: {listen: "%s", lease: 3s}
`

// TestSchedulesFireOnce has three replicas with a cluster of the engine see to schedules, and
// kills replicas meanwhile: each schedule fires once, whoever sees to it, and has one end.
func TestSchedulesFireOnce(t *testing.T) {
	t.Parallel()
	count, kills := soaktest.Times(24, 1000), soaktest.Times(1, 5)
	within, ahead := time.Duration(soaktest.Times(4, 60))*time.Second, time.Duration(soaktest.Times(4, 20))*time.Second
	f := &fleet{t: t, cluster: statetest.NewCluster(t, 3, nil)}
	root, workspace := t.TempDir(), t.TempDir()
	for range 3 {
		file := filepath.Join(t.TempDir(), "toolserver.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, schedulingConfiguration, root, workspace, f.cluster.URL(), freeAddress(t)), 0o600); err != nil {
			t.Fatal(err)
		}
		f.servers = append(f.servers, sdktest.Start(t, sdktest.Build(t), "TOOLSERVER_CONFIG="+file))
	}
	agents := []*caller{f.at(0, "agent"), f.at(1, "agent"), f.at(2, "agent")}
	for i, agent := range agents {
		agent.session(&pb.CreateSessionRequest{SessionId: fmt.Sprint("s", i), Workspace: workspace, Mode: pb.Mode_MODE_ALLOW})
	}
	var making errgroup.Group
	making.SetLimit(8)
	for i := range count {
		making.Go(func() error {
			for { // until it was made before its time
				at := time.Now().Add(ahead + within*time.Duration(i)/time.Duration(count)).UTC().Format(time.RFC3339Nano)
				events, err := patient(func() ([]*pb.Event, error) {
					return agents[i%3].call(fmt.Sprint("s", i%3), "", "schedule_create", fmt.Sprintf(`{"name": "%d", "tool": "bash", "input": {"command": "echo %[1]d >> effects"}, "at": %q}`, i, at))
				})
				if err != nil {
					return err
				}
				switch end := events[len(events)-1].GetFinished(); {
				case end.GetOutcome() == pb.Outcome_OUTCOME_SUCCEEDED, end.GetFailure().GetCode() == "schedule_exists": // by a call that was told as failed
					return nil
				case end.GetFailure().GetCode() != "invalid_time" && !end.GetFailure().GetRetryable():
					return fmt.Errorf("%d: %v", i, end)
				}
			}
		})
	}
	if err := making.Wait(); err != nil {
		t.Fatal(err)
	}
	effects := filepath.Join(workspace, "effects")
	for kill := range kills {
		for len(lines(t, effects)) < (kill+1)*count/(kills+2) {
			time.Sleep(10 * time.Millisecond)
		}
		victim := f.servers[rand.IntN(3)]
		victim.Kill()
		victim.Restart()
	}
	outcomes := make(map[string]int)
	for i := range count {
		how := f.at(i%3, "agent").outcome(fmt.Sprint(i))
		outcomes[how]++
		times := lines(t, effects)[fmt.Sprint(i)]
		if times > 1 || how == "succeeded" && times != 1 || how != "succeeded" && how != "lost" {
			t.Errorf("%d: %s, and fired %d times", i, how, times)
		}
	}
	t.Logf("%d kills: %v", kills, outcomes)
}

// outcome waits until a schedule has fired, and returns what came of it.
func (c *caller) outcome(name string) string {
	c.t.Helper()
	for late := time.Now().Add(90 * time.Second); ; {
		var told struct {
			Schedules []struct {
				Running int
				History []struct{ Outcome, Reason string }
			}
		}
		_, end := c.end("", "", "schedule_list", fmt.Sprintf(`{"name": %q}`, name))
		if err := json.Unmarshal([]byte(end.GetDetailsJson()), &told); err != nil || len(told.Schedules) != 1 {
			c.t.Fatal(end, err)
		}
		switch one := told.Schedules[0]; {
		case len(one.History) > 1:
			c.t.Errorf("%s ended %d times: %v", name, len(one.History), one.History)
			fallthrough
		case len(one.History) == 1 && one.Running == 0:
			return one.History[0].Outcome
		case time.Now().After(late):
			c.t.Fatalf("%s has not ended: %v", name, end)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
