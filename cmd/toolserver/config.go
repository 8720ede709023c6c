// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/nearest"
	"github.com/toolserver/toolserver/internal/tools"
)

// config is everything that can be set. Each field is a key of the YAML file;
// deploy/toolserver.yaml explains them all.
type config struct {
	Listen         string               `yaml:"listen"`
	Admin          adminConfig          `yaml:"admin"`
	TLS            tlsConfig            `yaml:"tls"`
	Authentication authenticationConfig `yaml:"authentication"`
	Log            logConfig            `yaml:"log"`
	Sessions       sessionsConfig       `yaml:"sessions"`
	Policy         policyConfig         `yaml:"policy"`
	Audit          auditConfig          `yaml:"audit"`
	Executions     executionsConfig     `yaml:"executions"`
	Sandbox        sandboxConfig        `yaml:"sandbox"`
	Answers        answersConfig        `yaml:"answers"`
	Search         searchConfig         `yaml:"search"`
	Artifacts      artifactsConfig      `yaml:"artifacts"`
	Files          filesConfig          `yaml:"files"`
	Secrets        []secretConfig       `yaml:"secrets"`
	Wire           wireConfig           `yaml:"wire"`
	Reflection     bool                 `yaml:"reflection"`
	Channelz       bool                 `yaml:"channelz"`
	ShutdownGrace  time.Duration        `yaml:"shutdown_grace"`
}

type adminConfig struct {
	Address string `yaml:"address"`
	Pprof   bool   `yaml:"pprof"`
}

// off says that there is no admin port.
func (c adminConfig) off() bool { return c.Address == "" || c.Address == "off" }

type tlsConfig struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// off says that connections are not encrypted.
func (c tlsConfig) off() bool { return c.Certificate == "" && c.Key == "" }

type authenticationConfig struct {
	Tokens []tokenConfig `yaml:"tokens"`
}

// off says that everybody who reaches the server is taken for its operator.
func (c authenticationConfig) off() bool { return len(c.Tokens) == 0 }

type tokenConfig struct {
	Principal string `yaml:"principal"`
	Operator  bool   `yaml:"operator"`
	Approver  bool   `yaml:"approver"`
	TokenFile string `yaml:"token_file"`
	TokenEnv  string `yaml:"token_env"`
	Token     string `yaml:"token"`
}

type logConfig struct {
	Level logLevel `yaml:"level"`
}

type sessionsConfig struct {
	Workspace         string        `yaml:"workspace"`
	WorkspaceRoot     string        `yaml:"workspace_root"`
	AllowedWorkspaces []string      `yaml:"allowed_workspaces"`
	Level             tools.Level   `yaml:"level"`
	Mode              tools.Mode    `yaml:"mode"`
	MaxLevel          tools.Level   `yaml:"max_level"`
	Modes             []tools.Mode  `yaml:"modes"`
	IdleTTL           time.Duration `yaml:"idle_ttl"`
	MaxPerPrincipal   int           `yaml:"max_per_principal"`
	KeepWorkspace     time.Duration `yaml:"keep_workspace"`
	MaxKept           int           `yaml:"max_kept"`
}

type policyConfig struct {
	File string `yaml:"file"`
}

type auditConfig struct {
	File     string   `yaml:"file"`
	Stdout   bool     `yaml:"stdout"`
	Inputs   bool     `yaml:"inputs"`
	Required bool     `yaml:"required"`
	Sync     syncMode `yaml:"sync"`
	MaxBytes size     `yaml:"max_bytes"`
	Keep     int      `yaml:"keep"`
}

// off says that no audit log is kept.
func (c auditConfig) off() bool { return c.File == "" && !c.Stdout }

type executionsConfig struct {
	MaxRunning       int           `yaml:"max_running"`
	DefaultTimeout   time.Duration `yaml:"default_timeout"`
	MaxTimeout       time.Duration `yaml:"max_timeout"`
	StopGrace        time.Duration `yaml:"stop_grace"`
	DisconnectGrace  time.Duration `yaml:"disconnect_grace"`
	Retention        time.Duration `yaml:"retention"`
	MaxRetained      int           `yaml:"max_retained"`
	MaxRemembered    int           `yaml:"max_remembered"`
	MaxRememberedAll int           `yaml:"max_remembered_all"`
	MaxResultBytes   size          `yaml:"max_result_bytes"`
	MaxLogBytes      size          `yaml:"max_log_bytes"`
	MaxLogEvents     int           `yaml:"max_log_events"`
	LogMemory        size          `yaml:"log_memory"`
	ReaderPatience   time.Duration `yaml:"reader_patience"`
	ProgressInterval time.Duration `yaml:"progress_interval"`
	Heartbeat        time.Duration `yaml:"heartbeat"`
}

type sandboxConfig struct {
	Mode       sandboxMode   `yaml:"mode"`
	Helper     string        `yaml:"helper"`
	Namespaces bool          `yaml:"namespaces"`
	Grace      time.Duration `yaml:"grace"`
	Read       []string      `yaml:"read"`
	Write      []string      `yaml:"write"`
	Network    tools.Network `yaml:"network"`
	MaxNetwork tools.Network `yaml:"max_network"`
	Proxy      string        `yaml:"proxy"`
	Path       []string      `yaml:"path"`
	Env        []string      `yaml:"env"`
	Trace      bool          `yaml:"traceparent"`
	Limits     commandLimits `yaml:"limits"`
	Caches     cachesConfig  `yaml:"caches"`
	Kept       keptConfig    `yaml:"kept"`
	Repl       []replConfig  `yaml:"repl"`
}

// cachesConfig is where programs keep what they have fetched and built.
type cachesConfig struct {
	Dir      string `yaml:"dir"`
	MaxBytes size   `yaml:"max_bytes"`
}

// keptConfig is what is kept between the calls of a session.
type keptConfig struct {
	Output      size          `yaml:"output"`
	EndedOutput size          `yaml:"ended_output"`
	Ended       int           `yaml:"ended"`
	Idle        time.Duration `yaml:"interpreter_idle"`
}

// replConfig is a language of the tool repl.
type replConfig struct {
	Language string   `yaml:"language"`
	Command  []string `yaml:"command"`
	Mark     string   `yaml:"mark"`
	Begin    string   `yaml:"begin"`
}

type commandLimits struct {
	Memory     size          `yaml:"memory"`
	Processes  int           `yaml:"processes"`
	CPU        time.Duration `yaml:"cpu"`
	OpenFiles  int           `yaml:"open_files"`
	FileSize   size          `yaml:"file_size"`
	Output     size          `yaml:"output"`
	PerSession int           `yaml:"per_session"`
	PerServer  int           `yaml:"per_server"`

	SessionMemory    size          `yaml:"session_memory"`
	SessionProcesses int           `yaml:"session_processes"`
	SessionCPU       time.Duration `yaml:"session_cpu"`
	ServerMemory     size          `yaml:"server_memory"`
	ServerProcesses  int           `yaml:"server_processes"`

	SessionFiles  int  `yaml:"session_files"`
	ReservedFiles int  `yaml:"reserved_files"`
	ReservedSpace size `yaml:"reserved_space"`
}

// answersConfig is how much text answers have for a model.
type answersConfig struct {
	Default answerSize `yaml:"default"`
	Max     answerSize `yaml:"max"`
}

type searchConfig struct {
	MaxText   size          `yaml:"max_text"`
	MaxIndex  size          `yaml:"max_index"`
	IdleAfter time.Duration `yaml:"idle_after"`
}

type artifactsConfig struct {
	Dir             string        `yaml:"dir"`
	MaxBytes        size          `yaml:"max_bytes"`
	MaxSessionBytes size          `yaml:"max_session_bytes"`
	MaxTotalBytes   size          `yaml:"max_total_bytes"`
	TTL             time.Duration `yaml:"ttl"`
}

// filesConfig bounds the files that clients bring and fetch.
type filesConfig struct {
	MaxFileBytes   size          `yaml:"max_file_bytes"`
	MaxTreeBytes   size          `yaml:"max_tree_bytes"`
	MaxTreeEntries int           `yaml:"max_tree_entries"`
	MaxUploads     int           `yaml:"max_uploads"`
	MaxUploadBytes size          `yaml:"max_upload_bytes"`
	UploadTTL      time.Duration `yaml:"upload_ttl"`
	StreamIdle     time.Duration `yaml:"stream_idle"`
}

// secretConfig is where a value is that must not leave the server.
type secretConfig struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`
}

type wireConfig struct {
	MaxMessageBytes    size          `yaml:"max_message_bytes"`
	MaxStreams         int           `yaml:"max_streams"`
	MaxHeaderBytes     size          `yaml:"max_header_bytes"`
	KeepaliveTime      time.Duration `yaml:"keepalive_time"`
	KeepaliveTimeout   time.Duration `yaml:"keepalive_timeout"`
	MinPingInterval    time.Duration `yaml:"min_ping_interval"`
	MaxConnectionAge   time.Duration `yaml:"max_connection_age"`
	MaxConnectionGrace time.Duration `yaml:"max_connection_grace"`
}

// defaultConfig is the configuration of a server that was told nothing.
func defaultConfig() *config {
	return &config{
		Listen: "127.0.0.1:8665",
		Admin:  adminConfig{Address: "127.0.0.1:8666"},
		Log:    logConfig{Level: logLevel(zapcore.InfoLevel)},
		Sessions: sessionsConfig{
			Level:           tools.WorkspaceWrite,
			Mode:            tools.ModeAsk,
			MaxLevel:        tools.WorkspaceWrite,
			IdleTTL:         time.Hour,
			MaxPerPrincipal: 1000,
			KeepWorkspace:   time.Hour,
			MaxKept:         100,
		},
		Executions: executionsConfig{
			MaxRunning:       20_000,
			DefaultTimeout:   2 * time.Minute,
			MaxTimeout:       time.Hour,
			StopGrace:        5 * time.Second,
			DisconnectGrace:  30 * time.Second,
			Retention:        10 * time.Minute,
			MaxRetained:      10_000,
			MaxRemembered:    20_000,
			MaxRememberedAll: 500_000,
			MaxResultBytes:   1 << 20,
			MaxLogBytes:      256 << 10,
			MaxLogEvents:     10_000,
			LogMemory:        256 << 20,
			ReaderPatience:   time.Second,
			ProgressInterval: 100 * time.Millisecond,
			Heartbeat:        15 * time.Second,
		},
		Sandbox: sandboxConfig{
			Mode:       sandboxPreferred,
			Namespaces: true,
			Grace:      2 * time.Second,
			Network:    tools.NetworkLoopback,
			MaxNetwork: tools.NetworkLoopback,
			Limits: commandLimits{
				Memory:     4 << 30,
				Processes:  512,
				CPU:        time.Hour,
				OpenFiles:  4096,
				FileSize:   4 << 30,
				Output:     4 << 30,
				PerSession: 32,
				PerServer:  512,

				SessionMemory:    8 << 30,
				SessionProcesses: 1024,

				SessionFiles:  1_000_000,
				ReservedFiles: 20_000,
				ReservedSpace: 256 << 20,
			},
			Caches: cachesConfig{MaxBytes: 10 << 30},
			Kept: keptConfig{
				Output:      1 << 20,
				EndedOutput: 4 << 20,
				Ended:       32,
				Idle:        30 * time.Minute,
			},
		},
		Answers: answersConfig{
			Default: answerSize{Characters: tools.DefaultAnswer},
			Max:     answerSize{Characters: tools.DefaultMaxAnswer},
		},
		Search: searchConfig{
			MaxText:   256 << 20,
			MaxIndex:  64 << 20,
			IdleAfter: 20 * time.Second,
		},
		Artifacts: artifactsConfig{
			MaxBytes:        256 << 20,
			MaxSessionBytes: 1 << 30,
			MaxTotalBytes:   4 << 30,
			TTL:             time.Hour,
		},
		Files: filesConfig{
			MaxFileBytes:   1 << 30,
			MaxTreeBytes:   4 << 30,
			MaxTreeEntries: 200_000,
			MaxUploads:     16,
			MaxUploadBytes: 2 << 30,
			UploadTTL:      15 * time.Minute,
			StreamIdle:     2 * time.Minute,
		},
		Wire: wireConfig{
			MaxMessageBytes:    4 << 20,
			MaxStreams:         1024,
			MaxHeaderBytes:     16 << 10,
			KeepaliveTime:      30 * time.Second,
			KeepaliveTimeout:   10 * time.Second,
			MinPingInterval:    10 * time.Second,
			MaxConnectionAge:   2 * time.Hour,
			MaxConnectionGrace: 10 * time.Minute,
		},
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
	{"sessions.workspace", "TOOLSERVER_WORKSPACE", "workspace", "workspace directory (default: the current directory)"},
	{"policy.file", "TOOLSERVER_POLICY", "policy", "policy file (default: the built-in policy)"},
	{"log.level", "TOOLSERVER_LOG_LEVEL", "log-level", "least level to log: debug, info, warn or error"},
}

// addConfigFlags adds --config and the flags named, of those in overrides.
func addConfigFlags(flags *pflag.FlagSet, names ...string) {
	flags.String("config", "", "configuration file (env TOOLSERVER_CONFIG)")
	defaults := defaultConfig()
	for _, name := range names {
		for _, o := range overrides {
			if o.flag == name {
				flags.String(name, textOf(defaults, o.key), o.usage+" (env "+o.env+")")
			}
		}
	}
}

// loadConfig returns the configuration made of defaults, the file that flags or
// environment name, the environment and flags, once validate has looked at it.
// An error lists everything that is wrong, where that is known with its line.
func loadConfig(flags *pflag.FlagSet, validate func(*config, faultFunc)) (*config, error) {
	c, _, err := loadConfigWithOrigins(flags, validate)
	return c, err
}

// loadConfigWithOrigins is loadConfig, and returns where keys were set.
func loadConfigWithOrigins(flags *pflag.FlagSet, validate func(*config, faultFunc)) (c *config, origin func(key string) string, err error) {
	file := os.Getenv("TOOLSERVER_CONFIG")
	if f := flags.Lookup("config"); f != nil && f.Changed {
		file = f.Value.String()
	}
	c = defaultConfig()
	r := newConfigReader(file)
	if file != "" {
		if err := readConfig(r, file, c); err != nil {
			return nil, nil, err
		}
	}
	for _, key := range scalarKeys(reflect.TypeFor[config](), "") {
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
	for _, v := range strayVariables(c.namedVariables()...) {
		if len(v.near) > 0 {
			r.Fault(v.name, "unknown variable%s", nearest.Hint(v.near))
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

// fillIn sets what has no fixed default: directories of this machine.
func (c *config) fillIn() error {
	var err error
	if c.Sessions.Workspace, err = filepath.Abs(c.Sessions.Workspace); err != nil {
		return err
	}
	for i, dir := range c.Sessions.AllowedWorkspaces {
		if c.Sessions.AllowedWorkspaces[i], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	if c.Sessions.WorkspaceRoot == "" {
		c.Sessions.WorkspaceRoot = filepath.Join(stateDir(), "toolserver", "workspaces")
	}
	if c.Sessions.WorkspaceRoot, err = filepath.Abs(c.Sessions.WorkspaceRoot); err != nil {
		return err
	}
	if c.Sandbox.Caches.Dir == "" {
		c.Sandbox.Caches.Dir = filepath.Join(stateDir(), "toolserver", "caches")
	}
	if c.Sandbox.Caches.Dir, err = filepath.Abs(c.Sandbox.Caches.Dir); err != nil {
		return err
	}
	if c.Artifacts.Dir == "" {
		c.Artifacts.Dir = filepath.Join(stateDir(), "toolserver", "artifacts")
	}
	c.Artifacts.Dir, err = filepath.Abs(c.Artifacts.Dir)
	return err
}

// stateDir returns where programs of this user keep what outlives them.
func stateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state")
	}
	return filepath.Join(os.TempDir(), "toolserver-"+strconv.Itoa(os.Getuid()))
}
