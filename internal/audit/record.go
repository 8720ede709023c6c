// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Record is one step in the life of a call, or a note of the log about
// itself. Text that is too long is cut, and says so.
type Record struct {
	// Seq numbers the records of a chain: 1, 2, 3 … The log sets it.
	Seq uint64 `json:"seq"`

	// Time is when the step was taken; the zero time means now.
	Time time.Time `json:"time"`

	Step Step `json:"step"`

	// Tenant is that of the principal; empty for the default tenant.
	Tenant      string `json:"tenant,omitempty"`
	Principal   string `json:"principal,omitempty"`
	OnBehalfOf  string `json:"on_behalf_of,omitempty"`
	SessionID   string `json:"session,omitempty"`
	ExecutionID string `json:"execution,omitempty"`
	CallID      string `json:"call_id,omitempty"`
	Trace       string `json:"trace,omitempty"`
	Tool        string `json:"tool,omitempty"`
	Version     string `json:"version,omitempty"` // of the tool, where it has one
	CalledAs    string `json:"called_as,omitempty"`

	// Chain is who asked whom, where an agent made the call: each session,
	// with the call in it that began the next.
	Chain string `json:"chain,omitempty"`

	// InputDigest stands for the input, InputShape tells its keys and sizes.
	// Input is its content, for an operator who wants it in the log.
	InputDigest Digest `json:"input_digest,omitzero"`
	InputBytes  int    `json:"input_bytes,omitempty"`
	InputShape  string `json:"input_shape,omitempty"`
	Input       string `json:"input,omitempty"`

	// Policy is the version that decided, Action what, by which Rule and why.
	Policy string `json:"policy,omitempty"`
	Action string `json:"action,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`

	// By is who answered a question, From where from, Comment what they said.
	By      string `json:"by,omitempty"`
	From    string `json:"from,omitempty"`
	Comment string `json:"comment,omitempty"`

	// Outcome is how the call ended, with the code of a failure as Reason; DurationMs how long the step took: the run,
	// or the wait for an answer.
	Outcome    string  `json:"outcome,omitempty"`
	DurationMs float64 `json:"duration_ms,omitempty"`

	// Path is what a transfer of files was about, Bytes how many there were in
	// them, Digest that of the content or of the archive.
	Path   string `json:"path,omitempty"`
	Bytes  uint64 `json:"bytes,omitempty"`
	Digest Digest `json:"digest,omitzero"`

	// Count is of what the log notes about itself: lost records, torn bytes. Of a
	// transfer, how many entries it read, wrote or removed.
	Count uint64 `json:"count,omitempty"`

	// Prev is the hash of the record before, zero for the first of a chain; Hash
	// is that of this one. The log sets both.
	Prev Digest `json:"prev"`
	Hash Digest `json:"hash"`
}

// Step is what a record is about.
type Step string

// The steps of a call.
const (
	Proposed Step = "proposed"
	Verdict  Step = "verdict"
	Approval Step = "approval"
	Started  Step = "started"
	Input    Step = "input" // was sent while it ran
	Finished Step = "finished"

	// Violation is what was taken back of what a call did, as Reason.
	Violation Step = "violation"

	// Hook is what a hook of the operator, by Rule, said at a point, which is the Action:
	// Outcome and Reason.
	Hook Step = "hook"

	// Transfer is a whole call of WorkspaceService.
	Transfer Step = "transfer"

	// Cancelled is that somebody, By, asked for the end of a call, and SessionClosed of a
	// session with Count calls that ran in it, with the reason they gave.
	Cancelled     Step = "cancelled"
	SessionClosed Step = "session_closed"

	// Stopped is an emergency stop of a principal, or of everybody, By an operator, that
	// ended Count calls; the Action "again" says that it was in force before. Resumed is
	// that it was lifted.
	Stopped Step = "stopped"
	Resumed Step = "resumed"

	// ToolsApproved is that By approved Count tools of the source Tool which its server had
	// changed; Reason has their names.
	ToolsApproved Step = "tools_approved"

	// AgentsServed is that a runtime of the principal serves Count agents, which Reason names.
	AgentsServed Step = "agents_served"

	// OverQuota is that a tenant has all that it may have of the quota Rule: the last of
	// Count calls that were refused since it was told before, at most once a minute.
	OverQuota Step = "over_quota"

	// SessionCreated is a session that was made, with its mode as Action and its
	// workspace as Path; SessionChanged one whose settings are others now, told by Reason.
	SessionCreated Step = "session_created"
	SessionChanged Step = "session_changed"

	// Granted is a lasting answer, with the id of the grant as Rule and what it covers
	// as Reason; Revoked that somebody took it back.
	Granted Step = "granted"
	Revoked Step = "revoked"

	// Reloaded is that a file changed: the policy, tokens or certificates, by Rule. Its
	// Outcome says whether it is in force, and Reason why not.
	Reloaded Step = "reloaded"
)

// What a log notes about itself.
const (
	Opened    Step = "opened"    // a server began to write
	Closed    Step = "closed"    // it ended in good order
	Recovered Step = "recovered" // Count torn bytes were found at the end and put aside
	Gap       Step = "gap"       // Count records could not be written
	Rotated   Step = "rotated"   // the last of a file
	Continued Step = "continued" // the first of the file after it
)

// Digest is a SHA-256 hash; in JSON it is hexadecimal.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether there is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the digest in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads what MarshalText wrote, and nothing else.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) || bytes.ContainsAny(text, "ABCDEF") {
		return fmt.Errorf("%.80q is no digest: want 64 digits of 0-9 a-f", text)
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// Limits of what a record holds, in bytes.
const (
	maxWord  = 512
	maxText  = 4 << 10
	maxInput = 16 << 10

	// maxLine bounds a line, whatever has to be escaped in it.
	maxLine = 256 << 10
)

// The end of a line: the hash, over all bytes before it.
const (
	hashBegin = `,"hash":"`
	hashEnd   = `"}`
	hashLen   = len(hashBegin) + 2*sha256.Size + len(hashEnd)
)

// appendLine appends the record as a line, and sets its hash. Seq, Prev and
// Time must be set.
func (r *Record) appendLine(line []byte) []byte {
	begin := len(line)
	line = append(line, `{"seq":`...)
	line = strconv.AppendUint(line, r.Seq, 10)
	line = append(line, `,"time":"`...)
	line = r.Time.UTC().AppendFormat(line, time.RFC3339Nano)
	line = append(line, '"')
	line = appendText(line, `,"step":`, string(r.Step), maxWord)
	line = appendText(line, `,"tenant":`, r.Tenant, maxWord)
	line = appendText(line, `,"principal":`, r.Principal, maxWord)
	line = appendText(line, `,"on_behalf_of":`, r.OnBehalfOf, maxWord)
	line = appendText(line, `,"session":`, r.SessionID, maxWord)
	line = appendText(line, `,"execution":`, r.ExecutionID, maxWord)
	line = appendText(line, `,"call_id":`, r.CallID, maxWord)
	line = appendText(line, `,"trace":`, r.Trace, maxWord)
	line = appendText(line, `,"tool":`, r.Tool, maxWord)
	line = appendText(line, `,"version":`, r.Version, maxWord)
	line = appendText(line, `,"called_as":`, r.CalledAs, maxWord)
	line = appendText(line, `,"chain":`, r.Chain, maxText)
	if !r.InputDigest.IsZero() {
		line = appendDigest(line, `,"input_digest":"`, r.InputDigest)
	}
	if r.InputBytes > 0 {
		line = strconv.AppendInt(append(line, `,"input_bytes":`...), int64(r.InputBytes), 10)
	}
	line = appendText(line, `,"input_shape":`, r.InputShape, maxText)
	line = appendText(line, `,"input":`, r.Input, maxInput)
	line = appendText(line, `,"policy":`, r.Policy, maxWord)
	line = appendText(line, `,"action":`, r.Action, maxWord)
	line = appendText(line, `,"rule":`, r.Rule, maxWord)
	line = appendText(line, `,"reason":`, r.Reason, maxText)
	line = appendText(line, `,"by":`, r.By, maxWord)
	line = appendText(line, `,"from":`, r.From, maxWord)
	line = appendText(line, `,"comment":`, r.Comment, maxText)
	line = appendText(line, `,"outcome":`, r.Outcome, maxWord)
	if ms := r.DurationMs; ms > 0 && ms <= math.MaxInt64 {
		line = strconv.AppendFloat(append(line, `,"duration_ms":`...), math.Round(ms*1000)/1000, 'f', -1, 64)
	}
	line = appendText(line, `,"path":`, r.Path, maxText)
	if r.Bytes > 0 {
		line = strconv.AppendUint(append(line, `,"bytes":`...), r.Bytes, 10)
	}
	if !r.Digest.IsZero() {
		line = appendDigest(line, `,"digest":"`, r.Digest)
	}
	if r.Count > 0 {
		line = strconv.AppendUint(append(line, `,"count":`...), r.Count, 10)
	}
	line = appendDigest(line, `,"prev":"`, r.Prev)
	r.Hash = sha256.Sum256(line[begin:])
	line = appendDigest(line, hashBegin, r.Hash)
	return append(line, '}', '\n')
}

func appendDigest(line []byte, key string, d Digest) []byte {
	line = append(line, key...)
	line = hex.AppendEncode(line, d[:])
	return append(line, '"')
}

// appendText appends text unless it is empty. What a terminal might obey is
// escaped, so that a log can be looked at.
func appendText(line []byte, key, text string, most int) []byte {
	if text == "" {
		return line
	}
	cut := 0
	if len(text) > most {
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text, cut = text[:end], len(text)-end
	}
	line = append(line, key...)
	line = append(line, '"')
	plain := 0 // what from here on can be copied as it is
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		if r > 0x9f && (r != utf8.RuneError || size > 1) && !reorders(r) {
			i += size
			continue
		}
		line = append(line, text[plain:i]...)
		switch {
		case r == '"' || r == '\\':
			line = append(line, '\\', c)
		case r == '\n':
			line = append(line, `\n`...)
		case r == utf8.RuneError:
			line = append(line, `\ufffd`...)
		default:
			const digits = "0123456789abcdef"
			line = append(line, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		}
		i += size
		plain = i
	}
	line = append(line, text[plain:]...)
	if cut > 0 {
		line = append(line, "… ("...)
		line = strconv.AppendInt(line, int64(cut), 10)
		line = append(line, " bytes more)"...)
	}
	return append(line, '"')
}

// reorders reports whether a character changes how the text after it is shown.
func reorders(r rune) bool {
	return r >= 0x200e && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// size is about how much memory the record holds.
func (r *Record) size() int {
	return 512 + len(r.Tenant) + len(r.Principal) + len(r.OnBehalfOf) + len(r.CalledAs) + len(r.Chain) + len(r.SessionID) + len(r.ExecutionID) + len(r.CallID) + len(r.Trace) + len(r.Tool) + len(r.Version) +
		len(r.InputShape) + len(r.Input) + len(r.Policy) + len(r.Action) + len(r.Rule) + len(r.Reason) +
		len(r.By) + len(r.From) + len(r.Comment) + len(r.Outcome) + len(r.Path)
}

var errNotARecord = errors.New("this is not a record")

// mark is what makes a record a link of the chain.
type mark struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Step  Step      `json:"step"`
	Count uint64    `json:"count"`
	Prev  Digest    `json:"prev"`
	Hash  Digest    `json:"hash"`
}

// parseLine reads a line without its newline. changed says that it is not what
// was hashed.
func parseLine(line []byte) (m mark, changed bool, err error) {
	body := len(line) - hashLen
	if body < 0 || !bytes.HasPrefix(line[body:], []byte(hashBegin)) || !bytes.HasSuffix(line, []byte(hashEnd)) {
		return m, false, errNotARecord
	}
	if json.Unmarshal(line, &m) != nil || m.Seq == 0 || m.Step == "" {
		return m, false, errNotARecord
	}
	// The hash at the end of the line counts, not one that JSON might find
	// elsewhere.
	if m.Hash.UnmarshalText(line[body+len(hashBegin):len(line)-len(hashEnd)]) != nil {
		return m, false, errNotARecord
	}
	return m, m.Hash != sha256.Sum256(line[:body]), nil
}
