// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/tools"
)

// A Subject is a call as it is judged: who asks for what.
type Subject struct {
	// Principal of Tenant made the call, in a session with these labels, level and
	// mode. Tenant is empty for the default tenant. OnBehalfOf is whom the principal acts
	// for, if not for itself.
	Principal  string
	Tenant     string
	OnBehalfOf string

	SessionID string
	Labels    map[string]string
	Level     tools.Level
	Mode      tools.Mode

	// Workspace and Home are what paths are seen from, absolute and clean, with
	// links resolved. Home is that of the session, which nobody else uses; it is
	// nil or returns "" where it is not known or not made yet. To rules that deny
	// or ask, ~ is any user's home too. Where the workspace is not known, patterns
	// that begin with / do not reach into it.
	Workspace string
	Home      func() string

	// Temp returns the session's own temporary directory, absolute and clean; it is
	// nil or returns "" where it is not known or not made yet.
	Temp func() string

	// Spec is the tool, Input what it was given in its canonical form, Effects what it
	// would touch, with resolved paths. Input is not needed where no rule is
	// [Policy.Conditional].
	Spec    *tools.Spec
	Input   json.RawMessage
	Effects []tools.Effect

	// Uploads says that the caller sends the files that are written, not a model: the
	// data of a repository may come with them, but nothing that git runs.
	Uploads bool

	// MakesConfig says of an upload that what is written is the configuration of a
	// repository as the server makes it, with keys that run nothing.
	MakesConfig bool

	// Monitored returns what the server looks after of the workspace, as [Monitored] has it; nil
	// where it looks after nothing. It is asked about tools that write themselves: what
	// commands do to it is taken back. The protection is the policy's.
	Monitored func(tools.Protection) Monitored

	// JudgedIndex says of an upload that what is written is the index of a repository,
	// which was read and leads nowhere.
	JudgedIndex bool

	// Network is how far the commands of the session may reach, Offer what the
	// sandbox can give and keep.
	Network tools.Network
	Offer   *tools.Offer

	// DeniedThere reports whether the workspace has a file that is denied to read,
	// for a sandbox that cannot keep it from commands. Where it is nil, there is one.
	DeniedThere func(tools.Denial) bool

	// Digest stands for tool and canonical input, so that a grant may be for
	// this exact call.
	Digest [32]byte

	// Above is the session that this one is below, if it is: the call must be one that
	// could run there too. Of it count SessionID, Labels, Level, Mode, Network, Workspace,
	// Monitored and Above.
	Above *Subject
}

// Monitored returns what at a path of the workspace or around it, or with below also below
// it, git would run or be led by, as the configuration of a repository has it; "" where
// that is nothing.
type Monitored func(path string, below bool) string

func (c *Subject) place() place {
	p := place{workspace: c.Workspace}
	if c.Home != nil {
		p.home = c.Home()
	}
	return p
}

// temporary reports whether an absolute path is in a temporary directory of the
// session.
func (c *Subject) temporary(at string) bool {
	if c.Temp != nil {
		if dir := c.Temp(); dir != "" && below(dir, at) {
			return true
		}
	}
	holds := func(dir string) bool { return below(dir, at) }
	return c.Offer != nil && (slices.ContainsFunc(c.Offer.Temporary, holds) || slices.ContainsFunc(c.Offer.Shared, holds))
}

// A Decision is the verdict on a call and how it came about.
type Decision struct {
	Verdict

	// Policy is the version of the policy that decided.
	Policy string

	// Rights are what the call may touch if it runs: what was allowed, and what is
	// asked about, which whoever lets it run grants.
	Rights tools.Rights

	// Effects are those of the call, each with its own verdict, and at the end
	// one that stands for the call itself: it uses its tool. The most severe
	// verdict is the decision.
	Effects []Judged
}

// RunsPrograms reports whether the call runs programs, so that its rights mean
// something to people.
func (d *Decision) RunsPrograms() bool {
	for i := range d.Effects {
		if d.Effects[i].Effect.Kind == tools.RunsProgram {
			return true
		}
	}
	return false
}

// Judged is an effect and what was decided about it.
type Judged struct {
	Effect  tools.Effect
	Verdict Verdict
}

// A Tier is how far trust may go: what "always" could mean for a call.
type Tier struct {
	// Kind and Pattern tell what the tier covers: see the kinds.
	Kind    TierKind
	Pattern string

	// Effect is what may be done with a file or directory: ReadsPath, or
	// WritesPath, which includes reading. It is 0 for other kinds.
	Effect tools.EffectKind

	// Label says it to a person, such as `git pull *`.
	Label string
}

// TierKind is what a tier is measured by. A greater kind covers more.
type TierKind int

const (
	TierCall      TierKind = 1 + iota // this exact call; Pattern is its digest in hex
	TierFile                          // this file; Pattern is its path
	TierDirectory                     // everything below a directory; Pattern is its path
	TierCommand                       // commands that begin with these words; Pattern is them, quoted
	TierProgram                       // every command of a program; Pattern is its name
	TierTool                          // every call of the tool
)

// A Grant is a lasting answer: what a person allowed or forbade for the rest of
// a session.
type Grant struct {
	ID     string
	Action Action // Allow or Deny
	Tool   string // the tool it was given for
	Tier   Tier
	By     string // the principal that gave it
	Given  time.Time
}
