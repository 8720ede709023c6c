// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolserver/toolserver/internal/memory"
	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed store.md
var storeDoc string

//go:embed recall.md
var recallDoc string

//go:embed forget.md
var forgetDoc string

type storeInput struct {
	Text       string   `json:"text" check:"min=1,max=8000" jsonschema:"the fact, understandable by itself"`
	Key        string   `json:"key,omitempty" check:"max=200" jsonschema:"a name to replace or forget it by"`
	Scope      string   `json:"scope,omitempty" check:"enum=session|principal|tenant"`
	Tags       []string `json:"tags,omitempty" check:"max=16"`
	Importance *float64 `json:"importance,omitempty" check:"min=0,max=1" jsonschema:"default 0.5"`
	Hours      int      `json:"expires_in_hours,omitempty" check:"min=1,max=87600"`
}

// Check finds what the schema cannot tell.
func (in storeInput) Check() (problems []tools.Problem) {
	if strings.TrimSpace(in.Text) == "" {
		problems = append(problems, tools.Problem{Pointer: "/text", Message: "is blank: want what is to be remembered"})
	}
	return append(append(problems, checkLine("/key", in.Key)...), checkTags(in.Tags)...)
}

func (f *family) remember() tools.Tool {
	preview := func(_ context.Context, _ tools.Env, in storeInput) tools.Preview {
		what := "Stores in memory"
		if in.Key != "" {
			what += fmt.Sprintf(", as %q", in.Key)
		}
		if len(in.Tags) > 0 {
			what += ", with tags " + strings.Join(in.Tags, ", ")
		}
		return f.preview(what, in.Scope, in.Text)
	}
	return tools.WithPreview(tools.New(
		tools.Spec{
			Name: "memory_store", Aliases: []string{"MemoryStore", "save_memory"}, Label: "Remember", Summary: "Store a fact for later calls and sessions.",
			Description: storeDoc, Help: help, Category: category, Level: tools.ReadOnly,
			Keys: []tools.Key{{Other: "content", Name: "text"}, {Other: "fact", Name: "text"}},
			Examples: []tools.Example{
				{Summary: "A fact", Input: json.RawMessage(`{"text":"The staging database is read-only on Fridays.","tags":["database"]}`)},
				{Summary: "For this session, under a name", Input: json.RawMessage(`{"key":"build/command","text":"make server","scope":"session"}`)},
			},
		},
		func(_ tools.Env, in storeInput) []tools.Effect { return changes("memory", scopeOf(in.Scope)) },
		func(ctx context.Context, env tools.Env, in storeInput, _ tools.Sink) (tools.Result, error) {
			text, masked := f.store.Mask(strings.ToValidUTF8(in.Text, "\ufffd"))
			e := memory.Entry{Key: cmp.Or(in.Key, memory.KeyOf(text)), Text: text, Tags: in.Tags, Importance: 0.5, Scope: scopeOf(in.Scope)}
			if in.Importance != nil {
				e.Importance = *in.Importance
			}
			if in.Hours > 0 {
				e.Expires = time.Now().UTC().Truncate(time.Second).Add(time.Duration(in.Hours) * time.Hour)
			}
			var replaced bool
			var note string
			var err error
			if e.Scope == memory.OfSession {
				replaced, err = rememberInSession(env, e)
			} else {
				replaced, note, err = f.store.Remember(ctx, memory.WhoOf(env), e)
			}
			if err != nil {
				return tools.Result{}, err
			}
			said := "Stored"
			if replaced {
				said = "Replaced"
			}
			said = fmt.Sprintf("%s %q in scope %s.", said, e.Key, e.Scope)
			if e.Scope != memory.OfSession {
				said += f.lasts()
			}
			if masked {
				said += " It had a secret in it, which was masked: keep secrets elsewhere."
			}
			if note != "" {
				said += "\n(" + note + ")"
			}
			return tools.Detailed(said+"\n", map[string]any{"key": e.Key, "scope": e.Scope, "replaced": replaced, "masked": masked})
		}), preview)
}

const (
	sessionDocument = "memory"
	maxSession      = 500 // entries of a session
)

// rememberInSession stores an entry among the documents of the session.
func rememberInSession(env tools.Env, e memory.Entry) (replaced bool, err error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	e.Version, e.Created, e.Updated, e.By = 1, now, now, env.Principal
	err = changeSession(env, func(list []memory.Entry) ([]memory.Entry, error) {
		if i := slices.IndexFunc(list, func(o memory.Entry) bool { return o.Key == e.Key }); i >= 0 {
			replaced, e.Created = true, list[i].Created
			list[i] = e
			return list, nil
		}
		if len(list) >= maxSession {
			return nil, tools.Failf("memory_full", "Nothing was stored: the session remembers %d facts, and no more. Forget some, such as %q, or use scope principal.", maxSession, list[0].Key)
		}
		return append(list, e), nil
	})
	return replaced, err
}

// changeSession changes what the session remembers. What has expired is gone.
func changeSession(env tools.Env, change func([]memory.Entry) ([]memory.Entry, error)) error {
	if env.Documents == nil {
		return tools.Failf("not_kept", "This server keeps nothing of a session: use scope principal.")
	}
	return env.Documents.Change(sessionDocument, func(old json.RawMessage) (json.RawMessage, error) {
		list, err := decodeSession(old)
		if err == nil {
			list, err = change(list)
		}
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return json.Marshal(list)
	})
}

func decodeSession(text json.RawMessage) (list []memory.Entry, err error) {
	if text != nil {
		err = json.Unmarshal(text, &list)
	}
	now := time.Now()
	return slices.DeleteFunc(list, func(e memory.Entry) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }), err
}

type recallInput struct {
	Query  string   `json:"query,omitempty" check:"max=1000" jsonschema:"plain words"`
	Key    string   `json:"key,omitempty" check:"max=200"`
	Tags   []string `json:"tags,omitempty" check:"max=16" jsonschema:"all of which it has"`
	Scopes []string `json:"scopes,omitempty" check:"max=3" jsonschema:"session, principal, tenant; default all"`
	Limit  int      `json:"limit,omitempty" check:"min=1,max=100" jsonschema:"default 10"`
	Offset int      `json:"offset,omitempty" check:"min=0,max=10000"`
}

// Check finds what the schema cannot tell.
func (in recallInput) Check() []tools.Problem {
	return append(checkScopes(in.Scopes, memory.OfSession, memory.OfPrincipal, memory.OfTenant), checkTags(in.Tags)...)
}

func (f *family) recall() tools.Tool {
	return tools.New(
		tools.Spec{
			Name: "memory_recall", Aliases: []string{"MemoryRecall", "memory_search"}, Label: "Recall", Summary: "Find what was stored in memory.",
			Description: recallDoc, Help: help, Category: category, Level: tools.ReadOnly, ConcurrencySafe: true, Pages: true,
			Examples: []tools.Example{
				{Summary: "By words", Input: json.RawMessage(`{"query":"staging database"}`)},
				{Summary: "The newest of a tag", Input: json.RawMessage(`{"tags":["database"],"limit":5}`)},
			},
		},
		nil,
		func(ctx context.Context, env tools.Env, in recallInput, _ tools.Sink) (tools.Result, error) {
			q := memory.Query{Text: in.Query, Key: in.Key, Tags: in.Tags, Limit: cmp.Or(in.Limit, 10), Offset: in.Offset}
			scopes := scopesOf(in.Scopes, memory.OfSession, memory.OfPrincipal, memory.OfTenant)
			if env.Documents != nil {
				text, err := env.Documents.Read(sessionDocument)
				if err == nil {
					q.Session, err = decodeSession(text)
				}
				if err != nil {
					return tools.Result{}, err
				}
			}
			found, err := f.store.Recall(ctx, memory.WhoOf(env), scopes, q)
			if err != nil {
				return tools.Result{}, err
			}
			return f.showEntries(env, in, found)
		})
}

// recalled is an entry, for programs.
type recalled struct {
	Key        string       `json:"key"`
	Scope      memory.Scope `json:"scope"`
	Text       string       `json:"text"`
	Tags       []string     `json:"tags,omitempty"`
	Importance float64      `json:"importance"`
	Updated    time.Time    `json:"updated"`
	Expires    time.Time    `json:"expires,omitzero"`
	By         string       `json:"by,omitempty"`
	Score      float64      `json:"score,omitempty"`
}

func (f *family) showEntries(env tools.Env, in recallInput, found memory.Found) (tools.Result, error) {
	var b strings.Builder
	shown := make([]recalled, 0, len(found.Entries))
	room := env.Shown() - 400
	for i, e := range found.Entries {
		head := fmt.Sprintf("[%s] %s", e.Scope, e.Key)
		if e.Scope == memory.OfTenant {
			head += " by " + e.By
		}
		if len(e.Tags) > 0 {
			head += " #" + strings.Join(e.Tags, " #")
		}
		text := fmt.Sprintf("%s (%s)\n%s\n\n", head, e.Updated.Format(time.DateOnly), tools.Visible(strings.TrimSpace(e.Text)))
		if i > 0 && b.Len()+len(text) > room {
			break
		}
		b.WriteString(text)
		shown = append(shown, recalled{e.Key, e.Scope, e.Text, e.Tags, e.Importance, e.Updated, e.Expires, e.By, found.Scores[i]})
	}
	out := ""
	if len(shown) > 0 {
		out = tools.Untrusted("memory", b.String())
	} else {
		out = "Nothing is remembered of that."
		if in.Query != "" {
			out += " Words are matched as they are written, but for case and plurals: try other words and forms, or recall without query for the newest."
		}
		out += "\n"
	}
	next := in.Offset + len(shown)
	if next < found.Matched && len(shown) > 0 {
		in.Offset = next
		out += fmt.Sprintf("(%d of %d: go on with %s)\n", next, found.Matched, env.Words.GoOn("memory_recall", in))
	}
	return tools.Detailed(out+f.notes(found), map[string]any{"foreign": true, "memories": shown, "matched": found.Matched, "partial": found.Partial})
}

type forgetInput struct {
	Key   string   `json:"key,omitempty" check:"max=200"`
	Tags  []string `json:"tags,omitempty" check:"max=16" jsonschema:"all of which it has"`
	All   bool     `json:"all,omitempty" jsonschema:"everything of the scope"`
	Scope string   `json:"scope,omitempty" check:"enum=session|principal|tenant" jsonschema:"default principal"`
}

// Check finds what the schema cannot tell.
func (in forgetInput) Check() []tools.Problem {
	given := 0
	for _, is := range []bool{in.Key != "", len(in.Tags) > 0, in.All} {
		if is {
			given++
		}
	}
	if given != 1 {
		return []tools.Problem{{Message: "want one of key, tags and all: what is to be forgotten"}}
	}
	return checkTags(in.Tags)
}

func (f *family) forget() tools.Tool {
	preview := func(_ context.Context, _ tools.Env, in forgetInput) tools.Preview {
		what := "Forgets everything in memory"
		switch {
		case in.Key != "":
			what = fmt.Sprintf("Forgets %q of memory", in.Key)
		case len(in.Tags) > 0:
			what = "Forgets what has the tags " + strings.Join(in.Tags, ", ") + " of memory"
		}
		return f.preview(what, in.Scope, "")
	}
	return tools.WithPreview(tools.New(
		tools.Spec{
			Name: "memory_forget", Aliases: []string{"MemoryForget"}, Label: "Forget", Summary: "Forget what was stored in memory.",
			Description: forgetDoc, Help: help, Category: category, Level: tools.ReadOnly, FreesSpace: true,
			Examples: []tools.Example{{Summary: "All with a tag", Input: json.RawMessage(`{"tags":["database"]}`)}, {Summary: "All of this session", Input: json.RawMessage(`{"all":true,"scope":"session"}`)}},
		},
		func(_ tools.Env, in forgetInput) []tools.Effect { return changes("memory", scopeOf(in.Scope)) },
		func(ctx context.Context, env tools.Env, in forgetInput, _ tools.Sink) (tools.Result, error) {
			scope := scopeOf(in.Scope)
			var n int
			var err error
			if scope == memory.OfSession {
				err = changeSession(env, func(list []memory.Entry) ([]memory.Entry, error) {
					before := len(list)
					list = slices.DeleteFunc(list, func(e memory.Entry) bool {
						return (in.Key == "" || e.Key == in.Key) && memory.HasTags(e.Tags, in.Tags)
					})
					n = before - len(list)
					return list, nil
				})
			} else {
				n, err = f.store.Forget(ctx, memory.WhoOf(env), scope, in.Key, in.Tags)
			}
			switch {
			case err != nil:
				return tools.Result{}, err
			case n == 0 && in.Key != "":
				return tools.Result{}, tools.Failf("not_found", "There is no memory %q in scope %s. %s lists what there is.", in.Key, scope, env.Words.GoOn("memory_recall", recallInput{}))
			}
			return tools.Detailed(fmt.Sprintf("Forgot %d of scope %s.\n", n, scope), map[string]any{"forgotten": n, "scope": scope})
		}), preview)
}
