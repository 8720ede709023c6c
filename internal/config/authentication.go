// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/tools"
)

// Authentication is how callers prove who they are.
type Authentication struct {
	Tokens       []Token      `yaml:"tokens"`
	TokenFile    string       `yaml:"token_file"`
	Certificates Certificates `yaml:"certificates"`
	OIDC         []OIDC       `yaml:"oidc"`
	Kubernetes   Kubernetes   `yaml:"kubernetes"`
	Roles        []auth.Roles `yaml:"roles"`
	Principals   []Principal  `yaml:"principals"`
}

// Off says that everybody who reaches the server is taken for its operator.
func (c Authentication) Off() bool {
	return len(c.Tokens) == 0 && c.TokenFile == "" && c.Certificates.CA == "" && len(c.OIDC) == 0 && !c.Kubernetes.TokenReview
}

type Token struct {
	Principal string       `yaml:"principal"`
	Operator  bool         `yaml:"operator"`
	Approver  bool         `yaml:"approver"`
	Roles     []auth.Roles `yaml:"roles"`
	Tenant    string       `yaml:"tenant"`
	MaxMode   optionalMode `yaml:"max_mode"`
	ActsFor   []string     `yaml:"on_behalf_of"`
	TokenFile string       `yaml:"token_file"`
	TokenEnv  string       `yaml:"token_env"`
	Token     string       `yaml:"token"`
}

// Certificates says who vouches for callers.
type Certificates struct {
	CA       string `yaml:"ca"`
	Required bool   `yaml:"required"`
}

// OIDC is an issuer of JSON Web Tokens.
type OIDC struct {
	Issuer      string        `yaml:"issuer"`
	Audiences   []string      `yaml:"audiences"`
	CA          string        `yaml:"ca"`
	Algorithms  []string      `yaml:"algorithms"`
	ClockSkew   time.Duration `yaml:"clock_skew"`
	NameClaim   string        `yaml:"name_claim"`
	Prefix      string        `yaml:"prefix"`
	GroupsClaim string        `yaml:"groups_claim"`
	TenantClaim string        `yaml:"tenant_claim"`
	UserClaim   string        `yaml:"on_behalf_of_claim"`
	SignIn      string        `yaml:"sign_in"`
	ClientID    string        `yaml:"client_id"`
	SecretFile  string        `yaml:"client_secret_file"`
	Scopes      []string      `yaml:"scopes"`
}

// Kubernetes is a cluster whose service accounts may call.
type Kubernetes struct {
	TokenReview bool     `yaml:"token_review"`
	APIServer   string   `yaml:"api_server"`
	TokenFile   string   `yaml:"token_file"`
	CA          string   `yaml:"ca"`
	Audiences   []string `yaml:"audiences"`
}

// Principal says what callers may do who are proven by others than our own tokens.
type Principal struct {
	Name    string       `yaml:"name"`
	Group   string       `yaml:"group"`
	Roles   []auth.Roles `yaml:"roles"`
	Tenant  string       `yaml:"tenant"`
	MaxMode optionalMode `yaml:"max_mode"`
	ActsFor []string     `yaml:"on_behalf_of"`
}

// An optionalMode is a mode, or none.
type optionalMode tools.Mode

// UnmarshalText reads the name of a mode; no text is none.
func (m *optionalMode) UnmarshalText(text []byte) error {
	if *m = 0; len(text) == 0 {
		return nil
	}
	return (*tools.Mode)(m).UnmarshalText(text)
}

func (m optionalMode) String() string {
	if m == 0 {
		return ""
	}
	return tools.Mode(m).String()
}

// Access is what lets callers in.
type Access struct {
	Authenticator auth.Authenticator
	TLS           *auth.TLS    // nil where connections are not encrypted
	Tokens        *auth.Tokens // nil where there are none
	Issuers       []*auth.Issuer
}

// Access opens what lets callers in.
func (c *Config) Access() (*Access, error) {
	var faults []error
	access := c.access(func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf(key+": "+format, args...))
	})
	return access, errors.Join(faults...)
}

// access is Access, and notes all that is wrong.
func (c *Config) access(fault FaultFunc) *Access {
	a := &Access{TLS: c.openTLS(fault)}
	if c.Authentication.Off() {
		a.Authenticator = auth.None{}
		return a
	}
	chain := new(auth.Chain)
	a.Authenticator = chain
	a.Tokens = c.Authentication.openTokens(fault)
	chain.Tokens = a.Tokens
	rules := c.Authentication.rules(fault)
	if c.Authentication.Certificates.CA != "" && a.TLS != nil {
		chain.Certificates = auth.NewCertificates(a.TLS, rules)
	}
	a.Issuers = c.Authentication.openIssuers(fault, rules)
	chain.Issuers = a.Issuers
	if k := c.Authentication.Kubernetes; k.TokenReview {
		cluster, err := auth.NewKubernetes(auth.KubernetesConfig{
			APIServer: k.APIServer, TokenFile: k.TokenFile, CAFile: k.CA, Audiences: k.Audiences, Bindings: rules,
		})
		if err != nil {
			fault("authentication.kubernetes", "%v", err)
		}
		chain.Kubernetes = cluster
	}
	return a
}

// openTLS opens the certificate to serve with; nil when there is none.
func (c *Config) openTLS(fault FaultFunc) *auth.TLS {
	certificates := c.Authentication.Certificates
	if certificates.Required && certificates.CA == "" {
		fault("authentication.certificates.required", "nobody vouches for certificates: set authentication.certificates.ca")
	}
	switch {
	case c.TLS.Off() && certificates.CA != "":
		fault("authentication.certificates.ca", "callers can show certificates only where connections are encrypted: set tls.certificate and tls.key")
		return nil
	case c.TLS.Off():
		return nil
	case c.TLS.Certificate == "" || c.TLS.Key == "":
		fault("tls", "certificate and key belong together: set both, or neither")
		return nil
	}
	opened, err := auth.OpenTLS(auth.TLSFiles{
		Certificate: c.TLS.Certificate, Key: c.TLS.Key, ClientCA: certificates.CA, RequireClient: certificates.Required,
	})
	if err != nil {
		fault("tls", "%v", err)
		return nil
	}
	return opened
}

// openTokens reads all tokens; nil where there are none.
func (c *Authentication) openTokens(fault FaultFunc) *auth.Tokens {
	if len(c.Tokens) == 0 && c.TokenFile == "" {
		return nil
	}
	var list []auth.Token
	all := true
	for i, token := range c.Tokens {
		key := fmt.Sprintf("authentication.tokens[%d]", i)
		secret, wrong := token.secret()
		if wrong == nil {
			wrong = auth.CheckSecret(token.Principal, secret)
		}
		if wrong != nil {
			fault(key, "%v", wrong)
			all = false
		}
		principal := auth.Principal{Name: token.Principal, Roles: token.roles(), MaxMode: tools.Mode(token.MaxMode)}
		if err := principal.SetTenant(token.Tenant); err != nil {
			fault(key+".tenant", "%v", err)
		}
		var err error
		if principal.ActsFor, err = auth.NewActsFor(token.ActsFor); err != nil {
			fault(key+".on_behalf_of", "%v", err)
		}
		if wrong == nil {
			list = append(list, auth.Token{Secret: secret, Principal: principal})
		}
	}
	tokens, err := auth.NewTokens(list)
	if err != nil {
		fault("authentication.tokens", "%v", err)
		return nil
	}
	if c.TokenFile != "" {
		if err := c.LoadTokens(tokens); err != nil {
			fault("authentication.token_file", "%v", err)
		}
	}
	if !all {
		return nil
	}
	return tokens
}

// LoadTokens puts the tokens of the file as it is now in force.
func (c *Authentication) LoadTokens(tokens *auth.Tokens) error {
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return err
	}
	list, err := auth.ParseTokens(c.TokenFile, text)
	if err != nil {
		return err
	}
	return tokens.Replace(list)
}

// roles returns the roles of a token: every one is of an agent unless it lists others.
func (c Token) roles() auth.Roles {
	roles := union(c.Roles)
	if roles == 0 {
		roles = auth.Agent
	}
	if c.Operator {
		roles |= auth.Operator
	}
	if c.Approver {
		roles |= auth.Approver
	}
	return roles
}

func union(list []auth.Roles) (roles auth.Roles) {
	for _, role := range list {
		roles |= role
	}
	return roles
}

// secret returns the token, from wherever it is kept.
func (c Token) secret() (string, error) {
	set := slices.DeleteFunc([]string{c.TokenFile, c.TokenEnv, c.Token}, func(s string) bool { return s == "" })
	switch {
	case len(set) != 1:
		return "", errors.New("want one of token_file, token_env and token")
	case c.TokenFile != "":
		text, err := os.ReadFile(c.TokenFile)
		return strings.TrimSpace(string(text)), err
	case c.TokenEnv != "":
		text, ok := os.LookupEnv(c.TokenEnv)
		if !ok {
			return "", fmt.Errorf("token_env: the environment has no %s", c.TokenEnv)
		}
		return strings.TrimSpace(text), nil
	}
	return c.Token, nil
}

// rules returns what callers may do who are proven by others.
func (c *Authentication) rules(fault FaultFunc) *auth.Bindings {
	var list []auth.Binding
	for i, p := range c.Principals {
		key := fmt.Sprintf("authentication.principals[%d]", i)
		if p.Name == "" && p.Group == "" {
			fault(key, "it is about nobody: set name, group or both")
		}
		if len(p.Roles) == 0 && p.Tenant == "" && p.MaxMode == 0 && len(p.ActsFor) == 0 {
			fault(key, "it says nothing: set roles, tenant, max_mode or on_behalf_of")
		}
		actsFor, err := auth.NewActsFor(p.ActsFor)
		if err != nil {
			fault(key+".on_behalf_of", "%v", err)
		}
		if err := auth.CheckTenantOrAll(p.Tenant); err != nil {
			fault(key+".tenant", "%v", err)
		}
		if p.Tenant == auth.AllTenants && len(p.Roles) == 0 {
			fault(key+".tenant", "%q is about the roles of the same entry, and it has none: set roles", auth.AllTenants)
		}
		list = append(list, auth.Binding{Name: p.Name, Group: p.Group, Roles: union(p.Roles), Tenant: p.Tenant, MaxMode: tools.Mode(p.MaxMode), ActsFor: actsFor})
	}
	rules, err := auth.NewBindings(list, union(c.Roles))
	if err != nil {
		fault("authentication.principals", "%v", err)
		rules, _ = auth.NewBindings(nil, 0)
	}
	return rules
}

// noPrefix asks for names without a prefix, as it does of kube-apiserver.
const noPrefix = "-"

// defaultPrefix begins the names of callers whom an issuer names: it cannot name one of
// those that have tokens here.
const defaultPrefix = "oidc:"

// prefix begins the names of the callers of the issuer.
func (o *OIDC) prefix() string {
	if o.Prefix == noPrefix {
		return ""
	}
	return cmp.Or(o.Prefix, defaultPrefix)
}

func (c *Authentication) openIssuers(fault FaultFunc, rules *auth.Bindings) []*auth.Issuer {
	var list []*auth.Issuer
	for i, o := range c.OIDC {
		key := fmt.Sprintf("authentication.oidc[%d]", i)
		if slices.ContainsFunc(c.OIDC[:i], func(other OIDC) bool { return other.Issuer == o.Issuer }) {
			fault(key+".issuer", "there is an entry for %s already", o.Issuer)
		}
		for _, algorithm := range o.Algorithms {
			if !slices.Contains(auth.Algorithms, algorithm) {
				fault(key+".algorithms", "%q is no algorithm with a public key: want some of %s", algorithm, strings.Join(auth.Algorithms, ", "))
			}
		}
		prefix := o.prefix()
		for _, other := range c.OIDC[:i] {
			if before := other.prefix(); strings.HasPrefix(before, prefix) || strings.HasPrefix(prefix, before) {
				fault(key+".prefix", "names of %s begin with %q already: an issuer could name callers of another", other.Issuer, before)
				break
			}
		}
		if o.ClockSkew < 0 || o.ClockSkew > 10*time.Minute {
			fault(key+".clock_skew", "%s is out of bounds: want 0s to 10m", o.ClockSkew)
		}
		if o.SignIn != "" && slices.ContainsFunc(c.OIDC[:i], func(other OIDC) bool { return other.SignIn == o.SignIn }) {
			fault(key+".sign_in", "there is an entry with the name %s already", o.SignIn)
		}
		signIn := auth.SignInConfig{Name: o.SignIn, ClientID: o.ClientID, Scopes: o.Scopes}
		if o.SecretFile != "" {
			secret, err := os.ReadFile(o.SecretFile)
			if err != nil {
				fault(key+".client_secret_file", "%v", err)
			}
			signIn.ClientSecret = strings.TrimSpace(string(secret))
		}
		issuer, err := auth.NewIssuer(auth.IssuerConfig{
			URL: o.Issuer, Audiences: o.Audiences, CAFile: o.CA, Algorithms: o.Algorithms, ClockSkew: o.ClockSkew,
			NameClaim: o.NameClaim, Prefix: prefix, GroupsClaim: o.GroupsClaim, TenantClaim: o.TenantClaim, OnBehalfOfClaim: o.UserClaim, SignIn: signIn, Bindings: rules,
		})
		if err != nil {
			fault(key, "%v", err)
			continue
		}
		list = append(list, issuer)
	}
	return list
}
