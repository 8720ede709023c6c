// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/markdown"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// Options are what agents work with.
type Options struct {
	// Model returns the model of an endpoint; with an empty name, of the first.
	Model func(endpoint string) (model.Model, error)

	// Endpoints are the names of those there are. Done, if set, is called when nobody asks
	// them any more.
	Endpoints []string
	Done      func()

	// Changed, if set, is told when there are other agents than before.
	Changed func(*Agents)

	// Ours returns what a tool is called here that has a name in any system; nothing where
	// nobody knows it.
	Ours func(name string) []string

	// Mask, if set, returns a text without the secrets in it. What models write is masked
	// before anybody is told.
	Mask func(text string) string

	// Logger is told of mistakes of the server; nil: nobody is.
	Logger *zap.Logger
}

// Agents are those of the operator, and their loops. Its methods are safe for concurrent
// use. Close it after use.
type Agents struct {
	config  Config
	options Options
	files   *markdown.Set[*Definition]
	served  *Runtimes
	connect func(auth.Principal) (Conn, error)
	base    context.Context // of loops in the background
	end     context.CancelCauseFunc

	atWork sync.WaitGroup // loops

	mu          sync.Mutex
	revision    uint64           // of the definitions that were told
	loops       map[string]*loop // by id
	running     int
	connections map[auth.Principal]*connection
	watched     map[session]bool // that have begun loops, and whose end is told
}

// connection is shared by the loops of a principal.
type connection struct {
	Conn
	users int
}

var errClosed = errors.New("the server is shutting down")

// How long, and how many loops that have ended are kept for those who ask for what came of
// them.
const (
	keepEnded = time.Hour
	maxEnded  = 5000
)

// New returns the agents of a configuration. They can be given tasks once they are
// connected.
func New(config Config, options Options) *Agents {
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	a := &Agents{
		config: config.WithDefaults(), options: options, files: newFiles(config.Folders),
		loops: make(map[string]*loop), connections: make(map[auth.Principal]*connection), watched: make(map[session]bool),
	}
	a.served = NewRuntimes(func(name string) bool {
		all, _ := a.definitions()
		return find(all, name) != nil
	})
	a.base, a.end = context.WithCancelCause(context.Background())
	_, a.revision = a.definitions()
	return a
}

// Connect says how a caller inside the process reaches the server. It comes before the first
// task.
func (a *Agents) Connect(connect func(auth.Principal) (Conn, error)) {
	a.connect = connect
}

// Close ends all loops.
func (a *Agents) Close() error {
	a.end(errClosed)
	a.atWork.Wait()
	if a.options.Done != nil {
		a.options.Done()
	}
	return nil
}

// Unavailable returns why no agent can work, or nothing.
func (a *Agents) Unavailable() string {
	switch all, _ := a.definitions(); {
	case a.config.Serve:
	case len(a.options.Endpoints) == 0:
		return "has no model to ask: the operator names endpoints in the configuration, such as models: [{name: main, format: anthropic, model: …, key_file: …}]"
	case len(all) == 0 && len(a.config.Folders) == 0:
		return "has no agents: the operator defines them in the configuration, in agents.list, or names folders of Markdown files, such as agents: {folders: [/etc/toolserver/agents]}"
	}
	return ""
}

// Wrong returns what is wrong with files of definitions, which are left out.
func (a *Agents) Wrong() []string { return a.files.Wrong() }

// definitions returns the agents there are now, those of the configuration first, and a number that
// changes when they do.
func (a *Agents) definitions() (list []*Definition, revision uint64) {
	files, revision := a.files.All()
	return a.config.with(files), revision
}

// All returns the agents there are, by name.
func (a *Agents) All() ([]agent.About, uint64) {
	definitions, revision := a.definitions()
	list := make([]agent.About, len(definitions))
	for i, d := range definitions {
		list[i] = agent.About{Name: d.Name, Description: d.Description}
	}
	slices.SortFunc(list, func(x, y agent.About) int { return cmp.Compare(x.Name, y.Name) })
	return list, revision
}

// renew tells of agents that are other than they were.
func (a *Agents) renew() {
	_, now := a.definitions()
	a.mu.Lock()
	changed := now != a.revision
	a.revision = now
	a.mu.Unlock()
	if changed && a.options.Changed != nil {
		a.options.Changed(a)
	}
}

// Served returns the agents that runtimes of the principal of env serve, by name.
func (a *Agents) Served(env tools.Env) (list []agent.About) {
	operators, _ := a.definitions()
	for _, d := range a.served.Of(auth.NewOwner(env.Tenant, env.Principal)) {
		if find(operators, d.Name) == nil {
			list = append(list, agent.About{Name: d.Name, Description: d.Description})
		}
	}
	return list
}

// find returns the definition of a name; nil where there is none.
func find(all []*Definition, name string) *Definition {
	for _, d := range all {
		if strings.EqualFold(d.Name, name) {
			return d
		}
	}
	return nil
}

// named returns the agent of a name, for an owner; without a name, the only one there is.
// Those of the operator come before those of runtimes.
func (a *Agents) named(owner auth.Owner, name string) (*Definition, error) {
	all, _ := a.definitions()
	all = append(all, a.served.Of(owner)...)
	if d := find(all, name); d != nil {
		return d, nil
	}
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	there := "There are: " + strings.Join(names, ", ") + "."
	if len(names) == 0 {
		there = "There are none."
	}
	if name == "" {
		if len(all) == 1 {
			return all[0], nil
		}
		return nil, tools.Failf("no_agent", "Say which agent is to do it. %s", there)
	}
	return nil, tools.Failf("no_such_agent", "There is no agent %.64q%s %s", name, cmp.Or(nearest.Hint(nearest.Names(name, names)), "."), there)
}

// runner returns who works for a definition, for an owner.
func (a *Agents) runner(owner auth.Owner, d *Definition) (Runner, error) {
	if d.served {
		return a.served.Runner(owner), nil
	}
	if len(a.options.Endpoints) == 0 {
		return nil, tools.Failf("no_endpoint", "The agent %s cannot work: the operator has named no endpoint of models.", d.Name)
	}
	m, err := a.options.Model(a.endpoint(d))
	if err != nil {
		return nil, tools.Failf("no_endpoint", "The agent %s cannot work: %v.", d.Name, err)
	}
	return &modelRunner{model: m}, nil
}

// endpoint returns the name of the endpoint that a definition wants; empty where any will do.
func (a *Agents) endpoint(d *Definition) string {
	if d.Endpoint == "" && slices.Contains(a.options.Endpoints, d.model) {
		return d.model // that of another system is no endpoint of ours, and no reason to refuse
	}
	return d.Endpoint
}

// Begin has an agent work on a task. Without background, the loop ends with ctx.
func (a *Agents) Begin(ctx context.Context, env tools.Env, task agent.Task, out tools.Sink) (agent.Loop, error) {
	a.renew()
	chosen, err := a.choose(env, task.Agent)
	if err != nil {
		return nil, err
	}
	d := chosen.Definition
	l := &loop{
		agents: a, definition: d, task: task, began: time.Now(), done: make(chan struct{}), news: make(chan struct{}, 1),
		parent: session{env.Tenant, env.Principal, env.SessionID}, depth: chosen.depth,
	}
	if len(task.ResultSchema) > 0 {
		if l.schema, err = schema.Any(task.ResultSchema); err != nil {
			return nil, tools.Failf("invalid_schema", "%v", err) // which was looked at before
		}
	}
	before, err := a.before(env, task.Context)
	if err != nil {
		return nil, err
	}
	if err := a.enter(l, env); err != nil {
		return nil, err
	}
	l.id = "agent-" + strings.ToLower(rand.Text()[:16])
	unfollow := l.Follow(out)
	if err := l.open(ctx, env, out.Execution(), chosen.include, chosen.exclude); err != nil {
		a.leave(l)
		return nil, err
	}
	within, unwatch := a.base, func() bool { return true }
	if task.Background {
		unfollow() // its log ends with the call
	} else {
		within = ctx
	}
	ctx, l.cancel = context.WithCancelCause(within)
	if !task.Background {
		unwatch = context.AfterFunc(a.base, func() { l.cancel(errClosed) })
	}
	limits := d.Limits.withDefaults()
	ctx, stop := context.WithTimeoutCause(ctx, limits.Time, tools.Failf("time_limit", "The agent %s has worked for %s, which is as long as it may: it was stopped.", d.Name, limits.Time))
	a.mu.Lock()
	a.loops[l.id] = l
	a.mu.Unlock()
	if task.Isolation == agent.Worktree {
		task.Prompt += "\n\n" + isolated
	}
	work := &Task{
		ID: l.id, Agent: d, Prompt: task.Prompt, Before: before, Summarize: task.Context.Strategy == agent.Digest, Said: l.remember, ResultSchema: task.ResultSchema,
		Conn: l.conn, Steering: l.steering, News: l.news, Accept: l.accept, Description: task.Description, Principal: string(auth.NewOwner(env.Tenant, env.Principal)), OnBehalfOf: env.OnBehalfOf,
		Broken: func(reason any) {
			a.options.Logger.Error("agent panicked", zap.String("agent", l.id), zap.String("panic", fmt.Sprint(reason)), zap.ByteString("stack", debug.Stack()))
		},
	}
	a.atWork.Go(func() {
		defer unwatch()
		defer stop()
		l.run(ctx, chosen.runner, work)
	})
	return l, nil
}

// chosen is an agent that can be given a task.
type chosen struct {
	*Definition
	runner           Runner
	include, exclude []string // tools
	depth            int
}

// choose returns the agent of a name, if the session of env can give it a task.
func (a *Agents) choose(env tools.Env, name string) (*chosen, error) {
	owner := auth.NewOwner(env.Tenant, env.Principal)
	d, err := a.named(owner, name)
	if err != nil {
		return nil, err
	}
	c := &chosen{Definition: d, depth: a.depthBelow(env)}
	if c.runner, err = a.runner(owner, d); err != nil {
		return nil, err
	}
	var unknown []string
	c.include, unknown = selection(d.Tools, a.options.Ours)
	c.exclude, _ = selection(d.Exclude, a.options.Ours)
	if len(unknown) > 0 {
		return nil, tools.Failf("agent_wrong", "The agent %s cannot work: its definition names tools that do not exist: %s. Tell the operator, or give the task to another.", d.Name, strings.Join(unknown, ", "))
	}
	if c.depth > a.config.MaxDepth {
		return nil, tools.Failf("agent_depth", "An agent may not give its task to others here: the operator allows %d below each other. Do it yourself.", a.config.MaxDepth)
	}
	if c.depth == a.config.MaxDepth {
		c.exclude = append(c.exclude, "agent", "agent_*", "crew")
	}
	return c, nil
}

// depthBelow returns how many agents ask each other if the session of env asks one more.
func (a *Agents) depthBelow(env tools.Env) int {
	if l := a.at(env); l != nil {
		return l.depth + 1
	}
	return 1
}

// at returns the loop whose session is that of env; nil where there is none.
func (a *Agents) at(env tools.Env) *loop {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.loops[env.SessionID]; l != nil && l.parent.tenant == env.Tenant && l.parent.principal == env.Principal {
		return l
	}
	return nil
}

// enter counts a loop that begins, and gives it a connection.
func (a *Agents) enter(l *loop, env tools.Env) error {
	who := auth.Principal{Name: env.Principal, Tenant: env.Tenant, OnBehalfOf: cmp.Or(env.OnBehalfOf, env.Principal), MaxMode: env.MaxMode, Roles: auth.Agent}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connect == nil || a.base.Err() != nil {
		return tools.Failf("agents_closed", "No agent can begin now: the server starts, or shuts down.")
	}
	if a.running >= a.config.MaxRunning {
		return &tools.Failure{Code: "too_many_agents", Message: "As many agents are at work as this server may have: try again when one has ended, or do it yourself.", Retryable: true}
	}
	if of := l.parent; !a.watched[of] {
		if !env.Session.AfterClose(func() { a.forget(of) }) {
			return tools.Failf("session_ended", "The session has ended.")
		}
		a.watched[of] = true
	}
	c := a.connections[who]
	if c == nil {
		conn, err := a.connect(who)
		if err != nil {
			return err
		}
		c = &connection{Conn: conn}
		a.connections[who] = c
	}
	c.users++
	a.running++
	l.conn, l.who = c.Conn, who
	return nil
}

// forget ends the loops that a session began, which has ended, and what is known of them.
func (a *Agents) forget(of session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watched, of)
	for id, l := range a.loops {
		if l.parent == of {
			l.cancel(tools.Failf("session_ended", "The session that began the agent has ended."))
			delete(a.loops, id)
		}
	}
}

// leave is the end of enter. Loops that ended long ago are forgotten.
func (a *Agents) leave(l *loop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if c := a.connections[l.who]; c != nil {
		if c.users--; c.users == 0 {
			delete(a.connections, l.who)
			c.Close()
		}
	}
	var ended []*loop
	for id, other := range a.loops {
		if at := other.endedAt(); !at.IsZero() && time.Since(at) > keepEnded {
			delete(a.loops, id)
		} else if !at.IsZero() {
			ended = append(ended, other)
		}
	}
	if len(ended) > maxEnded {
		slices.SortFunc(ended, func(x, y *loop) int { return x.endedAt().Compare(y.endedAt()) })
		for _, old := range ended[:len(ended)-maxEnded] {
			delete(a.loops, old.id)
		}
	}
}

// open makes the session of a loop below that of its caller.
func (l *loop) open(ctx context.Context, env tools.Env, execution string, include, exclude []string) error {
	d := l.definition
	mode := d.Mode
	if l.task.ReadOnly {
		mode = tools.ModePlan
	}
	request := &pb.CreateSessionRequest{
		SessionId: l.id, ParentSessionId: env.SessionID, ParentExecutionId: execution, Agent: d.Name, Background: l.task.Background,
		Level: pb.Level(d.Level), Mode: pb.Mode(mode), IdleTtl: durationpb.New(0), CallOrder: pb.CallOrder_CALL_ORDER_FREE,
		Tools: &pb.ToolSelection{Exclude: exclude}, Activation: &pb.ToolActivation{},
	}
	if len(include) > 0 {
		include = append(include, agent.SummaryName)
		request.Tools.Include, request.Activation.Pinned = include, include
	}
	if l.task.Isolation == agent.Worktree {
		if err := l.isolate(ctx); err != nil {
			return err
		}
		_, dir := l.branch()
		request.Workspace = filepath.Join(env.Workspace.Dir(), dir)
	}
	if _, err := pb.NewSessionServiceClient(l.conn).CreateSession(ctx, request); err != nil {
		if l.task.Isolation == agent.Worktree {
			l.settle(ctx, false)
		}
		return refusal(d, err)
	}
	return nil
}

// refusal is the failure of an agent that the server does not let begin.
func refusal(d *Definition, err error) error {
	s := status.Convert(err)
	f := &tools.Failure{Code: "agent_refused", Message: "The agent " + d.Name + " cannot begin: " + s.Message()}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded:
		return err
	case codes.ResourceExhausted, codes.Unavailable:
		f.Retryable = true
	}
	if !strings.HasSuffix(f.Message, ".") {
		f.Message += "."
	}
	return f
}

// Find returns a loop that the session of env began.
func (a *Agents) Find(env tools.Env, id string) (agent.Loop, error) {
	a.mu.Lock()
	l := a.loops[id]
	a.mu.Unlock()
	if l != nil && l.begunBy(env) {
		return l, nil
	}
	var ids []string
	for _, s := range a.Loops(env) {
		ids = append(ids, s.ID)
	}
	if len(ids) == 0 {
		return nil, tools.Failf("no_such_loop", "There is no agent %.64q: this session has begun none that is still known.", id)
	}
	return nil, tools.Failf("no_such_loop", "There is no agent %.64q%s This session has begun: %s.", id, cmp.Or(nearest.Hint(nearest.Names(id, ids)), "."), strings.Join(ids[:min(20, len(ids))], ", "))
}

// begunBy reports whether the session of env began the loop, for the same user.
func (l *loop) begunBy(env tools.Env) bool {
	return l.parent == (session{env.Tenant, env.Principal, env.SessionID}) && l.who.OnBehalfOf == cmp.Or(env.OnBehalfOf, env.Principal)
}

// Loops returns what the session of env began, the newest first.
func (a *Agents) Loops(env tools.Env) []agent.Status {
	var list []agent.Status
	a.mu.Lock()
	for _, l := range a.loops {
		if l.begunBy(env) {
			list = append(list, l.Status())
		}
	}
	a.mu.Unlock()
	slices.SortFunc(list, func(x, y agent.Status) int { return cmp.Or(y.Began.Compare(x.Began), cmp.Compare(x.ID, y.ID)) })
	return list
}

// Summarize takes the report of the agent whose session is that of env.
func (a *Agents) Summarize(env tools.Env, summary agent.Summary) error {
	l := a.at(env)
	if l == nil {
		return tools.Failf("no_task", "This session is not that of an agent with a task, so there is nobody to report to: answer with text instead.")
	}
	return l.summarize(summary)
}

// List returns the agents of the operator, and those that runtimes serve for the owners that one
// stands for, by name.
func (a *Agents) List(of auth.Owner) []*pb.Agent {
	list := a.served.List(of)
	operators, _ := a.definitions()
	for _, about := range list {
		if find(operators, about.GetName()) != nil {
			about.UnavailableReason = "the operator has an agent of the same name, which is given the tasks"
		}
	}
	for _, d := range operators {
		about := &pb.Agent{Name: d.Name, Description: d.Description, Worker: &pb.Agent_Endpoint{Endpoint: a.endpoint(d)}}
		if _, err := a.runner(of, d); err != nil {
			about.UnavailableReason = err.Error()
		}
		list = append(list, about)
	}
	slices.SortStableFunc(list, func(x, y *pb.Agent) int { return cmp.Compare(x.GetName(), y.GetName()) })
	return list
}

// Serves reports whether runtimes may serve agents.
func (a *Agents) Serves() bool { return a.config.Serve }

// Serve has a runtime of an owner serve agents until its stream ends.
func (a *Agents) Serve(owner auth.Owner, stream ServeStream, begun func(*pb.AgentOffer)) error {
	return a.served.Serve(owner, stream, begun)
}

// Counts returns how many runtimes serve, how many tasks they work on, and how many wait.
func (a *Agents) Counts() (runtimes, running, waiting int) { return a.served.Counts() }
