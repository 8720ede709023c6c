// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// The values of --approve.
const (
	approveAsk  = "ask"
	approveYes  = "yes"
	approveNo   = "no"
	approveWait = "wait"
)

// An asker answers what a call waits for: it asks the person at the terminal,
// or does what --approve says. It is used by one goroutine.
type asker struct {
	client *Client
	how    string // of --approve
	person bool   // there is one
	stderr *Stream
	view   view

	waiting []*pb.Approval       // the first is asked about
	always  bool                 // the line that is typed next is a tier
	allow   bool                 // what is said always
	answers []*pb.QuestionAnswer // so far

	stdin   *bufio.Reader
	reading bool       // a line is being typed
	lines   chan typed // what was typed
	errors  chan error // of answers
}

// typed is a line of a person; err says that there will be no more.
type typed struct {
	text string
	err  error
}

func newAsker(client *Client, how string, stderr *Stream, v view) *asker {
	k := &asker{
		client: client, how: how, stderr: stderr, view: v,
		person: stderr.terminal && term.IsTerminal(int(os.Stdin.Fd())),
		stdin:  bufio.NewReader(os.Stdin), lines: make(chan typed), errors: make(chan error),
	}
	if text, ok := v.(*textView); ok {
		text.asks = k.person && how == approveAsk
	}
	return k
}

// event takes note of what begins and ends to wait.
func (k *asker) event(ctx context.Context, event *pb.Event) {
	switch kind := innermost(event).GetKind().(type) {
	case *pb.Event_ApprovalRequested:
		k.waiting = append(k.waiting, kind.ApprovalRequested.GetApproval())
		if len(k.waiting) == 1 {
			k.begin(ctx)
		}
	case *pb.Event_ApprovalResolved:
		i := slices.IndexFunc(k.waiting, func(a *pb.Approval) bool {
			return a.GetApprovalId() == kind.ApprovalResolved.GetApprovalId()
		})
		if i < 0 {
			return
		}
		k.waiting = slices.Delete(k.waiting, i, i+1)
		if i == 0 && len(k.waiting) > 0 {
			k.begin(ctx)
		}
	}
}

// begin sees to an answer for the first that waits.
func (k *asker) begin(ctx context.Context) {
	a := k.waiting[0]
	k.always, k.answers = false, nil
	switch {
	case k.how == approveNo:
		k.decline(ctx, "Every approval is declined here.")
	case k.how == approveYes && len(a.GetQuestions()) == 0:
		k.send(ctx, answerTo(a, once(true)))
	case k.how == approveWait:
	case k.person:
		select { // what was typed before the question is no answer to it
		case <-k.lines:
			k.reading = false
		default:
		}
		forgetTyped(os.Stdin)
		k.show(a)
		k.prompt()
	case k.client.inProcess:
		k.view.note("nobody can be asked: this is no terminal, and no server that others could answer; see --approve")
		k.decline(ctx, "Nobody could be asked.")
	default:
		k.view.note("waiting: " + k.client.command("approvals watch") + " shows and answers it, as " + Visible(a.GetApprovalId()))
	}
}

// maxShown is how many lines of a preview are shown at first.
const maxShown = 12

func (k *asker) show(a *pb.Approval) {
	c := newCard(a)
	rows := c.about
	if more := len(c.preview) - maxShown; more > 0 {
		rows = append(rows, c.preview[:maxShown]...)
		rows = append(rows, rowOf(alarm, fmt.Sprintf("! %d more lines: m shows them", more)))
	} else {
		rows = append(rows, c.preview...)
	}
	writeRows(k.stderr, rows)
}

// prompt asks for the next line, and waits for it in the background.
func (k *asker) prompt() {
	a := k.waiting[0]
	choices := "[y]es, [a]lways, [n]o, [d] never, [m]ore"
	if len(a.GetTiers()) == 0 {
		choices = "[y]es, [n]o, [m]ore"
	}
	text := fmt.Sprintf("Allow it within %s? %s", ageText(time.Until(a.GetExpireTime().AsTime())), choices)
	switch n := len(a.GetQuestions()); {
	case n > 1:
		text = fmt.Sprintf("Answer %d of %d", len(k.answers)+1, n)
	case n == 1:
		text = "Answer"
	case k.always:
		text = fmt.Sprintf("For the rest of the session (1 to %d; nothing goes back)", len(a.GetTiers()))
	}
	k.stderr.endLine()
	k.stderr.file.WriteString(text + " > ")
	k.stderr.midline = true
	if k.reading {
		return
	}
	k.reading = true
	go func() {
		text, err := k.stdin.ReadString('\n')
		k.lines <- typed{text, err}
	}()
}

// typed takes a line of the person.
func (k *asker) typed(ctx context.Context, line typed) {
	k.reading = false
	if len(k.waiting) == 0 {
		return // it came too late
	}
	a := k.waiting[0]
	k.stderr.midline = line.err != nil // else the line was ended with Enter
	switch {
	case line.err != nil:
		k.how = approveNo // nobody is there any more
		k.decline(ctx, "")
	case len(a.GetQuestions()) > 0:
		k.answer(ctx, a, line.text)
	case k.always:
		k.tier(ctx, a, line.text)
	default:
		k.choose(ctx, a, line.text)
	}
}

// choose takes the first word of an answer; what follows is a comment to the
// model, or a tier.
func (k *asker) choose(ctx context.Context, a *pb.Approval, line string) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch strings.ToLower(word) {
	case "y", "yes", "n", "no":
		request := answerTo(a, once(word[0]|0x20 == 'y'))
		request.Comment = strings.TrimSpace(rest)
		k.send(ctx, request)
	case "a", "always", "d", "never":
		k.allow = word[0]|0x20 == 'a'
		if len(a.GetTiers()) == 0 || rest != "" {
			k.tier(ctx, a, rest)
			return
		}
		k.always = true
		var rows []row
		for _, tier := range a.GetTiers() {
			rows = append(rows, tierRow(tier))
		}
		writeRows(k.stderr, rows)
		k.prompt()
	case "m", "more":
		writeRows(k.stderr, newCard(a).rows())
		k.prompt()
	default:
		k.view.note("y: yes, this once; a: always, as far as you then say; n: no; d: never, as far as you then say;\n" +
			"m: show all of it. What you write after y or n is told to the model.")
		k.prompt()
	}
}

// tier takes how far always goes.
func (k *asker) tier(ctx context.Context, a *pb.Approval, text string) {
	k.always = false
	if strings.TrimSpace(text) == "" && len(a.GetTiers()) > 0 {
		k.prompt()
		return
	}
	id, err := tierOf(a, text)
	if err != nil {
		k.view.note(err.Error())
		k.prompt()
		return
	}
	request := answerTo(a, always(k.allow))
	request.TierId = id
	k.send(ctx, request)
}

// answer takes the answer to the next question.
func (k *asker) answer(ctx context.Context, a *pb.Approval, text string) {
	answer, err := answerOf(a.GetQuestions()[len(k.answers)], text)
	if err != nil {
		k.view.note(err.Error() + "; Ctrl-D declines")
		k.prompt()
		return
	}
	if k.answers = append(k.answers, answer); len(k.answers) < len(a.GetQuestions()) {
		k.prompt()
		return
	}
	request := answerTo(a, pb.AnswerKind_ANSWER_KIND_ANSWERED)
	request.Answers = k.answers
	k.send(ctx, request)
}

func (k *asker) decline(ctx context.Context, comment string) {
	request := answerTo(k.waiting[0], once(false))
	request.Comment = comment
	k.send(ctx, request)
}

// send gives the answer. How it ends is an event of the call.
func (k *asker) send(ctx context.Context, request *pb.ResolveApprovalRequest) {
	go func() {
		_, err := k.client.ResolveApproval(ctx, request)
		select {
		case k.errors <- err:
		case <-ctx.Done():
		}
	}()
}

// failed tells why an answer did not count.
func (k *asker) failed(err error) {
	switch status.Code(err) {
	case codes.OK, codes.FailedPrecondition, codes.NotFound, codes.Canceled:
		return // somebody else was first, and the events tell
	case codes.PermissionDenied:
		k.view.note(Visible(StatusText(status.Convert(err))) + "; waiting for somebody else: " + k.client.command("approvals watch") + " shows and answers it")
		k.how = approveWait
		return
	}
	k.view.note("cannot answer: " + Visible(StatusText(status.Convert(err))))
	if k.person && len(k.waiting) > 0 {
		k.answers = nil
		k.prompt()
	}
}
