// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/errand"
	"github.com/toolserver/toolserver/internal/state"
	"github.com/toolserver/toolserver/internal/tools/workflow"
)

// recordVersion is that of what is stored. A record of a later one is left alone.
const recordVersion = 1

// saved is a definition that is kept.
type saved struct {
	Version     int       `json:"v"`
	Text        string    `json:"text"`
	Description string    `json:"description,omitempty"`
	Number      int       `json:"number"` // how often it was written
	Steps       int       `json:"steps"`
	Changed     time.Time `json:"changed"`
}

// head is what is stored of a run, but for its steps. It has all that is needed to carry it on.
type head struct {
	Version    int               `json:"v"`
	ID         string            `json:"id"`
	Workflow   string            `json:"workflow"`
	Text       string            `json:"text"`
	Others     map[string]string `json:"others,omitempty"` // workflows that it runs, as they were
	Parameters json.RawMessage   `json:"parameters"`
	Who        errand.Who        `json:"who"`
	Session    string            `json:"session"`
	// SessionMade tells the session from one that is made under its id later.
	SessionMade time.Time       `json:"session_made,omitzero"`
	State       workflow.State  `json:"state"`
	Want        workflow.State  `json:"want,omitempty"` // what whoever carries it on is to do
	Round       int             `json:"round"`          // how often it was resumed
	Step        string          `json:"step,omitempty"`
	Approval    bool            `json:"approval,omitempty"` // the step that failed asks a person
	Code        string          `json:"code,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Began       time.Time       `json:"began"`
	Ended       time.Time       `json:"ended,omitzero"`
	Result      json.RawMessage `json:"result,omitempty"`
}

func (h *head) over() bool { return h.State != workflow.Running }

func (h *head) key() string { return runKey(h.Who.Owner(), h.ID) }

// stepRecord is what is stored of a step: its end, or which attempt is next.
type stepRecord struct {
	State   string          `json:"state"` // done, skipped, failed; empty while it has not ended
	Attempt int             `json:"attempt,omitempty"`
	Tries   int             `json:"tries,omitempty"` // that failed, of those it has
	Until   time.Time       `json:"until,omitzero"`  // when it goes on
	Round   int             `json:"round,omitempty"` // in which it failed
	Output  json.RawMessage `json:"output,omitempty"`
	Code    string          `json:"code,omitempty"`
	Reason  string          `json:"reason,omitempty"`
}

// How steps end.
const (
	stepDone    = "done"
	stepSkipped = "skipped"
	stepFailed  = "failed"
)

// Prefixes of keys.
const (
	definitions = "def/"
	runs        = "run/"
	leases      = "lease/"
)

func definitionKey(owner, name string) string { return definitions + state.Key(owner, name) }
func runKey(owner, id string) string          { return runs + state.Key(owner, id) }
func leaseKey(id string) string               { return leases + state.Key(id) }
func stepsOf(id string) string                { return "step/" + state.Key(id) + "/" }
func stepKey(id, path string) string          { return stepsOf(id) + state.Key(path) }

// decodeRecord reads a record of this version.
func decodeRecord[T any](text []byte) (*T, error) {
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if v.Version > recordVersion {
		return nil, fmt.Errorf("it is of version %d, and this server knows %d", v.Version, recordVersion)
	}
	value := new(T)
	return value, json.Unmarshal(text, value)
}

func encodeRecord(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it has nothing that JSON does not
	}
	return text
}

// digest returns a short name for parts that may be long.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(state.Key(parts...)))
	return hex.EncodeToString(sum[:10])
}

// callID names the attempt of a step in the session: whoever makes it again gets its end.
func callID(run, path string, attempt int) string {
	if len(path) > 120 {
		path = digest(path)
	}
	return fmt.Sprintf("%s/%s/%d", run, path, attempt)
}
