// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package approval keeps the questions that wait for a person: whether a call may
// run, and what a tool wants to know. It keeps the lasting answers too, the
// grants, for as long as the session lives that they were given in.
//
// A [Question] and an [Answer] are data: they name the session and the execution they
// are about, and hold neither. The [Asker] that a store was given finds the execution.
//
// Locks: the mutex of the store comes first; whoever holds it may take those of the
// session store, of a session (Session.changing first), or of the grants, and no other. Grants
// are read with the last alone. The store calls its asker without a lock.
//
// Grants that are stored are stored before they count, with the mutex of the store held:
// those who ask and answer wait for it, and nobody who only reads grants.
//
// Goroutines: a session whose revoked grants could not be stored has one, which tries again until
// they are stored or the store is closed; Close waits for it. Each pending question has a timer for
// its expiry, which the store stops when the question ends.
package approval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

var (
	// ErrNotFound says that there is no such question or grant that this viewer
	// may see. It does not show whether somebody else has one.
	ErrNotFound = errors.New("not found")
	// ErrAnswered says that somebody answered before.
	ErrAnswered = errors.New("already answered")
	// ErrExpired says that the time to answer is over.
	ErrExpired = errors.New("too late to answer")
	// ErrWithdrawn says that the call ended before anybody answered.
	ErrWithdrawn = errors.New("no longer asked")
	// ErrSelf says that a principal tried to approve a call of its own.
	ErrSelf = errors.New("a principal cannot approve its own calls on this server")
	// ErrInvalid is wrapped by errors about the answer.
	ErrInvalid = errors.New("invalid answer")
	// ErrFull says that too much waits already, or is granted already.
	ErrFull = errors.New("too many")
	// ErrClosed says that the server is shutting down.
	ErrClosed = errors.New("server is shutting down")
)

// Config sets the rules and limits of a store. Zero fields take the defaults
// named.
type Config struct {
	// Sessions resolves the sessions that questions name. Required.
	Sessions *session.Store

	// Records, if set, keep the grants of sessions that go on after a restart.
	Records state.KV

	// SelfApproval lets a principal approve its own calls, whatever
	// [Store.SetSelfApproval] says later. Where everybody is the same principal,
	// because authentication is off, nobody else could.
	SelfApproval bool

	Expiry        time.Duration // how long a question waits; 2 minutes
	MaxPending    int           // questions that wait; 10,000
	MaxPerSession int           // of one session; 100
	MaxBytes      int           // of all questions that wait; 64 MiB
	MaxGrants     int           // of one session; 1000
}

func (c Config) withDefaults() Config {
	c.Expiry = cmp.Or(c.Expiry, 2*time.Minute)
	c.MaxPending = cmp.Or(c.MaxPending, 10_000)
	c.MaxPerSession = cmp.Or(c.MaxPerSession, 100)
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.MaxGrants = cmp.Or(c.MaxGrants, 1000)
	return c
}

// A Question waits for a person. It is about one call and no other, and is answered
// once. It is data, and never changes once it was asked.
type Question struct {
	// ID cannot be guessed. The store gives it, and the times, to a question that was
	// never asked before. Expires may be set without them.
	ID               string
	Created, Expires time.Time

	// Session is where the call was made, by the owner of the session. OnBehalfOf is
	// whom the owner acts for, if not for itself: that principal sees the question
	// too, and cannot approve the call either.
	Session     session.Ref
	OnBehalfOf  string
	Chain       []session.Link // who asked whom, the outermost first; nil for a call of a caller
	ExecutionID string
	CallID      string
	Tool        string
	Purpose     string
	ChangedBy   []string // the hooks that changed the input
	CalledAs    string   // the name by which the tool was called, where that is another system's

	// Digest stands for exactly this call.
	Digest [32]byte

	// Verdict is why a person is asked, by this version of the policy. Effects are
	// what the call would touch; MoreEffects is how many are not among them, for there
	// are too many to show. Access is what its programs could touch; nil where it runs
	// none.
	Verdict     policy.Verdict
	Policy      string
	Effects     []policy.Judged
	MoreEffects int
	Access      *tools.Access

	// Preview shows what the call would do. HiddenBytes of its end are left out,
	// for it is too long to show.
	Preview     tools.Preview
	HiddenBytes int

	// Tiers are what "always" may mean. Without any, every call is asked about.
	Tiers []policy.Tier

	// Questions are what a tool wants to know. With them, the question is not
	// whether the call may run.
	Questions []tools.Question
}

// An Asker has the executions that questions are about. The store calls its methods
// without a lock, on the goroutine of whoever answers, and many of them at once.
type Asker interface {
	// Resolved is called with the end of each question, once, before anything comes
	// of it.
	Resolved(q *Question, a Answer)

	// Answered is called after it, unless the asker withdrew the question itself. It
	// may be called before the [Store.Ask] of the question has returned.
	Answered(q *Question, a Answer)

	// Rejudge judges the call of a question that waits again, by the policy, the
	// grants and the mode of now. It changes nothing.
	Rejudge(q *Question) policy.Verdict
}

// Weight is about how many bytes of memory the question holds.
func (q *Question) Weight() int {
	n := 512 + len(q.CallID) + len(q.Tool) + len(q.Purpose) + len(q.Preview.Text)
	n += len(q.Verdict.Rule) + len(q.Verdict.Reason) + maxLink*len(q.Chain)
	for _, judged := range q.Effects {
		n += JudgedWeight(judged)
	}
	for _, tier := range q.Tiers {
		n += 48 + len(tier.Pattern) + len(tier.Label)
	}
	for _, question := range q.Questions {
		n += 72 + len(question.Header) + len(question.Text)
		for _, option := range question.Options {
			n += 32 + len(option.Label) + len(option.Description)
		}
	}
	return n
}

// JudgedWeight is about how many bytes of memory an effect holds.
func JudgedWeight(judged policy.Judged) int {
	effect := judged.Effect
	n := 256 + len(effect.Path) + len(effect.Named) + len(effect.Program) + len(effect.Host) +
		len(effect.Tool) + len(effect.Unclear) + len(judged.Verdict.Rule) + len(judged.Verdict.Reason)
	for _, word := range effect.Argv {
		n += 16 + len(word)
	}
	return n
}

// AnswerKind is what an answer says.
type AnswerKind int

const (
	AllowOnce   AnswerKind = 1 + iota // this call may run
	AllowAlways                       // and what the tier covers, while the session lives
	DenyOnce                          // this call must not run; or a person declined to answer
	DenyAlways                        // nor what the tier covers, while the session lives
	Answered                          // what a tool wanted to know
	Expired                           // nobody answered in time
	Withdrawn                         // the call ended before anybody answered
)

var answerNames = [...]string{
	"unanswered", "allow_once", "allow_always", "deny_once", "deny_always", "answered", "expired", "withdrawn",
}

func (k AnswerKind) String() string { return answerNames[k] }

// An Answer is how a question ended.
type Answer struct {
	Kind AnswerKind

	// Tier tells what is always allowed or denied: the place of a tier in
	// Question.Tiers, from 1.
	Tier int

	// Comment is for the model.
	Comment string

	// Answers are those to Question.Questions, one each.
	Answers []tools.Answer

	// Digest is that of the call. An approver may leave it out, or send what was
	// shown to it.
	Digest [32]byte

	// By is who answered; empty where nobody did. From tells from where.
	By, From string
	At       time.Time

	// Grant is what an answer for always gave, or what answered by itself because
	// it covers the call; nil where there is none.
	Grant *policy.Grant
}

// Allows reports whether the call may run.
func (a Answer) Allows() bool { return a.Kind == AllowOnce || a.Kind == AllowAlways }

// always reports whether the answer is for more than one call.
func (a Answer) always() bool { return a.Kind == AllowAlways || a.Kind == DenyAlways }

// same reports whether b says what a said.
func (a Answer) same(b Answer) bool {
	return a.By == b.By && a.Kind == b.Kind && a.Tier == b.Tier && a.Comment == b.Comment &&
		slices.EqualFunc(a.Answers, b.Answers, func(x, y tools.Answer) bool {
			return x.Text == y.Text && slices.Equal(x.Chosen, y.Chosen)
		})
}

// Weight is about how many bytes of memory the answer holds.
func (a Answer) Weight() int {
	n := 256 + len(a.Comment) + len(a.From)
	for _, answer := range a.Answers {
		n += 48 + len(answer.Text)
		for _, label := range answer.Chosen {
			n += 16 + len(label)
		}
	}
	return n
}

// A Viewer is a principal that reads questions and grants, or answers questions.
type Viewer struct {
	// Owner is the principal, which sees questions about its own calls.
	Owner auth.Owner

	// Approver says that the principal sees questions about the calls of others of its
	// tenant too, and may approve these calls; AllTenants, that this is so in every
	// tenant.
	Approver, AllTenants bool
}

// sees reports whether v may see what belongs to any of these principals.
func (v Viewer) sees(owners ...auth.Owner) bool {
	return slices.Contains(owners, v.Owner) || v.Approver && (v.AllTenants || owners[0].Tenant() == v.Owner.Tenant())
}

// IsWithin reports whether the call was made in that session, or by an agent that works below
// it: who answers for a session answers for its agents.
func (q *Question) IsWithin(sessionID string) bool {
	return q.Session.ID == sessionID || slices.ContainsFunc(q.Chain, func(l session.Link) bool { return l.ParentID == sessionID })
}

// owners are the principals whose call the question is about, all of one tenant.
func (q *Question) owners() []auth.Owner {
	if q.OnBehalfOf == "" {
		return []auth.Owner{q.Session.Owner}
	}
	return []auth.Owner{q.Session.Owner, auth.NewOwner(q.Session.Owner.Tenant(), q.OnBehalfOf)}
}

// mayApprove reports whether v decides about calls of owners. A viewer that may not
// see the calls gets [ErrNotFound].
func (s *Store) mayApprove(v Viewer, owners ...auth.Owner) error {
	switch {
	case !v.sees(owners...):
		return ErrNotFound
	case slices.Contains(owners, v.Owner) && !s.SelfApproval():
		return ErrSelf
	}
	return nil
}

// maxLink is about how many bytes of memory one link of a chain holds.
const maxLink = 256

// Limits of an answer, in bytes.
const (
	maxComment = 4 << 10
	maxText    = 64 << 10
	maxFrom    = 256
)

// check finds what is wrong with an answer to q.
func (a Answer) check(q *Question) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case a.Digest != [32]byte{} && a.Digest != q.Digest:
		return invalid("the digest is that of another call: read the approval again")
	case len(a.Comment) > maxComment || !utf8.ValidString(a.Comment):
		return invalid("the comment has %d bytes: want at most %d of valid UTF-8", len(a.Comment), maxComment)
	case len(a.From) > maxFrom || !utf8.ValidString(a.From):
		return invalid("from has %d bytes: want at most %d of valid UTF-8", len(a.From), maxFrom)
	}
	if len(q.Questions) > 0 {
		switch a.Kind {
		case DenyOnce:
			return nil
		case Answered:
			return a.checkAnswers(q.Questions, invalid)
		}
		return invalid("a tool wants to know something: answer it, or decline")
	}
	switch {
	case a.Kind < AllowOnce || a.Kind > DenyAlways:
		return invalid("the question is whether a call may run: allow or deny it")
	case len(a.Answers) > 0:
		return invalid("the question is whether a call may run: there is nothing to answer beside")
	case !a.always() && a.Tier != 0:
		return invalid("a tier is for always: this answer is for one call")
	case a.always() && len(q.Tiers) == 0:
		return invalid("no tier is offered: this can be answered for one call only")
	case a.always() && (a.Tier < 1 || a.Tier > len(q.Tiers)):
		return invalid("tier %d was not offered: want 1 to %d", a.Tier, len(q.Tiers))
	}
	return nil
}

func (a Answer) checkAnswers(questions []tools.Question, invalid func(string, ...any) error) error {
	if a.Tier != 0 || len(a.Answers) != len(questions) {
		return invalid("%d answers to %d questions: want one each, and no tier", len(a.Answers), len(questions))
	}
	left := maxText
	for i, answer := range a.Answers {
		question := questions[i]
		left -= len(answer.Text)
		switch {
		case left < 0:
			return invalid("the answers have more than %d bytes", maxText)
		case !utf8.ValidString(answer.Text):
			return invalid("answer %d is not valid UTF-8", i+1)
		case answer.Text != "" && question.OptionsOnly:
			return invalid("question %d takes one of its options and no text", i+1)
		case len(answer.Chosen) > 1 && !question.Multiple:
			return invalid("question %d takes one option: %d were chosen", i+1, len(answer.Chosen))
		case answer.Text == "" && len(answer.Chosen) == 0 && !question.Multiple:
			return invalid("question %d is not answered", i+1)
		}
		for j, label := range answer.Chosen {
			offered := slices.ContainsFunc(question.Options, func(o tools.Option) bool { return o.Label == label })
			if !offered || slices.Contains(answer.Chosen[:j], label) {
				return invalid("question %d: %.64q is not among its options, or was chosen twice", i+1, label)
			}
		}
	}
	return nil
}
