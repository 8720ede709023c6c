// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package web is the family of tools that reach the web: pages as text for models, requests
// to APIs, and searches. All go out by [egress.Web], and what comes back is marked as the
// words of others.
package web

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/toolserver/toolserver/internal/egress"
	"github.com/toolserver/toolserver/internal/pdf"
	"github.com/toolserver/toolserver/internal/size"
	"github.com/toolserver/toolserver/internal/tools"
)

// category is the family's name in specs.
const category = "web"

// Config is the section "web" of the configuration.
type Config struct {
	// Addresses are reached beside public ones, such as 10.1.0.0/16 or 127.0.0.1:8080.
	Addresses []string `yaml:"addresses"`

	// Proxy is a proxy, as host:port, through which hosts are reached. DNS is a server,
	// as host:port, that names are looked up at.
	Proxy string `yaml:"proxy"`
	DNS   string `yaml:"dns"`

	// CA is a file with certificates of authorities, in place of those of the machine.
	CA string `yaml:"ca"`

	UserAgent    string        `yaml:"user_agent"`
	Timeout      time.Duration `yaml:"timeout"`
	MaxResponse  size.Bytes    `yaml:"max_response"`
	MaxRedirects int           `yaml:"max_redirects"`
	PerHost      int           `yaml:"per_host"`
	Robots       bool          `yaml:"robots"`

	// Cache is how much of fetched pages a session keeps.
	Cache size.Bytes `yaml:"cache"`

	// Search are the engines of web_search; the first is the one that is asked unless a
	// call names another.
	Search []Engine `yaml:"search"`
}

// WithDefaults returns the section with what it does not say.
func (c Config) WithDefaults() Config {
	c.MaxResponse = cmp.Or(c.MaxResponse, 10<<20)
	c.Cache = cmp.Or(c.Cache, 16<<20)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.MaxRedirects = cmp.Or(c.MaxRedirects, 10)
	c.PerHost = cmp.Or(c.PerHost, 4)
	return c
}

// Check tells what is wrong with the section.
func (c *Config) Check(fault func(key, format string, args ...any)) {
	for i, text := range c.Addresses {
		if _, err := egress.ParseOpened(text); err != nil {
			fault(fmt.Sprintf("web.addresses[%d]", i), "%v", err)
		}
	}
	for key, address := range map[string]string{"web.proxy": c.Proxy, "web.dns": c.DNS} {
		if host, port, err := net.SplitHostPort(address); address != "" && (err != nil || host == "" || port == "") {
			fault(key, "%q is no host:port", address)
		}
	}
	if _, err := c.roots(); err != nil {
		fault("web.ca", "%v", err)
	}
	between := func(key string, n, least, most int64) {
		if n < least || n > most {
			fault("web."+key, "%d is out of bounds: want %d to %d", n, least, most)
		}
	}
	if c.Timeout < time.Second || c.Timeout > 10*time.Minute {
		fault("web.timeout", "%s is out of bounds: want 1s to 10m", c.Timeout)
	}
	between("max_response", int64(c.MaxResponse), 1<<10, 256<<20)
	between("max_redirects", int64(c.MaxRedirects), 1, 50)
	between("per_host", int64(c.PerHost), 1, 1000)
	between("cache", int64(c.Cache), 0, 1<<30)
	names := make(map[string]bool)
	for i := range c.Search {
		e := &c.Search[i]
		key := fmt.Sprintf("web.search[%d]", i)
		if _, err := e.compile(); err != nil {
			fault(key, "%v", err)
		}
		if name := e.name(); names[name] {
			fault(key+".name", "there is an engine named %s already", name)
		} else {
			names[name] = true
		}
	}
}

func (c *Config) roots() (*x509.CertPool, error) {
	if c.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", c.CA)
	}
	return roots, nil
}

// Files returns the files that the section names and that calls must not read.
func (c *Config) Files() (names []string) {
	for i := range c.Search {
		if c.Search[i].KeyFile != "" {
			names = append(names, c.Search[i].KeyFile)
		}
	}
	return names
}

// Documents reads PDF documents; see package pdf.
type Documents interface {
	Read(ctx context.Context, file *os.File, request pdf.Request, yield func(pdf.Page) bool) (pages int, err error)
}

// A Family is the tools, and what they share.
type Family struct {
	web       *egress.Web
	documents Documents // nil: there is nobody to read them
	decoding  chan struct{}
	caches    *caches
	searching tools.Tool
}

const maxDecoding = 2 // pictures and PDF documents that are decoded at once

// New returns the family. Without documents PDF cannot be read. The configuration was
// checked.
func New(c Config, documents Documents) (*Family, error) {
	c = c.WithDefaults()
	roots, err := c.roots()
	if err != nil {
		return nil, fmt.Errorf("web.ca: %w", err)
	}
	config := egress.WebConfig{
		Upstream: c.Proxy, LookUp: egress.LookUpAt(c.DNS), Roots: roots, UserAgent: c.UserAgent, Timeout: c.Timeout,
		MaxBody: int64(c.MaxResponse), MaxRedirects: c.MaxRedirects, PerHost: c.PerHost, Robots: c.Robots,
	}
	for _, text := range c.Addresses {
		opened, err := egress.ParseOpened(text)
		if err != nil {
			return nil, fmt.Errorf("web.addresses: %w", err)
		}
		config.Addresses = append(config.Addresses, opened)
	}
	f := &Family{web: egress.NewWeb(config), documents: documents, decoding: make(chan struct{}, maxDecoding), caches: newCaches(int64(c.Cache))}
	if f.searching, err = f.search(c.Search); err != nil {
		return nil, err
	}
	return f, nil
}

// Tools returns the tools.
func (f *Family) Tools() []tools.Tool { return []tools.Tool{f.fetch(), f.request(), f.searching} }

// reached is what a call told that it reaches, as host:port.
type reached map[string]bool

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// judge lets a call reach what it told, which was judged, and what a rule allows. What is
// not public is reached only where a rule or the operator lists it, whoever approved the
// call.
func (r reached) judge(env tools.Env) egress.Judge {
	return egress.Judge{
		Host: func(_ context.Context, host string, port int) error {
			switch {
			case r[hostPort(host, port)]:
				return nil
			case env.Restrictions == nil:
				return errNoHosts
			}
			return env.Restrictions.Reaches(host, port)
		},
		Address: func(_ context.Context, addr netip.Addr, port int) (listed bool, err error) {
			if env.Restrictions == nil {
				return false, nil
			}
			return env.Restrictions.ReachesAddress(addr, port)
		},
	}
}

var errNoHosts = tools.Failf("denied", "this host may not be reached")

// checkURL finds what is wrong with an address.
func checkURL(pointer, text string) []tools.Problem {
	if _, _, _, err := egress.ParseURL(text); err != nil {
		return []tools.Problem{{Pointer: pointer, Message: err.Error()}}
	}
	return nil
}

// Reaches returns the effects of fetching pages. Of one by http it is the same host by https
// as well, where most redirect to.
func Reaches(addresses ...string) (effects []tools.Effect) {
	seen := make(reached)
	add := func(host string, port int) {
		if !seen[hostPort(host, port)] {
			seen[hostPort(host, port)] = true
			effects = append(effects, tools.Effect{Kind: tools.ReachesHost, Host: host, Port: port})
		}
	}
	for _, text := range addresses {
		u, host, port, err := egress.ParseURL(text)
		if err != nil {
			continue // which the check refused
		}
		add(host, port)
		if u.Scheme == "http" && port == 80 {
			add(host, 443)
		}
	}
	return effects
}

// foresee returns how a call fails of which every address leads to the server's own machine;
// nil where that is not known. A person is not asked about such a call.
func (f *Family) foresee(addresses ...string) (err error) {
	for _, text := range addresses {
		u, _, _, wrong := egress.ParseURL(text)
		if wrong != nil {
			return nil // which the check refused
		}
		why := f.web.Foresee(u)
		if why == nil {
			return nil
		}
		if err == nil {
			err = failure(why)
		}
	}
	return err
}

// reachedBy returns what effects reach.
func reachedBy(effects []tools.Effect) reached {
	r := make(reached)
	for _, e := range effects {
		r[hostPort(e.Host, e.Port)] = true
	}
	return r
}

// failure is what a model is told of a request that came to no answer.
func failure(err error) error {
	if egress.Prohibited(err) {
		return tools.Failf("not_reachable", "%v", err)
	}
	return &tools.Failure{Code: "unreachable", Message: err.Error(), Retryable: true}
}
