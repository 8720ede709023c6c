// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/config"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/sandbox/sandboxtest"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// reloading is a server whose policy is in a file.
type reloading struct {
	*policyFile
	t       *testing.T
	client  pb.ToolServiceClient
	metrics *prometheus.Registry
	logs    *observer.ObservedLogs
}

func newReloading(t *testing.T, path, text string) *reloading {
	t.Helper()
	r := &reloading{t: t, metrics: prometheus.NewRegistry()}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	r.logs = logs
	c := config.Default()
	c.Sandbox.Helper = sandboxtest.Helper()
	c.Policy.File, c.Sessions.Workspace, c.Sessions.WorkspaceRoot = path, t.TempDir(), t.TempDir()
	server, err := New(c, zap.New(core), r.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Connect(auth.Principal{Name: "local", OnBehalfOf: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ShutDown(server, 0)
	})
	r.client = pb.NewToolServiceClient(conn)
	r.policyFile = newPolicyFile(path, server, r.metrics, zap.NewNop())
	r.policyFile.logger = zap.New(core)
	r.text = []byte(text)
	return r
}

// verdict calls a tool and returns what the policy said.
func (r *reloading) verdict() *pb.Verdict {
	stream, err := r.client.ExecuteTool(r.t.Context(), &pb.ExecuteToolRequest{Tool: "structured_output", InputJson: []byte(`{"data":1}`)})
	if err != nil {
		r.t.Error(err)
		return nil
	}
	first, err := stream.Recv()
	if err != nil {
		r.t.Error(err)
		return nil
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if accepted := first.GetEvent().GetAccepted(); accepted != nil {
		return accepted.GetVerdict()
	}
	return first.GetEvent().GetFinished().GetVerdict()
}

// rulesNamed is a policy that tells by every one of its parts which it is.
func rulesNamed(name, action string) string {
	return fmt.Sprintf("version: 1\nrules:\n- {name: %s, action: %s, tools: [structured_output], when: 'true'}\n", name, action)
}

// TestReloads changes the policy 200 times under load, every tenth time to
// one that is not valid: each call is judged by one version, and says which.
func TestReloads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	r := newReloading(t, path, rulesNamed("odd", "deny"))
	want := make(map[string]string) // by version
	for name, action := range map[string]string{"odd": "deny", "even": "allow"} {
		p, err := policy.Parse(path, []byte(rulesNamed(name, action)))
		if err != nil {
			t.Fatal(err)
		}
		want[p.Version()] = "rule " + name
	}
	stop := make(chan struct{})
	var calls atomic.Int64
	var seen sync.Map
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := r.verdict()
				calls.Add(1)
				seen.Store(v.GetPolicyVersion(), true)
				if want[v.GetPolicyVersion()] != v.GetRule() || v.GetRule() == "" {
					t.Errorf("%v", v)
					return
				}
			}
		})
	}
	valid := 0
	for i := range 200 {
		text := rulesNamed("even", "allow")
		switch {
		case i%10 == 9:
			text = "version: 1\nrules:\n- {name: broken, action: perhaps}\n"
		case i%2 == 1:
			text = rulesNamed("odd", "deny")
		}
		if i%10 != 9 && text != string(r.text) {
			valid++
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reload()
	}
	for range 20 { // both versions had their calls
		r.verdict()
	}
	close(stop)
	load.Wait()
	versions := 0
	seen.Range(func(any, any) bool { versions++; return true })
	if calls.Load() < 20 || versions != 2 {
		t.Errorf("%d calls saw %d versions: the test proves nothing", calls.Load(), versions)
	}
	text := metricsText(t, r.metrics)
	for _, line := range []string{
		`toolserver_policy_reloads_total{result="failed"} 20`,
		fmt.Sprintf(`toolserver_policy_reloads_total{result="succeeded"} %d`, valid),
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if failed := r.logs.FilterMessageSnippet("not valid").All(); len(failed) != 20 || !strings.Contains(fmt.Sprint(failed[0].ContextMap()), "policy.yaml:3") {
		t.Errorf("%d lines about it in the log: %v", len(failed), failed)
	}
}

// TestReloadOfAConfigMap swaps a link, as Kubernetes does under a mounted
// ConfigMap, and watches the change come into force.
func TestReloadOfAConfigMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"..v1": rulesNamed("one", "allow"), "..v2": rulesNamed("two", "allow")} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "policy.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v1", "..data")
	link("..data/policy.yaml", "policy.yaml")
	r := newReloading(t, filepath.Join(dir, "policy.yaml"), rulesNamed("one", "allow"))
	ctx, cancel := context.WithCancel(t.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		r.watch(ctx, time.Millisecond)
	}()
	defer func() {
		cancel()
		<-watching
	}()
	if got := r.verdict().GetRule(); got != "rule one" {
		t.Fatalf("%s is in force", got)
	}
	link("..v2", "..tmp")
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for r.verdict().GetRule() != "rule two" {
		if t.Context().Err() != nil {
			t.Fatal("the swap was not seen")
		}
	}

	// A file that goes away changes nothing.
	if err := os.Remove(filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(metricsText(t, r.metrics), `{result="failed"} 1`) {
		if t.Context().Err() != nil {
			t.Fatal("nobody noticed")
		}
		time.Sleep(time.Millisecond)
	}
	if got := r.verdict().GetRule(); got != "rule two" {
		t.Errorf("%s is in force", got)
	}
}

// metricsText returns metrics as Prometheus is told them.
func metricsText(t testing.TB, metrics prometheus.Gatherer) string {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
