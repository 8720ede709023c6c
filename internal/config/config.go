// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package config is everything that an operator can set: the sections of the
// configuration with their defaults, read from a file, the environment and flags,
// and every mistake in them at once.
package config

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/agent"
	"github.com/toolserver/toolserver/internal/artifact"
	"github.com/toolserver/toolserver/internal/audit"
	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/browser"
	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/companion"
	"github.com/toolserver/toolserver/internal/edge"
	"github.com/toolserver/toolserver/internal/executor"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/memory"
	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/quota"
	"github.com/toolserver/toolserver/internal/schedule"
	"github.com/toolserver/toolserver/internal/search/index"
	"github.com/toolserver/toolserver/internal/service"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/site"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/syntax"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/dynamic"
	"github.com/toolserver/toolserver/internal/tools/mcp"
	"github.com/toolserver/toolserver/internal/tools/openapi"
	"github.com/toolserver/toolserver/internal/tools/script"
	"github.com/toolserver/toolserver/internal/tools/web"
	"github.com/toolserver/toolserver/internal/workflow"
)

// Config is everything that can be set. Each field is a key of the YAML file;
// deploy/toolserver.yaml explains them all.
type Config struct {
	Listen         string             `yaml:"listen"`
	Admin          Admin              `yaml:"admin"`
	HTTP           HTTP               `yaml:"http"`
	TLS            TLS                `yaml:"tls"`
	Authentication Authentication     `yaml:"authentication"`
	Log            Log                `yaml:"log"`
	Sessions       Sessions           `yaml:"sessions"`
	Tenants        quota.Tenants      `yaml:"tenants"`
	Policy         Policy             `yaml:"policy"`
	Audit          audit.Config       `yaml:"audit"`
	State          State              `yaml:"state"`
	Replica        Replica            `yaml:"replica"`
	Executions     executor.Limits    `yaml:"executions"`
	Sandbox        Sandbox            `yaml:"sandbox"`
	Hooks          hook.Config        `yaml:"hooks"`
	OpenAPI        openapi.Config     `yaml:"openapi"`
	Scripts        []script.Config    `yaml:"scripts"`
	Dynamic        dynamic.Config     `yaml:"dynamic"`
	Skills         []string           `yaml:"skills"`
	Agents         agent.Config       `yaml:"agents"`
	Workflows      workflow.Config    `yaml:"workflows"`
	Schedules      schedule.Config    `yaml:"schedules"`
	MCP            mcp.Config         `yaml:"mcp"`
	Web            web.Config         `yaml:"web"`
	Browser        browser.Config     `yaml:"browser"`
	Code           lsp.Config         `yaml:"code"`
	Models         model.Config       `yaml:"models"`
	Memory         memory.Config      `yaml:"memory"`
	Answers        Answers            `yaml:"answers"`
	Search         index.Config       `yaml:"search"`
	Syntax         syntax.Config      `yaml:"syntax"`
	Artifacts      artifact.Config    `yaml:"artifacts"`
	Files          service.FileLimits `yaml:"files"`
	Secrets        []Secret           `yaml:"secrets"`
	Wire           service.Wire       `yaml:"wire"`
	Reflection     bool               `yaml:"reflection"`
	Channelz       bool               `yaml:"channelz"`
	StopFile       string             `yaml:"stop_file"`
	ShutdownGrace  time.Duration      `yaml:"shutdown_grace"`

	// StateHome is where programs of this user keep what outlives them; empty: as the
	// environment says. It is no key: servers of one process are told apart by it.
	StateHome string `yaml:"-"`
}

type Admin struct {
	Address string `yaml:"address"`
	Pprof   bool   `yaml:"pprof"`
}

// Off says that there is no admin port.
func (c Admin) Off() bool { return c.Address == "" || c.Address == "off" }

// HTTP is where other protocols than gRPC are served.
type HTTP struct {
	Listen  string      `yaml:"listen"`
	Hosts   []string    `yaml:"hosts"`
	Origins []string    `yaml:"origins"`
	MCP     edge.Limits `yaml:"mcp"`
}

// Site says which sites may send requests by HTTP.
func (c *Config) Site() site.Filter {
	return site.Filter{Hosts: c.HTTP.Hosts, Origins: c.HTTP.Origins, Open: c.Authentication.Off()}
}

// Off says that nothing is served over HTTP.
func (c HTTP) Off() bool { return c.Listen == "" || c.Listen == "off" }

type TLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// Off says that connections are not encrypted.
func (c TLS) Off() bool { return c.Certificate == "" && c.Key == "" }

type Log struct {
	Level logLevel `yaml:"level"`
}

type Sessions struct {
	Workspace         string          `yaml:"workspace"`
	WorkspaceRoot     string          `yaml:"workspace_root"`
	AllowedWorkspaces []string        `yaml:"allowed_workspaces"`
	Level             tools.Level     `yaml:"level"`
	Mode              tools.Mode      `yaml:"mode"`
	MaxLevel          tools.Level     `yaml:"max_level"`
	Modes             []tools.Mode    `yaml:"modes"`
	MaxMode           optionalMode    `yaml:"max_mode"`
	IdleTTL           time.Duration   `yaml:"idle_ttl"`
	MaxPerPrincipal   int             `yaml:"max_per_principal"`
	KeepWorkspace     time.Duration   `yaml:"keep_workspace"`
	MaxKept           int             `yaml:"max_kept"`
	EditErrors        time.Duration   `yaml:"edit_errors"`
	Settings          session.Exposed `yaml:"settings"`

	Activation session.Activation `yaml:"activation"`
}

type Policy struct {
	File string `yaml:"file"`
}

type Sandbox struct {
	Mode       sandboxMode      `yaml:"mode"`
	Helper     string           `yaml:"helper"`
	Namespaces bool             `yaml:"namespaces"`
	Grace      time.Duration    `yaml:"grace"`
	Read       []string         `yaml:"read"`
	Write      []string         `yaml:"write"`
	Network    tools.Network    `yaml:"network"`
	MaxNetwork tools.Network    `yaml:"max_network"`
	Proxy      string           `yaml:"proxy"`
	Path       []string         `yaml:"path"`
	Env        []string         `yaml:"env"`
	Trace      bool             `yaml:"traceparent"`
	Limits     command.Limits   `yaml:"limits"`
	Caches     Caches           `yaml:"caches"`
	Kept       companion.Limits `yaml:"kept"`
	Repl       []Repl           `yaml:"repl"`
}

// Caches is where programs keep what they have fetched and built.
type Caches struct {
	Dir      string     `yaml:"dir"`
	MaxBytes size.Bytes `yaml:"max_bytes"`
}

// Repl is a language of the tool repl.
type Repl struct {
	Language string   `yaml:"language"`
	Command  []string `yaml:"command"`
	Mark     string   `yaml:"mark"`
	Begin    string   `yaml:"begin"`
}

// Answers is how much text answers have for a model.
type Answers struct {
	Default tools.Budget `yaml:"default"`
	Max     tools.Budget `yaml:"max"`
}

// Secret is where a value is that must not leave the server.
type Secret struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`
}

// Default is the configuration of a server that was told nothing.
func Default() *Config {
	return &Config{
		Listen: "127.0.0.1:8665",
		Admin:  Admin{Address: "127.0.0.1:8666"},
		HTTP:   HTTP{Listen: "off", MCP: edge.Limits{}.WithDefaults()},
		Log:    Log{Level: logLevel(zapcore.InfoLevel)},
		Authentication: Authentication{
			Roles: []auth.Roles{auth.Agent},
			Kubernetes: Kubernetes{
				APIServer: "https://kubernetes.default.svc",
				TokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
				CA:        "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
				Audiences: []string{"toolserver"},
			},
		},
		Sessions: Sessions{
			Level:           tools.WorkspaceWrite,
			Mode:            tools.ModeAsk,
			MaxLevel:        tools.WorkspaceWrite,
			IdleTTL:         time.Hour,
			MaxPerPrincipal: session.DefaultMaxPerPrincipal,
			KeepWorkspace:   time.Hour,
			MaxKept:         session.DefaultMaxKept,
			Settings:        session.DefaultExposed(),
			Activation:      session.DefaultActivation(),
		},
		State:      State{Replicas: 3, Prefix: "ts", Retention: 24 * time.Hour, MaxHistory: 64 << 20},
		Replica:    Replica{Lease: 15 * time.Second},
		Executions: executor.Limits{}.WithDefaults(),
		Browser:    browser.Config{}.WithDefaults(),
		Code:       lsp.Config{}.WithDefaults(),
		Sandbox: Sandbox{
			Mode:       SandboxPreferred,
			Namespaces: true,
			Grace:      2 * time.Second,
			Network:    tools.NetworkLoopback,
			MaxNetwork: tools.NetworkLoopback,
			Limits:     command.DefaultLimits(),
			Caches:     Caches{MaxBytes: 10 << 30},
			Kept:       companion.Limits{}.WithDefaults(),
		},
		Dynamic: dynamic.Config{}.WithDefaults(),
		Agents:  agent.Config{}.WithDefaults(),
		Web:     web.Config{}.WithDefaults(),
		Memory:  memory.Config{}.WithDefaults(),

		Workflows: workflow.Config{}.WithDefaults(),
		Schedules: schedule.Config{}.WithDefaults(),
		Answers: Answers{
			Default: tools.Budget{Characters: tools.DefaultAnswer},
			Max:     tools.Budget{Characters: tools.DefaultMaxAnswer},
		},
		Search:        index.Config{}.WithDefaults(),
		Syntax:        syntax.Config{}.WithDefaults(),
		Artifacts:     artifact.Config{}.WithDefaults(),
		Files:         service.FileLimits{}.WithDefaults(),
		Wire:          service.Wire{}.WithDefaults(),
		Reflection:    true,
		Channelz:      true,
		ShutdownGrace: 10 * time.Second,
	}
}

// overrides are the keys that have a flag, and a short variable beside the one
// that every key has: the environment wins over the file, a flag wins over both.
var overrides = []struct{ key, env, flag, usage string }{
	{"listen", "TOOLSERVER_LISTEN", "listen", "address to serve on: host:port, or unix:/path for a socket"},
	{"admin.address", "TOOLSERVER_ADMIN", "admin", `address of the admin port with metrics and probes, or "off"`},
	{"http.listen", "TOOLSERVER_HTTP", "http", `address to serve REST, MCP and the console for browsers on, or "off"`},
	{"sessions.workspace", "TOOLSERVER_WORKSPACE", "workspace", "workspace directory (default: the current directory)"},
	{"policy.file", "TOOLSERVER_POLICY", "policy", "policy file (default: the built-in policy)"},
	{"log.level", "TOOLSERVER_LOG_LEVEL", "log-level", "least level to log: debug, info, warn or error"},
}

// AddFlags adds --config and the flags named, of those in overrides.
func AddFlags(flags *pflag.FlagSet, names ...string) {
	flags.String("config", "", "configuration file (env TOOLSERVER_CONFIG)")
	defaults := Default()
	for _, name := range names {
		for _, o := range overrides {
			if o.flag == name {
				flags.String(name, textOf(defaults, o.key), o.usage+" (env "+o.env+")")
			}
		}
	}
}

// Load returns the configuration made of defaults, the file that flags or
// environment name, the environment and flags, once validate has looked at it.
// An error lists everything that is wrong, where that is known with its line.
func Load(flags *pflag.FlagSet, validate func(*Config, FaultFunc)) (*Config, error) {
	c, _, err := LoadWithOrigins(flags, validate)
	return c, err
}

// LoadWithOrigins is Load, and returns where keys were set.
func LoadWithOrigins(flags *pflag.FlagSet, validate func(*Config, FaultFunc)) (c *Config, origin func(key string) string, err error) {
	file := os.Getenv("TOOLSERVER_CONFIG")
	if f := flags.Lookup("config"); f != nil && f.Changed {
		file = f.Value.String()
	}
	c = Default()
	r := newReader(file)
	if file != "" {
		if err := read(r, file, c); err != nil {
			return nil, nil, err
		}
	}
	for _, key := range scalarKeys(reflect.TypeFor[Config](), "") {
		if name := envOf(key); os.Getenv(name) != "" {
			r.Override(fieldAt(c, key), key, os.Getenv(name), name)
		}
	}
	for _, o := range overrides {
		if value, set := os.LookupEnv(o.env); set {
			r.Override(fieldAt(c, o.key), o.key, value, o.env)
		}
		if f := flags.Lookup(o.flag); f != nil && f.Changed {
			r.Override(fieldAt(c, o.key), o.key, f.Value.String(), "--"+o.flag)
		}
	}
	for _, v := range StrayVariables(c.NamedVariables()...) {
		if len(v.near) > 0 {
			r.Fault(v.Name, "unknown variable%s", nearest.Hint(v.near))
		}
	}
	validate(c, r.Fault)
	return c, r.Origin, r.Err()
}

// envOf returns the variable that sets a key: TOOLSERVER_ and the key in capitals,
// such as TOOLSERVER_EXECUTIONS_MAX_RUNNING.
func envOf(key string) string {
	return "TOOLSERVER_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// scalarKeys returns the keys of a struct that have a single value.
func scalarKeys(t reflect.Type, prefix string) []string {
	var keys []string
	for field := range t.Fields() {
		if field.Tag.Get("yaml") == "-" {
			continue
		}
		key := prefix + field.Tag.Get("yaml")
		switch field.Type.Kind() {
		case reflect.Struct:
			keys = append(keys, scalarKeys(field.Type, key+".")...)
		case reflect.Slice:
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// FillIn sets what has no fixed default: directories of this machine.
func (c *Config) FillIn() error {
	var err error
	if c.Sessions.Workspace, err = filepath.Abs(c.Sessions.Workspace); err != nil {
		return err
	}
	for i, dir := range c.Sessions.AllowedWorkspaces {
		if c.Sessions.AllowedWorkspaces[i], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	for name, dir := range map[string]*string{
		"workspaces": &c.Sessions.WorkspaceRoot, "caches": &c.Sandbox.Caches.Dir, "tools": &c.Dynamic.Dir, "artifacts": &c.Artifacts.Dir,
	} {
		if *dir, err = filepath.Abs(cmp.Or(*dir, filepath.Join(c.StateDir(), name))); err != nil {
			return err
		}
	}
	c.Code.GoModules = c.goModules()
	return c.fillInState()
}

// StateDir returns where the server keeps what outlives it, unless a key says otherwise.
func (c *Config) StateDir() string {
	return filepath.Join(cmp.Or(c.StateHome, stateHome()), "toolserver")
}

// stateHome returns where programs of this user keep what outlives them.
func stateHome() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state")
	}
	return filepath.Join(os.TempDir(), "toolserver-"+strconv.Itoa(os.Getuid()))
}
