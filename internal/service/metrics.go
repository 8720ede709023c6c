// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"strings"
	"sync"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/span"
	"github.com/toolserver/toolserver/internal/tools"
)

// meters are what Prometheus sees of a server.
type meters struct {
	grpc          *grpcprom.ServerMetrics // grpc_server_*
	rpcs          *prometheus.CounterVec
	calls         *prometheus.CounterVec
	sourceCalls   *prometheus.CounterVec
	limited       *prometheus.CounterVec
	shadowLimited *prometheus.CounterVec
	overQuota     *prometheus.CounterVec
	durations     *prometheus.HistogramVec
	verdicts      *prometheus.CounterVec
	answers       *prometheus.CounterVec
	answerTimes   *prometheus.HistogramVec
	hooks         *prometheus.CounterVec
	hookTimes     *prometheus.HistogramVec
	rules         boundedLabel
	tenants       boundedLabel
}

// A boundedLabel keeps a label from having values without end: rules change with each
// policy, tenants come by claims, and a server lives long.
type boundedLabel struct {
	mu   sync.Mutex
	seen map[string]bool
}

// maxRules is how many values a bounded label has beside "(other)".
const maxRules = 300

// of returns the value of the label for a name.
func (b *boundedLabel) of(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.seen[name] {
		if len(b.seen) >= maxRules {
			return "(other)"
		}
		if b.seen == nil {
			b.seen = make(map[string]bool)
		}
		b.seen[name] = true
	}
	return name
}

// ruleKind returns the rule of a verdict without what is of one call or one person in it.
func ruleKind(rule string) string {
	for _, kind := range []string{"grant", "approver"} {
		if strings.HasPrefix(rule, kind+" ") {
			return kind
		}
	}
	const most = 100
	return label(rule[:min(len(rule), most)])
}

// unknownTool is the label of calls of tools that do not exist: their names
// come from outside and would never end.
const unknownTool = "(unknown)"

// durationBounds are in seconds, each four times the one before: from what a
// tool needs that only computes to half an hour.
var durationBounds = []float64{0.0005, 0.002, 0.008, 0.032, 0.128, 0.512, 2.048, 8.192, 32.768, 131.072, 524.288, 2097.152}

// answerBounds are in seconds: people take longer than programs.
var answerBounds = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800}

// newMeters registers the metrics of a server. stats is asked at each scrape.
func newMeters(registry prometheus.Registerer, stats func() executor.Stats) *meters {
	add := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return add.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &meters{
		grpc: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
			grpcprom.WithHistogramBuckets(durationBounds))),
		rpcs:          counter("toolserver_rpcs_total", "RPCs by method and status code.", "method", "code"),
		calls:         counter("toolserver_calls_total", "Ended executions by tool and outcome.", "tool", "outcome"),
		sourceCalls:   counter("toolserver_source_calls_total", "Ended executions of tools from elsewhere, by source and outcome.", "source", "outcome"),
		limited:       counter("toolserver_limited_total", "Calls that a rate limit refused.", "limit", "tool"),
		shadowLimited: counter("toolserver_shadow_limited_total", "Calls that a rate limit in shadow would have refused.", "limit", "tool"),
		overQuota:     counter("toolserver_over_quota_total", "RPCs that were refused because a tenant has all of a quota.", "tenant", "quota"),
		verdicts:      counter("toolserver_verdicts_total", "What was decided about calls and transfers, by action and rule.", "action", "rule"),
		answers:       counter("toolserver_approval_answers_total", "Ended questions to people by answer.", "answer"),
		answerTimes: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "toolserver_approval_wait_seconds", Help: "Time questions to people waited, by answer.", Buckets: answerBounds,
		}, []string{"answer"}),
		hooks: counter("toolserver_hooks_total", "Runs of hooks by hook, point and outcome.", "hook", "point", "outcome"),
		hookTimes: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "toolserver_hook_duration_seconds", Help: "Time hooks took, waiting for their turn included.", Buckets: durationBounds,
		}, []string{"hook", "point"}),
		durations: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "toolserver_call_duration_seconds", Help: "Time tools ran.", Buckets: durationBounds,
		}, []string{"tool"}),
	}
	registry.MustRegister(m.grpc)
	gauge := func(name, help string, value func(executor.Stats) float64) {
		add.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(stats()) })
	}
	grows := func(name, help string, value func(executor.Stats) float64) {
		add.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(stats()) })
	}
	gauge("toolserver_running", "Executions that run.",
		func(s executor.Stats) float64 { return float64(s.Running) })
	gauge("toolserver_queue", "Executions that are accepted and wait.",
		func(s executor.Stats) float64 { return float64(s.Waiting) })
	gauge("toolserver_retained", "Ended executions that can still be read.",
		func(s executor.Stats) float64 { return float64(s.Retained) })
	gauge("toolserver_log_bytes", "Bytes of events kept.",
		func(s executor.Stats) float64 { return float64(s.LogBytes) })
	grows("toolserver_log_dropped_events_total", "Events dropped because a log was full.",
		func(s executor.Stats) float64 { return float64(s.DroppedEvents) })
	grows("toolserver_output_bytes_total", "Bytes of output tools wrote.",
		func(s executor.Stats) float64 { return float64(s.OutputBytes) })
	return m
}

// watch registers what is asked at each scrape of the parts of a server.
func (m *meters) watch(registry prometheus.Registerer, s *Server) {
	gauge := func(name, help string, value func() float64) {
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	gauge("toolserver_approvals_waiting", "Questions that wait for a person.", func() float64 { return float64(s.approvals.Pending()) })
	gauge("toolserver_sessions", "Sessions that are open.", func() float64 { return float64(s.config.Sessions.Count()) })
	gauge("toolserver_stops", "Emergency stops in force.", func() float64 { return float64(len(*s.stops.current.Load())) })
	if s.config.Processes != nil {
		gauge("toolserver_processes", "Commands that run, with background processes and interpreters.", func() float64 { return float64(s.config.Processes()) })
	}
	if store := s.config.Artifacts; store != nil {
		gauge("toolserver_artifacts", "Artifacts that are kept.", func() float64 { n, _ := store.Stats(); return float64(n) })
		gauge("toolserver_artifact_bytes", "Bytes of artifacts that are kept.", func() float64 { _, n := store.Stats(); return float64(n) })
		promauto.With(registry).NewCounterFunc(prometheus.CounterOpts{
			Name: "toolserver_artifacts_uncopied_total", Help: "Artifacts that other replicas do not find once this one has ended, for they could not be copied.",
		}, func() float64 { return float64(store.Uncopied()) })
	}
}

// decided counts what was decided about a call.
func (m *meters) decided(action, rule string) {
	m.verdicts.WithLabelValues(action, m.rules.of(ruleKind(rule))).Inc()
}

// ended counts an RPC that ended.
func (m *meters) ended(method, code string, example prometheus.Labels) {
	m.rpcs.WithLabelValues(method, code).(prometheus.ExemplarAdder).AddWithExemplar(1, example)
}

// resolved counts the end of a question.
func (m *meters) resolved(q *approval.Question, a approval.Answer) {
	kind := a.Kind.String()
	m.answers.WithLabelValues(kind).Inc()
	m.answerTimes.WithLabelValues(kind).Observe(a.At.Sub(q.Created).Seconds())
}

// link counts and times every call as dashboards for gRPC expect it.
func (m *meters) link() link {
	traced := grpcprom.WithExemplarFromContext(func(ctx context.Context) prometheus.Labels { return exemplar(span.Of(ctx)) })
	return link{unary: m.grpc.UnaryServerInterceptor(traced), stream: m.grpc.StreamServerInterceptor(traced)}
}

// observe counts an execution that ends.
func (m *meters) observe(x *executor.Execution, end *executor.Finished) {
	tool := x.Order.Tool
	if end.Outcome == executor.NoSuchTool {
		tool = unknownTool
	}
	tool = toolLabel(tool)
	example, outcome := exemplarOf(x.Trace), end.Outcome.String()
	m.calls.WithLabelValues(tool, outcome).(prometheus.ExemplarAdder).AddWithExemplar(1, example)
	if source, _, ok := strings.Cut(tool, tools.NamespaceMark); ok { // which the server has
		m.sourceCalls.WithLabelValues(source, outcome).Inc()
	}
	if x.Info().State == executor.Running { // a refused call never was
		m.durations.WithLabelValues(tool).(prometheus.ExemplarObserver).ObserveWithExemplar(end.Ran.Seconds(), example)
	}
}

// hooked counts a run of a hook.
func (m *meters) hooked(run hook.Run) {
	m.hooks.WithLabelValues(label(run.Hook), string(run.Point), run.Outcome.String()).Inc()
	m.hookTimes.WithLabelValues(label(run.Hook), string(run.Point)).Observe(run.Took.Seconds())
}

// overLimit counts a call that is over a limit.
func (m *meters) overLimit(limit, tool string, shadow bool) {
	counter := m.limited
	if shadow {
		counter = m.shadowLimited
	}
	counter.WithLabelValues(label(limit), toolLabel(tool)).Inc()
}

// toolLabel returns the name of a tool as a label. Agents make tools without end: theirs
// are one.
func toolLabel(name string) string {
	if kind := tools.Dynamic.String(); strings.HasPrefix(name, kind+tools.NamespaceMark) {
		return kind
	}
	return label(name)
}

// label returns a name that others gave as the value of a label: the library
// panics at what is not UTF-8.
func label(name string) string { return output.ValidText(name) }
