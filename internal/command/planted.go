// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"sync"

	"github.com/toolserver/toolserver/internal/integrity"
	"github.com/toolserver/toolserver/internal/tools"
)

// errPlanted is why a command that is part of no call is ended.
var errPlanted = errors.New("it planted something again")

// maxKept is how many files a session keeps of what was put back.
const maxKept = 20

// join has the runner share what is known of its workspace.
func (r *Runner) join() (err error) {
	r.keeper, err = r.all.keepers.Join(r.workspace.Dir(), integrity.Member{
		Homes: []string{r.Home()},
		Tell: func(found []string) {
			if tell := r.all.config.Violation; tell != nil {
				tell(r.sessionID, r.all.config.Masker().String(integrity.Text(found)))
			}
		},
		Keep: r.keepUndone,
	})
	return err
}

// note is called before a command runs that may write.
func (x *Running) note(c Command) {
	if c.readOnly() {
		return
	}
	x.mark = x.runner.keeper.Begin(integrity.Writer{
		Protection: *x.runner.protection.Load(), Rebases: c.rebases || slices.Contains(c.Args, "rebase"),
		Lasting: c.Lasting, Again: func() {
			if x.live.Load() {
				x.Stop(errPlanted)
			}
		},
	})
}

// Writing is called before a tool of the server writes to the workspace of a session,
// and done after it: what comes of it is no work of a person.
func (r *Runners) Writing(env tools.Env) (done func()) {
	return r.serving(env, (*integrity.Keeper).Writing)
}

// Receiving is Writing for files that a client sends.
func (r *Runners) Receiving(env tools.Env) (done func()) {
	return r.serving(env, (*integrity.Keeper).Receiving)
}

// Monitored returns what is looked after of the workspace of a session by now, as
// [integrity.Monitored.At] tells it; nil where that is nothing.
func (r *Runners) Monitored(env tools.Env, p tools.Protection) func(path string, below bool) string {
	runner := r.of(env)
	if err := runner.prepared(); err != nil {
		return nil // no command runs there either
	}
	return runner.keeper.Monitored(p).At
}

func (r *Runners) serving(env tools.Env, begin func(*integrity.Keeper, tools.Protection) func()) (done func()) {
	runner, err := r.Of(env)
	if err != nil {
		return func() {} // no command runs there either
	}
	return begin(runner.keeper, env.Protection())
}

// BeginWriting is called before text runs in a command that was started before: what is
// planted from then on is its work, until the mark ends.
func (r *Runner) BeginWriting(text string) *integrity.Mark {
	return r.keeper.Begin(integrity.Writer{Protection: *r.protection.Load(), Rebases: rebases(text)})
}

// Mark tells what was taken back of what the command did; nil where it cannot write.
func (x *Running) Mark() *integrity.Mark { return x.mark }

// Examine has the workspace examined for what commands that run have planted.
func (x *Running) Examine() { x.runner.keeper.Examine() }

var rebasing = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bgit\b[^\n;&|#]*\brebase\b`) })

// rebases reports whether a text has git rebase.
func rebases(text string) bool { return rebasing().MatchString(text) }

// Warn adds to a result what was taken back. The outcome stays what it was.
func (r *Runner) Warn(result *tools.Result, found []string) {
	if len(found) == 0 {
		return
	}
	masker := r.all.config.Masker()
	for _, what := range found {
		result.Warnings = append(result.Warnings, masker.String(what))
	}
	result.Content = append(result.Content, tools.Text(integrity.Text(result.Warnings)))
}

// keepUndone keeps what a file had become before it was put back where commands
// may read it, and says where that is.
func (r *Runner) keepUndone(data []byte) string {
	if r.undone.Add(1) > maxKept {
		return ""
	}
	file, err := os.CreateTemp(r.temp(), "undone-*")
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Write(data); err != nil {
		return ""
	}
	return r.seen(file.Name())
}
