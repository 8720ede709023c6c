// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/toolserver/toolserver/internal/approval"
	"github.com/toolserver/toolserver/internal/hook"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/session"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools"
)

// recordVersion is that of the records. A field that is added needs no new one: servers
// that do not know it pass over it. A server leaves records of a later version alone.
const recordVersion = 1

// A record is what is stored of an execution: what its owner may be shown, and no input.
// A claim is a record of a call that has not ended, without events.
type record struct {
	Version int         `json:"v"`
	Number  uint64      `json:"n"`
	Session session.Ref `json:"session"`
	Stage   recordStage `json:"stage"`
	Reads   bool        `json:"reads,omitempty"` // the call leaves everything as it is

	// Claimed says of a record in the history that its end counts only if the claim says so,
	// and Where in a claim where the end is.
	Claimed bool         `json:"claimed,omitempty"`
	Where   *storedPlace `json:"where,omitempty"`
	Waited  bool         `json:"waited,omitempty"` // of a lost one: for a person, and did nothing

	CallID     string          `json:"call"`
	Digest     []byte          `json:"digest,omitempty"`
	Tool       string          `json:"tool"`
	ToolIs     string          `json:"tool_version,omitempty"`
	CalledAs   string          `json:"called_as,omitempty"`
	OnBehalfOf string          `json:"on_behalf_of,omitempty"`
	Purpose    string          `json:"purpose,omitempty"`
	Verdict    *policy.Verdict `json:"verdict,omitempty"`
	Policy     string          `json:"policy,omitempty"`
	Access     *tools.Access   `json:"access,omitempty"`
	Effects    *Effects        `json:"effects,omitempty"`
	Timeout    time.Duration   `json:"timeout,omitempty"`
	Disconnect OnDisconnect    `json:"on_disconnect,omitempty"`
	Trace      string          `json:"trace,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome Outcome   `json:"outcome,omitempty"`
	LastSeq uint64    `json:"last,omitempty"`

	Events []storedEvent   `json:"events,omitempty"` // the newest before the end, as far as they have room
	End    *storedFinished `json:"end,omitempty"`
}

// recordStage is where an execution stands by its record.
type recordStage string

const (
	stageWaits recordStage = "waits" // for the answer of a person, and has done nothing yet
	stageRuns  recordStage = "runs"  // or is about to
	stageEnded recordStage = "ended"
	stageLost  recordStage = "lost" // its server ended before it did, and another has said so
)

// storedPlace is where the history has a record.
type storedPlace struct {
	Log  string `json:"log,omitempty"`
	Seq  uint64 `json:"seq"`
	At   int    `json:"at"`
	Size int    `json:"size"`
}

type storedEvent struct {
	Seq  uint64          `json:"seq"`
	Time time.Time       `json:"time"`
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body,omitempty"`
}

// storedContent is one piece of a result. JSON is kept as text, exactly.
type storedContent struct {
	Text     *string         `json:"text,omitempty"`
	JSON     *string         `json:"json,omitempty"`
	Image    *tools.Image    `json:"image,omitempty"`
	Artifact *tools.Artifact `json:"artifact,omitempty"`
}

type storedFinished struct {
	Content   []storedContent `json:"content,omitempty"`
	Details   string          `json:"details,omitempty"`
	Exit      *tools.Exit     `json:"exit,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
	Usage     *tools.Usage    `json:"usage,omitempty"`
	Failure   *Failure        `json:"failure,omitempty"`
	Verdict   *policy.Verdict `json:"verdict,omitempty"`
	Policy    string          `json:"policy,omitempty"`
	Cancelled *Cancellation   `json:"cancelled,omitempty"`
	Hooks     []hook.Run      `json:"hooks,omitempty"`

	TotalBytes  int           `json:"total_bytes,omitempty"`
	KeptBytes   int           `json:"kept_bytes,omitempty"`
	Tokens      int           `json:"tokens,omitempty"`
	Waited      time.Duration `json:"waited,omitempty"`
	Ran         time.Duration `json:"ran,omitempty"`
	OutputBytes uint64        `json:"output_bytes,omitempty"`

	TooLarge bool `json:"too_large,omitempty"` // the result is not here, for it had no room
}

// recordOf returns what is stored of an execution now, without events.
func recordOf(x *Execution, at recordStage) *record {
	o := &x.Order
	r := &record{
		Version: recordVersion, Number: x.number, Session: o.Session, Stage: at, Reads: o.ConcurrencySafe && !o.Waits,
		CallID: o.CallID, Digest: o.Digest[:], Tool: o.Tool, ToolIs: o.Version, CalledAs: o.CalledAs, OnBehalfOf: o.OnBehalfOf, Purpose: o.Purpose,
		Policy: o.Policy, Access: o.Access, Effects: o.Effects, Timeout: o.Timeout, Disconnect: o.OnDisconnect, Trace: x.Trace,
		Created: x.Created.Round(0),
	}
	if o.Verdict.Rule != "" {
		r.Verdict = &o.Verdict
	}
	if mask := x.executor.config.Mask; mask != nil {
		r.Purpose = mask(r.Purpose)
		if r.Effects != nil {
			r.Effects = &Effects{maskedEffects(r.Effects.Judged, mask), r.Effects.More}
		}
	}
	return r
}

// maskedEffects returns effects without secrets in what commands and paths are.
func maskedEffects(list []policy.Judged, mask func(string) string) []policy.Judged {
	list = slices.Clone(list)
	for i := range list {
		e := &list[i].Effect
		for _, text := range []*string{&e.Path, &e.Named, &e.Program, &e.Host, &e.Unclear} {
			*text = mask(*text)
		}
		e.Argv = slices.Clone(e.Argv)
		for j := range e.Argv {
			e.Argv[j] = mask(e.Argv[j])
		}
	}
	return list
}

// maskedQuestion returns a question without secrets in what a person is shown of the call.
func maskedQuestion(q *approval.Question, mask func(string) string) *approval.Question {
	if mask == nil {
		return q
	}
	masked := *q
	masked.Purpose, masked.Preview.Text, masked.Effects = mask(q.Purpose), mask(q.Preview.Text), maskedEffects(q.Effects, mask)
	masked.Tiers = slices.Clone(q.Tiers)
	for i, tier := range masked.Tiers {
		masked.Tiers[i] = maskedTier(tier, mask)
	}
	return &masked
}

func maskedTier(tier policy.Tier, mask func(string) string) policy.Tier {
	tier.Pattern, tier.Label = mask(tier.Pattern), mask(tier.Label)
	return tier
}

// maskedAnswer returns an answer without secrets in what a person wrote, and in what was
// granted. The grant itself is elsewhere, and still covers what it did.
func maskedAnswer(a approval.Answer, mask func(string) string) approval.Answer {
	if mask == nil {
		return a
	}
	a.Comment = mask(a.Comment)
	a.Answers = slices.Clone(a.Answers)
	for i := range a.Answers {
		a.Answers[i].Text = mask(a.Answers[i].Text)
	}
	if a.Grant != nil {
		grant := *a.Grant
		grant.Tier = maskedTier(grant.Tier, mask)
		a.Grant = &grant
	}
	return a
}

// maxStoredEvents is how many bytes the events before the end have in a record.
const maxStoredEvents = 64 << 10

// ended completes a record with the end of its execution. The log is locked, or has ended.
func (r *record) ended(before []Event, end *Finished, at time.Time, last uint64, mask func(string) string) {
	r.Ended, r.Outcome, r.LastSeq = at.Round(0), end.Outcome, last
	r.End = &storedFinished{
		Content: storedContents(end.Result.Content), Details: string(end.Result.Details), Exit: end.Result.Exit, Warnings: end.Result.Warnings, Usage: end.Result.Usage,
		Failure: end.Failure, Verdict: end.Verdict, Policy: end.Policy, Cancelled: end.Cancelled,
		TotalBytes: end.TotalBytes, KeptBytes: end.KeptBytes, Tokens: end.Tokens, Waited: end.Waited, Ran: end.Ran, OutputBytes: end.OutputBytes,
	}
	for _, run := range end.Hooks {
		run.Detail = "" // for the operator alone
		r.End.Hooks = append(r.End.Hooks, run)
	}
	left, first := maxStoredEvents, len(before)
	for first > 0 {
		if left -= eventWeight + before[first-1].Body.weight(); left < 0 {
			break
		}
		first--
	}
	for _, event := range before[first:] {
		kind, body, err := storedBody(event.Body, mask)
		if err != nil {
			r.Events = nil // what comes after it is kept; the rest is told as skipped
			continue
		}
		r.Events = append(r.Events, storedEvent{event.Seq, event.Time.Round(0), kind, body})
	}
}

func storedContents(content []tools.Content) []storedContent {
	list := make([]storedContent, len(content))
	for i, c := range content {
		switch c := c.(type) {
		case tools.Text:
			text := string(c)
			list[i].Text = &text
		case tools.JSON:
			text := string(c)
			list[i].JSON = &text
		case tools.Image:
			list[i].Image = &c
		case tools.Artifact:
			list[i].Artifact = &c
		}
	}
	return list
}

func contentsOf(list []storedContent) []tools.Content {
	content := make([]tools.Content, 0, len(list))
	for _, c := range list {
		switch {
		case c.Text != nil:
			content = append(content, tools.Text(*c.Text))
		case c.JSON != nil:
			content = append(content, tools.JSON(*c.JSON))
		case c.Image != nil:
			content = append(content, *c.Image)
		case c.Artifact != nil:
			content = append(content, *c.Artifact)
		}
	}
	return content
}

// storedBody returns the body of an event as it is stored, and its kind.
func storedBody(body Body, mask func(string) string) (kind string, text json.RawMessage, err error) {
	var value any = body
	switch b := body.(type) {
	case Started:
		return "started", nil, nil
	case Accepted:
		kind = "accepted"
	case ApprovalRequested:
		kind, value = "asked", ApprovalRequested{maskedQuestion(b.Question, mask)}
	case ApprovalResolved:
		kind, value = "answered", ApprovalResolved{b.QuestionID, maskedAnswer(b.Answer, mask)}
	case Output:
		kind, value = "output", Output{Stream: b.Stream, Offset: b.Offset, Data: b.Data}
	case Progress:
		kind = "progress"
	case Partial:
		kind, value = "partial", storedContents(b.Content)
	case UserMessage:
		kind = "message"
	case Nested:
		kind, value = "nested", []byte(b)
	default:
		return "", nil, fmt.Errorf("%T is no event that is stored", body)
	}
	text, err = json.Marshal(value)
	return kind, text, err
}

// body is the inverse of storedBody.
func (e *storedEvent) body() (Body, error) {
	switch e.Kind {
	case "started":
		return Started{}, nil
	case "accepted":
		return bodyOf[Accepted](e.Body)
	case "asked":
		return bodyOf[ApprovalRequested](e.Body)
	case "answered":
		return bodyOf[ApprovalResolved](e.Body)
	case "output":
		return bodyOf[Output](e.Body)
	case "progress":
		return bodyOf[Progress](e.Body)
	case "message":
		return bodyOf[UserMessage](e.Body)
	case "partial":
		var list []storedContent
		err := json.Unmarshal(e.Body, &list)
		return Partial{Content: contentsOf(list)}, err
	case "nested":
		var message []byte
		err := json.Unmarshal(e.Body, &message)
		return Nested(message), err
	}
	return nil, fmt.Errorf("%.32q is no event that this server knows", e.Kind)
}

func bodyOf[B Body](text []byte) (Body, error) {
	var body B
	err := json.Unmarshal(text, &body)
	return body, err
}

// finished returns the end of an execution that ended.
func (r *record) finished() *Finished {
	end := r.End
	f := &Finished{
		Outcome: r.Outcome, Failure: end.Failure, Verdict: end.Verdict, Policy: end.Policy, Cancelled: end.Cancelled, Hooks: end.Hooks,
		TotalBytes: end.TotalBytes, KeptBytes: end.KeptBytes, Tokens: end.Tokens, Waited: end.Waited, Ran: end.Ran, OutputBytes: end.OutputBytes,
		Result: tools.Result{Content: contentsOf(end.Content), Exit: end.Exit, Warnings: end.Warnings, Usage: end.Usage},
	}
	if end.Details != "" {
		f.Result.Details = json.RawMessage(end.Details)
	}
	return f
}

// encode returns the record as it is stored: where it is larger than a value may be,
// compressed, then without events, then without the result.
func (r *record) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil || len(text) <= maxRecord {
		return text, err
	}
	if text = compressed(text); len(text) <= maxRecord {
		return text, nil
	}
	smaller := *r
	smaller.Events = nil
	if text, err = json.Marshal(&smaller); err != nil {
		return nil, err
	}
	if text = compressed(text); len(text) <= maxRecord {
		return text, nil
	}
	end := *r.End
	end.Content, end.Details, end.TooLarge = nil, "", true
	smaller.End = &end
	return json.Marshal(&smaller)
}

// maxRecord leaves room for what stands before a record in the history.
const maxRecord = state.MaxValue - 1<<10

func compressed(text []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		panic(err) // there is such a level
	}
	w.Write(text) // a buffer takes all
	w.Close()
	return out.Bytes()
}

// errNewer says that a record is of a later version.
var errNewer = errors.New("it was stored by a later version of this server")

// decodeRecord is the inverse of encode. With errNewer comes what could be read.
func decodeRecord(text []byte) (*record, error) {
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if text, err = io.ReadAll(io.LimitReader(unpacked, 64<<20)); err != nil {
			return nil, err
		}
	}
	r := new(record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if r.Version > recordVersion {
		return r, fmt.Errorf("%w: %d, and this one knows %d", errNewer, r.Version, recordVersion)
	}
	if r.Stage == stageEnded && r.Outcome <= 0 || r.Outcome > Lost {
		return nil, fmt.Errorf("outcome %d is unknown", r.Outcome)
	}
	return r, nil
}
