// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/endpoint"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/script"
	"github.com/toolserver/toolserver/internal/tools/skill"
)

// A FaultFunc notes that something is wrong with the value of a key.
type FaultFunc func(key, format string, args ...any)

// Validate finds every value that makes no sense, alone or beside others.
func (c *Config) Validate(fault FaultFunc) {
	c.validateAddresses(fault)
	c.validateSecrets(fault)
	c.validateAudit(fault)
	c.validateState(fault)
	c.OpenAPI.Check(fault)
	c.Web.Check(fault)
	c.Models.Check(fault)
	c.Memory.Check(c.Models.Names(), fault)
	c.ValidateInside(fault)
}

// ValidateInside is validate for a server that nobody reaches from outside:
// its user may be unable to read the secrets of the one that serves.
func (c *Config) ValidateInside(fault FaultFunc) {
	c.validateSessions(fault)
	c.validateTenants(fault)
	c.validateLimits(fault)
	c.validateSandbox(fault)
	c.validateHooks(fault)
	c.validateScripts(fault)
	c.validateSkills(fault)
	c.Agents.Check(c.AgentMachine(), fault)
	c.MCP.Check(fault)
	if err := c.Browser.Check(); err != nil {
		fault("browser.endpoint", "%v", err)
	}
	c.Code.Check(fault)
	if _, err := LoadPolicy(c.Policy.File); err != nil {
		fault("policy.file", "%v", err)
	}
	if level := zapcore.Level(c.Log.Level); level < zapcore.DebugLevel || level > zapcore.ErrorLevel {
		fault("log.level", "%q is too high: want debug, info, warn or error", level)
	}
}

// validateHooks finds hooks that could not run, and those whose programs calls could
// change.
func (c *Config) validateHooks(fault FaultFunc) {
	if len(c.Hooks) == 0 {
		return
	}
	c.Hooks.Check(hook.Machine{Path: c.Programs().Path, Writable: c.writable(), MaxNetwork: c.Sandbox.MaxNetwork}, fault)
}

// writable returns the directories that sessions write, with links resolved.
func (c *Config) writable() []string {
	filled := *c
	if filled.FillIn() != nil {
		return nil // which is told elsewhere
	}
	return WithoutLinks(slices.Concat([]string{filled.Sessions.Workspace, "/tmp", "/var/tmp"}, filled.Sessions.AllowedWorkspaces, filled.OwnTrees(), filled.Sandbox.Write))
}

// validateScripts finds folders of tools that calls could change.
func (c *Config) validateScripts(fault FaultFunc) {
	d := &c.Dynamic
	for key, n := range map[string]int{"per_session": d.PerSession, "per_principal": d.PerPrincipal, "versions": d.Versions} {
		if n < 1 || n > 1000 {
			fault("dynamic."+key, "%d is out of bounds: want 1 to 1000", n)
		}
	}
	names := make(map[string]bool)
	for i, s := range c.Scripts {
		key := fmt.Sprintf("scripts[%d]", i)
		if err := source.CheckName(s.Name); err != nil {
			fault(key+".name", "%v", err)
		} else if names[s.Name] {
			fault(key+".name", "there is a folder named %s already", s.Name)
		}
		names[s.Name] = true
		real, err := filepath.EvalSymlinks(s.Dir)
		switch dir := inside(c.writable(), real); {
		case !filepath.IsAbs(s.Dir):
			fault(key+".dir", "%q is no absolute path of a folder", s.Dir)
		case err != nil:
			fault(key+".dir", "%v", err)
		case dir != "":
			fault(key+".dir", "%s lies in %s, where calls can write: put it where only the operator can", s.Dir, dir)
		}
		for name, file := range s.Secrets {
			if _, err := source.Secret(file); err != nil || name == "" || strings.ContainsAny(name, "=\x00") {
				fault(key+".secret_files", "%.60q: %v", name, cmp.Or(err, errors.New("is no name of a variable")))
			}
		}
	}
}

// validateSkills finds folders of skills that are not there.
func (c *Config) validateSkills(fault FaultFunc) {
	for i, dir := range c.Skills {
		key := fmt.Sprintf("skills[%d]", i)
		if !filepath.IsAbs(dir) {
			fault(key, "%q is no absolute path of a folder", dir)
			continue
		}
		checkDirectory(fault, key, dir)
	}
}

// Warnings tells what is wrong with what the configuration names and a server starts
// without: manifests of scripts, documents of APIs, programs that are not there, and skills that are wrong.
// Skills that calls could write are offered, for the operator named their folder.
func (c *Config) Warnings(ctx context.Context) (list []string) {
	programs := c.Programs()
	missing := func(program string) string {
		if filepath.IsAbs(program) {
			if _, err := os.Stat(program); err != nil {
				return err.Error()
			}
			return ""
		}
		if _, ok := programs.Find(program); !ok {
			return command.NoProgram(program)
		}
		return ""
	}
	for i := range c.MCP {
		if s := &c.MCP[i]; len(s.Command) > 0 {
			if why := missing(s.Command[0]); why != "" {
				list = append(list, fmt.Sprintf("mcp %s: %s", s.Name, why))
			}
		}
	}
	for _, s := range c.Scripts {
		list = append(list, script.Check(s, missing)...)
	}
	list = append(list, c.OpenAPI.Wrong(ctx)...)
	for i, real := range WithoutLinks(c.Skills) {
		if dir := inside(c.writable(), real); dir != "" {
			list = append(list, fmt.Sprintf("skills: %s lies in %s, where calls can write: they can change what others are told to do", c.Skills[i], dir))
		}
	}
	for i, real := range WithoutLinks(c.Agents.Folders) {
		if dir := inside(c.writable(), real); dir != "" {
			list = append(list, fmt.Sprintf("agents.folders: %s lies in %s, where calls can write: they can change what agents are told to be", c.Agents.Folders[i], dir))
		}
	}
	return append(list, skill.New(c.Skills).Wrong()...)
}

// inside returns the first of dirs that a path is in; "" where none is.
func inside(dirs []string, path string) string {
	for _, dir := range dirs {
		if path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") {
			return dir
		}
	}
	return ""
}

func (c *Config) validateAddresses(fault FaultFunc) {
	if err := endpoint.Check(c.Listen); err != nil {
		fault("listen", "%v", err)
	} else if !endpoint.IsLocal(c.Listen) && c.Authentication.Off() {
		fault("listen", "%s can be reached from other machines and authentication is off, so anybody could run tools here: "+
			"listen on a loopback address such as 127.0.0.1:8665 or on a socket such as unix:/run/toolserver.sock, "+
			"or have callers prove who they are, with one of authentication.token_file (\"toolserver token create\" makes tokens), "+
			"authentication.tokens, authentication.certificates.ca, authentication.oidc and authentication.kubernetes.token_review in the configuration file", c.Listen)
	}
	c.validateHTTP(fault)
	if c.Admin.Off() {
		return
	}
	if err := endpoint.Check(c.Admin.Address); err != nil {
		fault("admin.address", "%v", err)
	} else if !endpoint.IsLocal(c.Admin.Address) && c.Admin.Pprof {
		fault("admin.pprof", "%s can be reached from other machines, which must not see profiles of this process: "+
			"set admin.pprof to false, or admin.address to a loopback address", c.Admin.Address)
	}
	if c.Admin.Address == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
		fault("admin.address", "is the same as listen: tools and admin need an address each")
	}
}

func (c *Config) validateHTTP(fault FaultFunc) {
	if c.HTTP.Off() {
		return
	}
	at := c.HTTP.Listen
	if err := endpoint.Check(at); err != nil {
		fault("http.listen", "%v", err)
	} else if !endpoint.IsLocal(at) && c.Authentication.Off() {
		fault("http.listen", "%s can be reached from other machines and authentication is off, so anybody could run tools here: "+
			"listen on a loopback address such as 127.0.0.1:8667, or have callers prove who they are (see listen)", at)
	}
	if (at == c.Listen || at == c.Admin.Address) && !strings.HasSuffix(at, ":0") {
		fault("http.listen", "is the same as listen or admin.address: each needs an address of its own")
	}
	for i, host := range c.HTTP.Hosts {
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, ":/[] ") {
			fault(fmt.Sprintf("http.hosts[%d]", i), "%q is no name of a host: want one in small letters and without a port, such as tools.example", host)
		}
	}
	for i, origin := range c.HTTP.Origins {
		if u, err := url.Parse(origin); err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" {
			fault(fmt.Sprintf("http.origins[%d]", i), "%q is no origin: want one such as https://console.example", origin)
		}
	}
	m := c.HTTP.MCP
	for key, value := range map[string]int64{
		"max_body_bytes": int64(m.MaxBody), "max_sessions": int64(m.MaxSessions), "max_sessions_per_principal": int64(m.MaxPrincipalSessions),
		"max_streams": int64(m.MaxStreams), "idle_timeout": int64(m.IdleTimeout), "resume_timeout": int64(m.ResumeTimeout),
	} {
		if value <= 0 {
			fault("http.mcp."+key, "must be more than 0")
		}
	}
}

func (c *Config) validateSecrets(fault FaultFunc) {
	c.access(fault)
	for i, s := range c.Secrets {
		if _, err := s.Value(); err != nil {
			fault(fmt.Sprintf("secrets[%d]", i), "%v", err)
		}
	}
}

func (c *Config) validateSessions(fault FaultFunc) {
	s := &c.Sessions
	if s.Workspace != "" {
		checkDirectory(fault, "sessions.workspace", s.Workspace)
	}
	for i, dir := range s.AllowedWorkspaces {
		checkDirectory(fault, fmt.Sprintf("sessions.allowed_workspaces[%d]", i), dir)
	}
	if s.Level > s.MaxLevel {
		fault("sessions.level", "%s is above sessions.max_level, %s", s.Level, s.MaxLevel)
	}
	if len(s.Modes) > 0 && !slices.Contains(s.Modes, s.Mode) {
		fault("sessions.mode", "%s is not among sessions.modes, %v", s.Mode, s.Modes)
	}
	if s.MaxMode != 0 && s.Mode.Above(tools.Mode(s.MaxMode)) {
		fault("sessions.mode", "%s permits more than sessions.max_mode, %s", s.Mode, s.MaxMode)
	}
	if err := s.Settings.Check(); err != nil {
		fault("sessions.settings", "%v", err)
	}
}

// validateTenants sees to it, beside what the entries say, that no tenant works where
// another does.
func (c *Config) validateTenants(fault FaultFunc) {
	c.Tenants.Check(func(key, format string, args ...any) { fault("tenants"+key, format, args...) })
	for i, tenant := range c.Tenants {
		for j, dir := range tenant.AllowedWorkspaces {
			key := fmt.Sprintf("tenants[%d].allowed_workspaces[%d]", i, j)
			checkDirectory(fault, key, dir)
			for _, theirs := range append(slices.Clip(c.Sessions.AllowedWorkspaces), c.Sessions.Workspace) {
				if theirs, err := filepath.Abs(theirs); err == nil && quota.Overlap(dir, theirs) {
					fault(key, "%s is, lies in or contains %s, a workspace of the default tenant", dir, theirs)
				}
			}
		}
	}
}

func checkDirectory(fault FaultFunc, key, dir string) {
	info, err := os.Stat(dir)
	if err != nil {
		fault(key, "%v", err)
	} else if !info.IsDir() {
		fault(key, "%s is not a directory", dir)
	}
}

func (c *Config) validateAudit(fault FaultFunc) {
	a := &c.Audit
	within(fault, "audit.max_bytes", a.MaxBytes, 0, 1<<50)
	within(fault, "audit.keep", a.Keep, 0, 1_000_000)
	if a.MaxBytes != 0 && a.MaxBytes < 1<<20 {
		fault("audit.max_bytes", "%s is too little: want 1MiB or more, or 0 for one file", a.MaxBytes)
	}
	if a.Off() && (a.Inputs || a.Required) {
		fault("audit", "inputs and required have no log to act on: set audit.file or audit.stdout")
	}
	if a.File != "" {
		checkDirectory(fault, "audit.file", filepath.Dir(a.File))
	}
}

func (c *Config) validateSandbox(fault FaultFunc) {
	s := &c.Sandbox
	for key, paths := range map[string][]string{"sandbox.read": s.Read, "sandbox.write": s.Write, "sandbox.path": s.Path} {
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				fault(key, "%s is no absolute path", path)
			}
		}
	}
	for _, path := range s.Write {
		checkDirectory(fault, "sandbox.write", path)
	}
	for _, pair := range s.Env {
		if name, _, _ := strings.Cut(pair, "="); name == "" {
			fault("sandbox.env", "%q has no name: want NAME=value, or NAME", pair)
		}
	}
	s.validateNetwork(fault)
	s.validateRepl(fault)
	within(fault, "sandbox.caches.max_bytes", s.Caches.MaxBytes, 0, 1<<50)
	within(fault, "sandbox.kept.output", s.Kept.Output, 1<<10, 1<<30)
	within(fault, "sandbox.kept.ended_output", s.Kept.EndedOutput, 1<<10, 1<<30)
	within(fault, "sandbox.kept.ended", s.Kept.Ended, 1, 10_000)
	within(fault, "sandbox.kept.interpreter_idle", s.Kept.Idle, time.Second, 365*day)
	l := &s.Limits
	within(fault, "sandbox.limits.memory", l.Memory, 0, 1<<50)
	within(fault, "sandbox.limits.processes", l.Processes, 0, 1_000_000)
	within(fault, "sandbox.limits.output", l.Output, 0, 1<<50)
	within(fault, "sandbox.limits.cpu", l.CPU, 0, 365*day)
	within(fault, "sandbox.limits.open_files", l.OpenFiles, 0, 1<<30)
	within(fault, "sandbox.limits.file_size", l.FileSize, 0, 1<<50)
	within(fault, "sandbox.limits.per_session", l.PerSession, 0, 1_000_000)
	within(fault, "sandbox.limits.per_server", l.PerServer, 0, 1_000_000)
	within(fault, "sandbox.limits.session_memory", l.SessionMemory, 0, 1<<50)
	within(fault, "sandbox.limits.session_processes", l.SessionProcesses, 0, 1_000_000)
	within(fault, "sandbox.limits.session_cpu", l.SessionCPU, 0, 365*day)
	within(fault, "sandbox.limits.server_memory", l.ServerMemory, 0, 1<<50)
	within(fault, "sandbox.limits.server_processes", l.ServerProcesses, 0, 1_000_000)
	within(fault, "sandbox.limits.session_files", l.SessionFiles, 0, 1<<40)
	within(fault, "sandbox.limits.reserved_files", l.ReservedFiles, 0, 1<<40)
	within(fault, "sandbox.limits.reserved_space", l.ReservedSpace, 0, 1<<50)
}

func (c *Sandbox) validateNetwork(fault FaultFunc) {
	if c.MaxNetwork != 0 && c.Network > c.MaxNetwork { // 0 is a fault by itself
		fault("sandbox.network", "%s is above sandbox.max_network, %s", c.Network, c.MaxNetwork)
	}
	if c.Proxy != "" {
		if err := egress.CheckProxy(c.Proxy); err != nil {
			fault("sandbox.proxy", "%v", err)
		}
	}
}

// CheckOpenNetwork refuses a server that commands could call themselves. A command
// of a session whose network is open has the machine's loopback, and with it the
// server's own ports: where nobody authenticates, it would be the operator, who
// answers for what is asked.
func (c *Config) CheckOpenNetwork() error {
	if c.Sandbox.MaxNetwork < tools.NetworkOpen || !c.Authentication.Off() {
		return nil
	}
	return errors.New("sandbox.max_network is open and authentication is off: commands could call this server as its operator. " +
		"Set sandbox.max_network to hosts, or have callers prove who they are, with authentication.token_file or another key of authentication")
}

func (c *Sandbox) validateRepl(fault FaultFunc) {
	names := map[string]bool{"python": true, "node": true, "bash": true}
	for i, r := range c.Repl {
		key := fmt.Sprintf("sandbox.repl[%d]", i)
		switch {
		case r.Language == "" || len(r.Language) > 32 || strings.Trim(r.Language, "abcdefghijklmnopqrstuvwxyz0123456789_+-") != "":
			fault(key+".language", "%q is no name: want small letters, digits, _, + and -, at most 32", r.Language)
		case names[r.Language]:
			fault(key+".language", "there is a language %s already", r.Language)
		}
		names[r.Language] = true
		if len(r.Command) == 0 || r.Command[0] == "" {
			fault(key+".command", "want the program and its arguments, as a list")
		}
		switch {
		case r.Mark == "" && r.Begin != "":
			fault(key+".begin", "only a program with a mark is given something to read first")
		case r.Mark != "" && !strings.Contains(r.Mark, companion.MarkName):
			fault(key+".mark", "lacks %s, which stands for the text it has to write", companion.MarkName)
		}
	}
}

const day = 24 * time.Hour

func (c *Config) validateLimits(fault FaultFunc) {
	within(fault, "sessions.idle_ttl", c.Sessions.IdleTTL, 0, 365*day)
	within(fault, "sessions.max_per_principal", c.Sessions.MaxPerPrincipal, 1, 1_000_000)
	within(fault, "sessions.keep_workspace", c.Sessions.KeepWorkspace, 0, 365*day)
	within(fault, "sessions.max_kept", c.Sessions.MaxKept, 1, 1_000_000)
	if err := c.Sessions.Activation.Check(); err != nil {
		fault("sessions.activation", "%v", err)
	}
	within(fault, "workflows.max_per_principal", c.Workflows.MaxPerPrincipal, 1, 1_000_000)
	within(fault, "workflows.max_running", c.Workflows.MaxRunning, 1, 1_000_000)
	within(fault, "workflows.max_kept", c.Workflows.MaxKept, 1, 1_000_000)
	within(fault, "workflows.retention", c.Workflows.Retention, time.Minute, 60*day)
	within(fault, "schedules.max_per_principal", c.Schedules.MaxPerPrincipal, 1, 1_000_000)
	within(fault, "schedules.min_interval", c.Schedules.MinInterval, time.Second, 365*day)
	within(fault, "shutdown_grace", c.ShutdownGrace, 0, day)

	x := &c.Executions
	within(fault, "executions.max_running", x.MaxRunning, 1, 10_000_000)
	within(fault, "executions.max_active", x.MaxActive, 0, 1_000_000)
	within(fault, "executions.max_batch_calls", x.MaxBatchCalls, 1, 8000) // their summary is one message
	within(fault, "executions.default_timeout", x.DefaultTimeout, time.Millisecond, 30*day)
	within(fault, "executions.max_timeout", x.MaxTimeout, time.Millisecond, 30*day)
	within(fault, "executions.stop_grace", x.StopGrace, time.Millisecond, 10*time.Minute)
	within(fault, "executions.disconnect_grace", x.DisconnectGrace, time.Millisecond, day)
	within(fault, "executions.retention", x.Retention, time.Millisecond, 30*day)
	within(fault, "executions.max_retained", x.MaxRetained, 1, 10_000_000)
	within(fault, "executions.max_remembered", x.MaxRemembered, 1, 10_000_000)
	within(fault, "executions.max_remembered_all", x.MaxRememberedAll, 1, 100_000_000)
	within(fault, "executions.max_result_bytes", x.MaxResultBytes, 1<<10, 1<<30)
	within(fault, "executions.max_log_bytes", x.MaxLogBytes, 64<<10, 1<<40)
	within(fault, "executions.max_log_events", x.MaxLogEvents, 16, 1_000_000_000)
	within(fault, "executions.log_memory", x.LogMemory, 1<<20, 1<<50)
	within(fault, "executions.reader_patience", x.ReaderPatience, time.Millisecond, time.Minute)
	within(fault, "executions.progress_interval", x.ProgressInterval, time.Millisecond, time.Minute)
	within(fault, "executions.heartbeat", x.Heartbeat, 100*time.Millisecond, time.Hour)
	if x.DefaultTimeout > x.MaxTimeout {
		fault("executions.default_timeout", "%s is above executions.max_timeout, %s", x.DefaultTimeout, x.MaxTimeout)
	}
	if x.MaxLogBytes > x.LogMemory {
		fault("executions.max_log_bytes", "%s is above executions.log_memory, %s", x.MaxLogBytes, x.LogMemory)
	}

	c.Answers.validate(fault, x.MaxResultBytes)

	within(fault, "search.max_text", c.Search.MaxText, 0, 1<<50)
	within(fault, "search.max_index", c.Search.MaxIndex, 1<<20, 1<<50)
	within(fault, "search.idle_after", c.Search.IdleAfter, time.Second, day)
	within(fault, "search.kernel_share", c.Search.KernelShare, 1, 1000)
	within(fault, "syntax.max_index", c.Syntax.MaxIndex, 1<<20, 1<<50)
	within(fault, "sessions.edit_errors", c.Sessions.EditErrors, 0, session.MaxEditErrors)
	if dir := c.Code.GoModules; dir != "" && dir != "off" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
			fault("code.go_modules", "%s is no directory: name a module cache by its absolute path, such as go env GOMODCACHE prints, or off", dir)
		}
	}
	within(fault, "code.idle", c.Code.Idle, time.Second, day)
	within(fault, "code.memory", c.Code.Memory, 64<<20, 1<<50)
	within(fault, "code.timeout", c.Code.Timeout, time.Second, time.Hour)

	a := &c.Artifacts
	within(fault, "artifacts.max_bytes", a.MaxBytes, 1<<10, 1<<50)
	within(fault, "artifacts.max_session_bytes", a.MaxSessionBytes, 1<<10, 1<<50)
	within(fault, "artifacts.max_total_bytes", a.MaxTotalBytes, 1<<10, 1<<50)
	within(fault, "artifacts.max_count", a.MaxCount, 1, 10_000_000)
	within(fault, "artifacts.ttl", a.TTL, time.Second, 365*day)
	if a.MaxBytes > a.MaxSessionBytes {
		fault("artifacts.max_bytes", "%s is above artifacts.max_session_bytes, %s", a.MaxBytes, a.MaxSessionBytes)
	}
	if a.MaxSessionBytes > a.MaxTotalBytes {
		fault("artifacts.max_session_bytes", "%s is above artifacts.max_total_bytes, %s", a.MaxSessionBytes, a.MaxTotalBytes)
	}

	f := &c.Files
	within(fault, "files.max_file_bytes", f.MaxFileBytes, 1<<10, 1<<50)
	within(fault, "files.max_tree_bytes", f.MaxTreeBytes, 1<<10, 1<<50)
	within(fault, "files.max_tree_entries", f.MaxTreeEntries, 1, 100_000_000)
	within(fault, "files.max_uploads", f.MaxUploads, 1, 100_000)
	within(fault, "files.max_upload_bytes", f.MaxUploadBytes, 1<<10, 1<<50)
	within(fault, "files.upload_ttl", f.UploadTTL, time.Second, 30*day)
	within(fault, "files.stream_idle", f.Idle, time.Second, day)
	if f.MaxFileBytes > f.MaxTreeBytes {
		fault("files.max_file_bytes", "%s is above files.max_tree_bytes, %s", f.MaxFileBytes, f.MaxTreeBytes)
	}
	if f.MaxFileBytes > f.MaxUploadBytes {
		fault("files.max_file_bytes", "%s is above files.max_upload_bytes, %s: such a file could not arrive", f.MaxFileBytes, f.MaxUploadBytes)
	}

	w := &c.Wire
	within(fault, "wire.max_message_bytes", w.MaxMessageBytes, 64<<10, 1<<30)
	within(fault, "wire.max_streams", w.MaxStreams, 1, 10_000_000)
	within(fault, "wire.max_header_bytes", w.MaxHeaderBytes, 1<<10, 16<<20)
	within(fault, "wire.keepalive_time", w.KeepaliveTime, time.Second, day)
	within(fault, "wire.keepalive_timeout", w.KeepaliveTimeout, time.Second, time.Hour)
	within(fault, "wire.min_ping_interval", w.MinPingInterval, time.Millisecond, day)
	within(fault, "wire.max_connection_age", w.MaxConnectionAge, time.Second, 365*day)
	within(fault, "wire.max_connection_grace", w.MaxConnectionGrace, time.Second, 365*day)
	if x.MaxResultBytes > w.MaxMessageBytes-service.Envelope {
		fault("executions.max_result_bytes", "%s does not fit into a message: leave %s for the rest of it below wire.max_message_bytes, %s",
			x.MaxResultBytes, size.Bytes(service.Envelope), w.MaxMessageBytes)
	}
}

func (c *Answers) validate(fault FaultFunc, result size.Bytes) {
	if err := c.Max.Check(int(result)); err != nil {
		fault("answers.max", "%v (executions.max_result_bytes is %s)", err, result)
	}
	if err := c.Default.Check(c.Max.Size()); err != nil {
		fault("answers.default", "%v (answers.max is %s)", err, c.Max)
	}
}

// within notes a value that is out of bounds.
func within[T cmp.Ordered](fault FaultFunc, key string, value, least, most T) {
	if value < least || value > most {
		fault(key, "%v is out of bounds: want %v to %v", value, least, most)
	}
}
