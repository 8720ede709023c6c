// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/toolserver/toolserver/internal/lsp"
	"github.com/toolserver/toolserver/internal/model"
)

const example = "../../deploy/toolserver.yaml"

// load loads a configuration as serve does.
func load(t *testing.T, flags ...string) (*Config, error) {
	t.Helper()
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(set, "listen", "admin", "workspace", "log-level")
	if err := set.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return Load(set, (*Config).Validate)
}

func TestExampleIsTheDefaults(t *testing.T) {
	t.Setenv("TOOLSERVER_SANDBOX_HELPER", "") // which other tests need
	c, err := load(t, "--config", example)
	if err != nil {
		t.Fatal(err)
	}
	if want := Default(); !reflect.DeepEqual(c, want) {
		t.Errorf("%s has other values than the defaults:\n got %+v\nwant %+v", example, c, want)
	}
}

func TestExampleHasEveryKey(t *testing.T) {
	r := newReader(example)
	if err := read(r, example, Default()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(reflect.TypeFor[Config](), "") {
		if !r.Has(key) {
			t.Errorf("%s has no %s", example, key)
		}
	}
	for line, entry := range map[string]reflect.Type{ // in a comment
		"  tokens: []\n": reflect.TypeFor[Token](), "  oidc: []\n": reflect.TypeFor[OIDC](), "  principals: []\n": reflect.TypeFor[Principal](),
	} {
		for _, key := range keysOf(entry, "") {
			if !regexp.MustCompile(`(?m)^ +(- )?` + key + `: `).MatchString(commentedOut(t, line)) {
				t.Errorf("%s has no %s in what follows %q", example, key, line)
			}
		}
	}
}

// keysOf returns the keys of a struct and of those in it.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		field := t.Field(i)
		key := prefix + field.Tag.Get("yaml")
		if field.Tag.Get("yaml") == "-" {
			continue
		}
		keys = append(keys, key)
		single := reflect.PointerTo(field.Type).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
		if field.Type.Kind() == reflect.Struct && !single {
			keys = append(keys, keysOf(field.Type, key+".")...)
		}
	}
	return keys
}

// The token example is commented out in the file: it must work once it is not.
func TestExampleTokenWorks(t *testing.T) {
	var token strings.Builder
	for line := range strings.Lines(commentedOut(t, "tokens: []\n")) {
		if !strings.Contains(line, "token_file:") && !strings.Contains(line, "token_env:") { // one of the three
			token.WriteString(line)
		}
	}
	c, err := load(t, "--config", configFile(t, "authentication:\n  tokens:\n"+token.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Authentication.Tokens; len(got) != 1 || got[0].Principal != "alice" {
		t.Errorf("tokens %+v of\n%s", got, token.String())
	}
}

// commentedOut returns what follows a line of the example and is a comment.
func commentedOut(t *testing.T, line string) string {
	t.Helper()
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), line)
	var out strings.Builder
	for line := range strings.Lines(rest) {
		line, commented := strings.CutPrefix(line, "  # ")
		if !commented || !strings.HasPrefix(line, "- ") && !strings.HasPrefix(line, "  ") { // of what comes next
			break
		}
		out.WriteString("  " + line)
	}
	return out.String()
}

// So must those of an issuer and of a principal.
func TestExampleIssuerWorks(t *testing.T) {
	c, err := load(t, "--config", configFile(t, "authentication:\n  oidc:\n"+commentedOut(t, "  oidc: []\n")+"  principals:\n"+commentedOut(t, "  principals: []\n")))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Authentication; len(got.OIDC) != 1 || got.OIDC[0].ClockSkew != 30*time.Second || len(got.Principals) != 1 ||
		got.Principals[0].MaxMode.String() != "accept_edits" || got.Off() {
		t.Errorf("%+v", got)
	}
}

// TestClientSecretIsKept: no session reads the secret with which people are signed in, and no tool shows it.
func TestClientSecretIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("of-the-sign-in-page\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, "--config", configFile(t, "authentication:\n  oidc:\n  - {issuer: \"https://issuer.example\", audiences: [toolserver], sign_in: Example, client_id: toolserver, client_secret_file: "+file+"}\n"+
		"  principals: [{name: alice, roles: [agent]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	masker, err := c.Masker()
	if err != nil {
		t.Fatal(err)
	}
	if got := masker().String("it is of-the-sign-in-page"); strings.Contains(got, "of-the-sign-in") {
		t.Errorf("the secret is shown: %s", got)
	}
	if !slices.Contains(c.OwnFiles(), file) {
		t.Errorf("sessions may read %s: closed are %q", file, c.OwnFiles())
	}
}

// So must that of a model, which has every key.
func TestExampleModelWorks(t *testing.T) {
	text := commentedOut(t, "models: []\n")
	for _, key := range keysOf(reflect.TypeFor[model.Spec](), "") {
		if !strings.Contains(key, ".") && !strings.Contains(text, " "+key+": ") {
			t.Errorf("%s has no %s of a model", example, key)
		}
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("sk-of-a-model"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOOLSERVER_MODEL_KEY", "sk-of-another")
	c, err := load(t, "--config", configFile(t, "models:\n"+strings.ReplaceAll(text, "/etc/toolserver/anthropic.key", file)+
		"  - {name: local, format: openai, url: \"http://127.0.0.1:11434/v1\", model: llama, key_env: TOOLSERVER_MODEL_KEY}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Models; len(got) != 2 || got[0].Prices.Cached != 0.3 || got[0].Day.Dollars != 50 || got[0].MaxAnswer != 64<<20 || got[0].Parameters["service_tier"] != "auto" {
		t.Errorf("%+v", got)
	}
	masker, err := c.Masker()
	if err != nil {
		t.Fatal(err)
	}
	if got := masker().String("sk-of-a-model, sk-of-another"); strings.Contains(got, "sk-of") {
		t.Errorf("keys are shown: %s", got)
	}
	if !slices.Contains(c.OwnFiles(), file) {
		t.Error("the file of the key is not closed to calls")
	}
}

// So must that of a language, with a real interpreter.
func TestExampleReplWorks(t *testing.T) {
	c, err := load(t, "--config", configFile(t, "sandbox:\n  repl:\n"+commentedOut(t, "repl: []\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := []Repl{{Language: "sqlite", Command: []string{"sqlite3", "-batch", ":memory:"}, Mark: ";\n.print {mark}", Begin: ".headers on"}}
	if !reflect.DeepEqual(c.Sandbox.Repl, want) {
		t.Errorf("got %+v, want %+v", c.Sandbox.Repl, want)
	}
}

// So must that of a language server, which has every key.
func TestExampleLanguageServerWorks(t *testing.T) {
	c, err := load(t, "--config", configFile(t, "code:\n  servers:\n"+commentedOut(t, "  servers: []\n")+"  - {name: gopls, off: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []lsp.Server{
		{
			Name: "zls", Command: []string{"zls"}, Languages: map[string][]string{"zig": {".zig"}, "zir": {".zir"}}, Env: []string{"ZIG_LIB_DIR=/opt/zig/lib"},
			Settings: map[string]any{"zls": map[string]any{"warn_style": true}}, Options: map[string]any{},
		},
		{Name: "gopls", Off: true},
	}
	if !reflect.DeepEqual(c.Code.Servers, want) {
		t.Errorf("got %+v, want %+v", c.Code.Servers, want)
	}
}

// TestGoModules: gopls reads the modules of the server's user where everybody is taken for
// that user, and others where an operator says so.
func TestGoModules(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	t.Setenv("GOMODCACHE", own)
	const tokens = "authentication: {tokens: [{principal: a, token: 0123456789abcdef0123456789abcdef}]}\n"
	for _, test := range []struct{ file, want string }{
		{"", own},
		{tokens, ""},
		{tokens + "code: {go_modules: " + other + "}\n", other},
		{"code: {go_modules: off}\n", ""},
	} {
		c, err := load(t, "--config", configFile(t, test.file))
		if err == nil {
			err = c.FillIn()
		}
		if err != nil || c.Code.GoModules != test.want {
			t.Errorf("%q: %q, %v; want %q", test.file, c.Code.GoModules, err, test.want)
		}
	}
	if _, err := load(t, "--config", configFile(t, "code: {go_modules: pkg/mod}\n")); err == nil || !strings.Contains(err.Error(), "code.go_modules: pkg/mod is no directory") {
		t.Error(err)
	}
}

func TestEnvironmentAndFlagsOverFile(t *testing.T) {
	file := configFile(t, "listen: 127.0.0.1:1\nadmin: {address: 127.0.0.1:2}\nlog: {level: error}\n")
	t.Setenv("TOOLSERVER_CONFIG", file)
	t.Setenv("TOOLSERVER_LISTEN", "127.0.0.1:3")
	t.Setenv("TOOLSERVER_ADMIN", "")
	t.Setenv("TOOLSERVER_EXECUTIONS_MAX_RUNNING", "7")
	t.Setenv("TOOLSERVER_WIRE_KEEPALIVE_TIME", "77s")
	c, err := load(t, "--listen", "127.0.0.1:4")
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:4" || !c.Admin.Off() || c.Log.Level.String() != "error" ||
		c.Executions.MaxRunning != 7 || c.Wire.KeepaliveTime != 77*time.Second {
		t.Errorf("got %+v", c)
	}
	t.Setenv("TOOLSERVER_REFLECTION", "perhaps")
	if _, err := load(t); err == nil || !strings.Contains(err.Error(), "TOOLSERVER_REFLECTION") {
		t.Errorf("%v, want that it names the variable", err)
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Setenv("SHORT_TOKEN", "short")
	for name, test := range map[string]struct {
		file  string
		flags []string
		want  []string // each with its line
	}{
		"unknown key":         {"listen: 127.0.0.1:0\nlistn: x\n", nil, []string{"c.yaml:2: listn: unknown key; did you mean listen?"}},
		"unknown nested key":  {"wire:\n  max_stream: 5\n", nil, []string{"c.yaml:2: wire.max_stream: unknown key; did you mean max_streams?"}},
		"duplicate key":       {"channelz: true\nreflection: true\nchannelz: false\n", nil, []string{"c.yaml:3: channelz: duplicate key: it is on line 1 already"}},
		"duplicate group":     {"log:\n  level: info\nlog:\n  level: warn\n", nil, []string{"c.yaml:3: log: duplicate key"}},
		"other case":          {"Listen: 127.0.0.1:0\n", nil, []string{"c.yaml:1: Listen: unknown key; did you mean listen?"}},
		"all at once":         {"a: 1\nb: 2\nexecutions:\n  max_running: 0\n", nil, []string{"c.yaml:1: a:", "c.yaml:2: b:", "c.yaml:4: executions.max_running: 0 is out of bounds"}},
		"not YAML":            {"listen: [\n", nil, []string{"c.yaml:1: "}},
		"not a mapping":       {"- listen\n", nil, []string{"c.yaml:1: want keys with values"}},
		"two documents":       {"listen: 127.0.0.1:0\n---\nlisten: x\n", nil, []string{"c.yaml:2: a second document"}},
		"a list as a value":   {"listen: [a]\n", nil, []string{"c.yaml:1: listen: want a single value"}},
		"a value as a list":   {"sessions:\n  modes: ask\n", nil, []string{"c.yaml:2: sessions.modes: want a list"}},
		"a value as a group":  {"admin: off\n", nil, []string{"c.yaml:1: admin: want keys with values here: address, pprof"}},
		"no value":            {"listen:\n", nil, []string{"c.yaml:1: listen: has no value"}},
		"files":               {"files:\n  max_file_bytes: 8GiB\n  max_uploads: 0\n", nil, []string{"c.yaml:2: files.max_file_bytes: 8GiB is above files.max_tree_bytes, 4GiB", "c.yaml:3: files.max_uploads: 0 is out of bounds"}},
		"a fraction":          {"wire:\n  max_streams: 1.5\n", nil, []string{`c.yaml:2: wire.max_streams: "1.5" is not a whole number`}},
		"a truth":             {"channelz: yes\n", nil, []string{`c.yaml:1: channelz: "yes" is neither true nor false`}},
		"seconds":             {"shutdown_grace: 10\n", nil, []string{`c.yaml:1: shutdown_grace: "10" is not a duration`}},
		"negative time":       {"shutdown_grace: -1s\n", nil, []string{"c.yaml:1: shutdown_grace: -1s is out of bounds"}},
		"a size":              {"wire:\n  max_message_bytes: 5MB\n", nil, []string{`c.yaml:2: wire.max_message_bytes: "5MB" is not a size`}},
		"a large size":        {"wire:\n  max_message_bytes: 9999999999GiB\n", nil, []string{"is not a size"}},
		"a negative size":     {"executions:\n  log_memory: -1GiB\n", nil, []string{"c.yaml:2: executions.log_memory: -1GiB is out of bounds", "max_log_bytes: 256KiB is above"}},
		"answers of nothing":  {"answers:\n  default: 0\n", nil, []string{`c.yaml:2: answers.default: "0" does not say how long an answer is`}},
		"answers of words":    {"answers:\n  max: 300 words\n", nil, []string{`c.yaml:2: answers.max: "300 words" does not say how long an answer is: want a number of characters, or of tokens, such as "50000" or "12000 tokens"`}},
		"too much history":    {"state:\n  max_history: 3GiB\n", nil, []string{"c.yaml:2: state.max_history: 3221225472 bytes are too many: want at most 2GiB"}},
		"a key of a cluster":  {"state:\n  tls: {key: k.pem}\n", nil, []string{"state.tls.key: it is of a cluster, and state.engine is embedded"}},
		"answers too short":   {"answers:\n  default: 100 tokens\n", nil, []string{"c.yaml:2: answers.default: an answer of 100 tokens is out of range: want 250 to 100000"}},
		"answers above most":  {"answers:\n  max: 20000\n", nil, []string{"c.yaml:1: answers.default: an answer of 50000 characters is out of range: want 1000 to 20000"}},
		"answers too long":    {"answers:\n  max: 2000000\n", nil, []string{"c.yaml:2: answers.max: an answer of 2000000 characters is out of range: want 1000 to 1048576"}},
		"anchors":             {"listen: &a 127.0.0.1:0\n", nil, []string{"c.yaml:1: listen: anchors"}},
		"a level":             {"sessions:\n  level: root\n", nil, []string{`c.yaml:2: sessions.level: "root" is no level: want one of read_only`}},
		"level above maximum": {"sessions:\n  max_level: read_only\n", nil, []string{"c.yaml:1: sessions.level: workspace_write is above"}},
		"too many active":     {"sessions:\n  activation:\n    limit: 1001\n", nil, []string{"c.yaml:2: sessions.activation: 1001 active tools: want 1 to 1000"}},
		"mode not allowed":    {"sessions:\n  mode: allow\n  modes: [ask, plan]\n", nil, []string{"c.yaml:2: sessions.mode: allow is not among"}},
		"workspace":           {"sessions:\n  workspace: /no/such/dir\n", nil, []string{"c.yaml:2: sessions.workspace: stat /no/such/dir"}},
		"result too large":    {"executions:\n  max_result_bytes: 4MiB\n", nil, []string{"c.yaml:2: executions.max_result_bytes: 4MiB does not fit"}},
		"half of TLS":         {"tls:\n  key: k.pem\n", nil, []string{"c.yaml:1: tls: certificate and key belong together"}},
		"two tokens":          {"authentication:\n  tokens:\n  - principal: a\n    token: x\n    token_env: y\n", nil, []string{"c.yaml:3: authentication.tokens[0]: want one of token_file"}},
		"short token":         {"authentication:\n  tokens:\n  - principal: a\n    token_env: SHORT_TOKEN\n", nil, []string{"c.yaml:3: authentication.tokens[0]: the token of a has 5 characters"}},
		"three bad tokens": {"authentication:\n  tokens:\n  - {principal: a, token: short}\n  - {principal: b, token_env: NOT_THERE}\n  - {principal: c, token: brief}\n", nil, []string{
			"c.yaml:3: authentication.tokens[0]: the token of a has 5 characters", "c.yaml:4: authentication.tokens[1]: token_env: the environment has no NOT_THERE",
			"c.yaml:5: authentication.tokens[2]: the token of c has 5 characters"}},
		"missing variable":    {"authentication:\n  tokens:\n  - principal: a\n    token_env: NOT_THERE\n", nil, []string{"the environment has no NOT_THERE"}},
		"open to all":         {"listen: 0.0.0.0:1\n", nil, []string{"c.yaml:1: listen: 0.0.0.0:1 can be reached from other machines and authentication is off"}},
		"every interface":     {"", []string{"--listen", ":8665"}, []string{"--listen: listen: :8665 can be reached"}},
		"IPv6":                {"", []string{"--listen", "[::]:8665"}, []string{"can be reached"}},
		"a name":              {"", []string{"--listen", "example.com:8665"}, []string{"can be reached"}},
		"no port":             {"", []string{"--listen", "127.0.0.1"}, []string{"is not an address"}},
		"abstract socket":     {"", []string{"--listen", "unix:@x"}, []string{"want unix: and the path"}},
		"pprof for all":       {"admin:\n  address: 0.0.0.0:1\n  pprof: true\n", nil, []string{"c.yaml:3: admin.pprof: 0.0.0.0:1 can be reached"}},
		"the same address":    {"", []string{"--listen", "127.0.0.1:5", "--admin", "127.0.0.1:5"}, []string{"--admin: admin.address: is the same as listen"}},
		"a network":           {"sandbox:\n  network: proxy\n", nil, []string{`c.yaml:2: sandbox.network: "proxy" is no network: want one of none, loopback, hosts, open`}},
		"no network":          {"sandbox:\n  max_network: unset\n", nil, []string{`c.yaml:2: sandbox.max_network: "unset" is no network`}},
		"network above":       {"sandbox:\n  network: hosts\n", nil, []string{"c.yaml:2: sandbox.network: hosts is above sandbox.max_network, loopback"}},
		"a proxy's URL":       {"sandbox:\n  proxy: http://proxy:3128\n", nil, []string{"c.yaml:2: sandbox.proxy: \"http://proxy:3128\" is no address"}},
		"a proxy's port":      {"sandbox:\n  proxy: proxy:http\n", nil, []string{"c.yaml:2: sandbox.proxy: \"http\" is not a port"}},
		"a language twice":    {"sandbox:\n  repl:\n  - {language: bash, command: [sh]}\n", nil, []string{"c.yaml:3: sandbox.repl[0].language: there is a language bash already"}},
		"no language":         {"sandbox:\n  repl:\n  - {language: A B, command: []}\n", nil, []string{`sandbox.repl[0].language: "A B" is no name`, "sandbox.repl[0].command: want the program"}},
		"no mark":             {"sandbox:\n  repl:\n  - {language: bc, command: [bc], mark: print}\n  - {language: dc, command: [dc], begin: x}\n", nil, []string{"sandbox.repl[0].mark: lacks {mark}", "sandbox.repl[1].begin: only a program with a mark"}},
		"a language server":   {"code:\n  servers:\n  - {name: zls}\n  - {name: zls, command: [zls], languages: {zig: []}}\n  - {name: none, off: true}\n", nil, []string{"code.servers[0].command: it is missing", "code.servers[0].languages: none is named", "code.servers[1].name: there are two servers zls", "code.servers[1].languages.zig: want endings", "code.servers[2].off: there is no server none"}},
		"no time for answers": {"code:\n  timeout: 1ms\n", nil, []string{"c.yaml:2: code.timeout: 1ms is out of bounds"}},
		"log level":           {"log:\n  level: loud\n", nil, []string{`c.yaml:2: log.level: "loud" is no level`}},
		"log level too high":  {"", []string{"--log-level", "fatal"}, []string{"--log-level: log.level: \"fatal\" is too high"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, append(test.flags, "--config", configFile(t, test.file))...)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in:\n%v", want, err)
				}
			}
			if lines := strings.Count(err.Error(), "\n"); lines != len(test.want) {
				t.Errorf("%d faults, want %d:\n%v", lines, len(test.want), err)
			}
		})
	}
}

func TestGoodConfigurations(t *testing.T) {
	for name, test := range map[string]struct {
		file  string
		flags []string
	}{
		"empty":            {"", nil},
		"comments":         {"# nothing\n", nil},
		"empty groups":     {"admin:\nsessions:\n  modes:\nauthentication:\n  tokens:\n", nil},
		"quoted":           {`{"listen": "127.0.0.1:0", "wire": {"max_streams": 5}}`, nil},
		"bytes":            {"wire:\n  max_message_bytes: 4194304\n", nil},
		"a socket":         {"", []string{"--listen", "unix:/tmp/x"}},
		"localhost":        {"", []string{"--listen", "localhost:0", "--admin", "[::1]:0"}},
		"no admin port":    {"admin: {address: \"off\"}\n", nil},
		"open admin port":  {"admin: {address: 0.0.0.0:9}\n", nil},
		"less network":     {"sandbox: {network: none}\n", nil},
		"all the network":  {"sandbox: {network: open, max_network: open, proxy: \"[::1]:3128\"}\n", nil},
		"open with tokens": {"listen: 0.0.0.0:1\nauthentication:\n  tokens:\n  - {principal: a, token: 0123456789abcdef}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, append(test.flags, "--config", configFile(t, test.file))...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpenNetwork proves that commands do not come to call the server that runs
// them: it does not start where they could, as its operator.
func TestOpenNetwork(t *testing.T) {
	const tokens = "authentication: {tokens: [{principal: a, token: 0123456789abcdef}]}\n"
	for _, test := range []struct {
		file   string
		starts bool
	}{
		{"", true},
		{"sandbox: {max_network: hosts}\n", true},
		{"sandbox: {max_network: open}\n", false},
		{"sandbox: {network: open, max_network: open}\n", false},
		{"sandbox: {max_network: open}\n" + tokens, true},
	} {
		c, err := load(t, "--config", configFile(t, test.file))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CheckOpenNetwork(); (err == nil) != test.starts {
			t.Errorf("%q: %v", test.file, err)
		}
	}
}

// TestSecretsAreMasked proves that what the configuration names is masked in the
// output of tools, and so are the tokens of callers.
func TestSecretsAreMasked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("value of a file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A_SECRET", "value of a variable")
	c := Default()
	c.Secrets = []Secret{{File: file}, {Env: "A_SECRET"}}
	c.Authentication.Tokens = []Token{{Principal: "alice", Token: "alice-alice-alice"}}
	masker, err := c.Masker()
	if err != nil {
		t.Fatal(err)
	}
	got := masker().String("value of a file, value of a variable, alice-alice-alice, value of nothing")
	if want := "[masked: secret], [masked: secret], [masked: secret], value of nothing"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Secrets = append(c.Secrets, Secret{File: filepath.Join(t.TempDir(), "none")})
	if _, err := c.Masker(); err == nil {
		t.Error("a secret that cannot be read is none")
	}
}

// configFile writes a configuration and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
