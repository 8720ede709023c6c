// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is the section "mcp" of the configuration.
type Config []Server

// A Server is one MCP server: a command or an address.
type Server struct {
	Name string `yaml:"name"`

	// Command is run in the sandbox, and speaks on its standard input and output.
	// Env is in its environment: NAME=value, or NAME for what the server has; Secrets
	// are variables whose values are in files.
	Command []string          `yaml:"command"`
	Env     []string          `yaml:"env"`
	Secrets map[string]string `yaml:"secret_files"`

	// Read and Write are what the command may touch beside its own directory, Network
	// how far it reaches, Hosts which hosts: host or host:port.
	Read    []string      `yaml:"read"`
	Write   []string      `yaml:"write"`
	Network tools.Network `yaml:"network"`
	Hosts   []string      `yaml:"hosts"`

	// URL is where a server is reached by HTTP. Of an address, Hosts are those whose
	// addresses may be private.
	URL       string            `yaml:"url"`
	Proxy     string            `yaml:"proxy"`     // host:port of a proxy through which it is reached
	Transport string            `yaml:"transport"` // http or sse
	Headers   map[string]string `yaml:"headers"`
	TokenFile string            `yaml:"token_file"`
	OAuth     OAuth             `yaml:"oauth"`

	// Tools chooses among its tools, by globs over their names within the server.
	Tools Choice `yaml:"tools"`

	// Says is what the operator says of them. With TrustAnnotations, what the server
	// says itself counts where this says nothing.
	Says             []source.Says `yaml:"says"`
	TrustAnnotations bool          `yaml:"trust_annotations"`

	// Timeout is how long a call may take, unless its caller says otherwise;
	// StartTimeout how long the server has to begin.
	Timeout      time.Duration `yaml:"timeout"`
	StartTimeout time.Duration `yaml:"start_timeout"`
}

// Choice chooses tools by globs over their names. The zero value chooses all.
type Choice struct {
	Include []string `yaml:"include"`
	Exclude []string `yaml:"exclude"`
}

// OAuth is how the server proves who it is to an address that asks for OAuth 2.1.
type OAuth struct {
	Grant            string   `yaml:"grant"` // authorization_code or client_credentials
	ClientID         string   `yaml:"client_id"`
	ClientSecretFile string   `yaml:"client_secret_file"`
	Scopes           []string `yaml:"scopes"`
	RedirectURL      string   `yaml:"redirect_url"`
}

// Off says that there is none.
func (o *OAuth) Off() bool { return o.Grant == "" }

// Grants of OAuth, and transports of HTTP.
const (
	grantCode        = "authorization_code"
	grantCredentials = "client_credentials"

	transportHTTP = "http"
	transportSSE  = "sse"
)

const (
	defaultStartTimeout = time.Minute
	defaultRedirect     = "http://127.0.0.1:8667/callback"
	maxServers          = 100
)

// Check finds everything that is wrong, with the key of each.
func (c Config) Check(fault func(key, format string, args ...any)) {
	if len(c) > maxServers {
		fault("mcp", "%d servers: at most %d", len(c), maxServers)
	}
	names := make(map[string]bool)
	for i := range c {
		at := fmt.Sprintf("mcp[%d]", i)
		c[i].check(func(key, format string, args ...any) { fault(at+key, format, args...) })
		if c[i].Name != "" && names[c[i].Name] {
			fault(at+".name", "there is a server %s already", c[i].Name)
		}
		names[c[i].Name] = true
	}
}

func (s *Server) check(fault func(key, format string, args ...any)) {
	if err := source.CheckName(s.Name); err != nil {
		fault(".name", "%v", err)
	}
	switch {
	case len(s.Command) == 0 && s.URL == "":
		fault("", "has neither command nor url: want a program to run, or an address")
	case len(s.Command) > 0 && s.URL != "":
		fault(".url", "is beside command: want a program to run, or an address")
	case s.URL != "":
		s.checkAddress(fault)
	default:
		s.checkCommand(fault)
	}
	for i, pattern := range slices.Concat(s.Tools.Include, s.Tools.Exclude) {
		if _, err := tools.CompilePattern(pattern); err != nil || strings.HasPrefix(pattern, "@") {
			fault(".tools", "%q, the %s pattern, is no glob over names of tools", pattern, ordinal(i+1))
		}
	}
	for i := range s.Says {
		if err := s.Says[i].Check(); err != nil {
			fault(fmt.Sprintf(".says[%d]", i), "%v", err)
		}
	}
	for key, d := range map[string]time.Duration{".timeout": s.Timeout, ".start_timeout": s.StartTimeout} {
		if d < 0 || d > 24*time.Hour {
			fault(key, "%s is out of bounds: want up to 24h", d)
		}
	}
	for _, host := range s.Hosts {
		if _, err := hostPort(host); err != nil {
			fault(".hosts", "%v", err)
		}
	}
}

func ordinal(n int) string {
	if n%100/10 != 1 && n%10 >= 1 && n%10 <= 3 {
		return strconv.Itoa(n) + []string{"st", "nd", "rd"}[n%10-1]
	}
	return strconv.Itoa(n) + "th"
}

func (s *Server) checkCommand(fault func(key, format string, args ...any)) {
	if s.Command[0] == "" || strings.Contains(s.Command[0], "/") && !filepath.IsAbs(s.Command[0]) {
		fault(".command", "%q is no program: want its name, or an absolute path", s.Command[0])
	}
	for key, paths := range map[string][]string{".read": s.Read, ".write": s.Write} {
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				fault(key, "%s is no absolute path", path)
			}
		}
	}
	switch {
	case s.Network == tools.NetworkHosts && len(s.Hosts) == 0:
		fault(".hosts", "is missing: network hosts reaches those that are listed")
	case s.Network != tools.NetworkHosts && len(s.Hosts) > 0:
		fault(".hosts", "is for network: hosts")
	}
	for _, pair := range s.Env {
		if name, _, _ := strings.Cut(pair, "="); name == "" || strings.ContainsAny(pair, "\x00\n") {
			fault(".env", "%.60q is no variable: want NAME=value, or NAME", pair)
		}
	}
	for name, file := range s.Secrets {
		if _, err := source.Secret(file); err != nil {
			fault(".secret_files", "%s: %v", name, err)
		}
	}
	for key, set := range map[string]bool{
		".proxy": s.Proxy != "", ".transport": s.Transport != "", ".headers": len(s.Headers) > 0, ".token_file": s.TokenFile != "", ".oauth": !s.OAuth.Off() || s.OAuth.ClientID != "",
	} {
		if set {
			fault(key, "is for a url: a command has none")
		}
	}
}

func (s *Server) checkAddress(fault func(key, format string, args ...any)) {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "":
		fault(".url", "%.80q is no address: want one such as https://mcp.example.com/mcp", s.URL)
	case u.Scheme == "http" && !egress.IsHere(u.Hostname()):
		fault(".url", "http to %s sends everything in the clear, and anybody on the way can answer: want https, or a server on this machine", u.Hostname())
	}
	if s.Transport != "" && s.Transport != transportHTTP && s.Transport != transportSSE {
		fault(".transport", "%q is no transport: want http, or sse for a server of before 2025", s.Transport)
	}
	for key, set := range map[string]bool{
		".env": len(s.Env) > 0, ".secret_files": len(s.Secrets) > 0, ".read": len(s.Read) > 0, ".write": len(s.Write) > 0, ".network": s.Network != 0,
	} {
		if set {
			fault(key, "is for a command")
		}
	}
	for name, value := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" && (s.TokenFile != "" || !s.OAuth.Off()) {
			fault(".headers", "Authorization is set by token_file or oauth")
		} else if name == "" || strings.ContainsAny(name+value, "\r\n\x00") {
			fault(".headers", "%.60q is no header", name)
		}
	}
	if s.Proxy != "" {
		if err := egress.CheckProxy(s.Proxy); err != nil {
			fault(".proxy", "%v", err)
		}
	}
	if s.TokenFile != "" {
		if _, err := source.Secret(s.TokenFile); err != nil {
			fault(".token_file", "%v", err)
		}
	}
	s.OAuth.check(s, func(key, format string, args ...any) { fault(".oauth"+key, format, args...) })
}

func (o *OAuth) check(s *Server, fault func(key, format string, args ...any)) {
	if o.Off() {
		if o.ClientID != "" || o.ClientSecretFile != "" || len(o.Scopes) > 0 || o.RedirectURL != "" {
			fault(".grant", "is missing: want %s or %s", grantCode, grantCredentials)
		}
		return
	}
	switch {
	case o.Grant != grantCode && o.Grant != grantCredentials:
		fault(".grant", "%q is no grant: want %s or %s", o.Grant, grantCode, grantCredentials)
	case s.TokenFile != "":
		fault("", "is beside token_file: want one of them")
	case s.Transport == transportSSE:
		fault("", "is for transport http")
	case o.Grant == grantCredentials && (o.ClientID == "" || o.ClientSecretFile == ""):
		fault("", "%s needs client_id and client_secret_file", grantCredentials)
	}
	if o.ClientSecretFile != "" {
		if _, err := source.Secret(o.ClientSecretFile); err != nil {
			fault(".client_secret_file", "%v", err)
		}
	}
	if u, err := url.Parse(o.RedirectURL); o.RedirectURL != "" && (err != nil || u.Scheme != "https" && !egress.IsHere(u.Hostname())) {
		fault(".redirect_url", "%.80q is no address that a browser can be sent to with a code: want https, or one on loopback", o.RedirectURL)
	}
}

// SecretFiles returns the files with secrets that the servers have.
func (c Config) SecretFiles() (files []string) {
	for i := range c {
		files = slices.AppendSeq(files, maps.Values(c[i].Secrets))
		files = append(files, c[i].TokenFile, c[i].OAuth.ClientSecretFile)
	}
	slices.Sort(files)
	return slices.DeleteFunc(files, func(file string) bool { return file == "" })
}

// hostPort returns host:port, with port 0 for any.
func hostPort(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), "0"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.ContainsAny(host, "/@* ") {
		return "", fmt.Errorf("%.60q is no host: want one such as api.example.com or api.example.com:443", text)
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

// Names returns the names of the servers.
func (c Config) Names() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return names
}

// Only returns the servers of these names.
func (c Config) Only(names ...string) Config {
	return slices.DeleteFunc(slices.Clone(c), func(s Server) bool { return !slices.Contains(names, s.Name) })
}
