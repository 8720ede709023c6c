// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolserver/toolserver/internal/model"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/agent"
)

// Bounds of what an agent is told of the conversation of its caller.
const (
	maxContext  = 400_000 // bytes: what is older is left out
	maxFiltered = 20      // messages
	maxMessage  = 2_000   // bytes of one of those
)

// before returns what an agent is told of the conversation of its caller, as a text. The
// server has that of a caller which is an agent itself; others send theirs.
func (a *Agents) before(env tools.Env, c agent.Context) (string, error) {
	if c.Strategy == "" || c.Strategy == agent.None {
		return "", nil
	}
	messages := c.Messages
	if len(messages) == 0 {
		l := a.at(env)
		if l == nil {
			return "", tools.Failf("no_context", "The server does not know what was said in your conversation: send it along as context, a list of {role, text}; or leave context_strategy out and put what matters into prompt.")
		}
		messages = l.conversation()
	}
	if c.Strategy == agent.Filtered {
		var kept []agent.Message
		for _, m := range messages {
			if strings.TrimSpace(m.Text) != "" && !m.Tools {
				kept = append(kept, agent.Message{Role: m.Role, Text: output.Short(m.Text, maxMessage)})
			}
		}
		messages = kept[max(0, len(kept)-maxFiltered):]
	}
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s: %s\n\n", m.Role, m.Text)
	}
	text := b.String()
	if len(text) > maxContext {
		text = "(What was said first is left out.) …" + strings.ToValidUTF8(text[len(text)-maxContext:], "")
	}
	return strings.TrimSpace(text), nil
}

// conversation returns what was said in a loop so far.
func (l *loop) conversation() (list []agent.Message) {
	l.mu.Lock()
	said := l.said
	l.mu.Unlock()
	for _, m := range said {
		message := agent.Message{Role: "user", Text: m.Text}
		if m.FromModel {
			message.Role = "assistant"
		}
		if message.Text != "" {
			list = append(list, message)
		}
		for _, c := range m.Calls {
			list = append(list, agent.Message{Role: message.Role, Text: fmt.Sprintf("(calls %s %s)", c.Tool, output.Short(string(c.Input), maxMessage)), Tools: true})
		}
		for _, r := range m.Results {
			for _, c := range r.Content {
				if text, ok := c.(toolcall.Text); ok {
					list = append(list, agent.Message{Role: message.Role, Text: fmt.Sprintf("(result of %s: %s)", r.Tool, output.Short(string(text), maxMessage)), Tools: true})
				}
			}
		}
	}
	return list
}

// digest has the model make a summary of what was said before the task.
func (w *work) digest(ctx context.Context) error {
	var text strings.Builder
	answer, err := w.model.Ask(ctx, &model.Request{
		System:    "You summarise conversations for somebody who takes over a part of the work. Keep what was decided, what was found with its place, and what is still open. Answer with the summary alone.",
		Messages:  []model.Message{{Text: "Summarise this conversation, in at most 300 words, as far as it matters for this task: " + w.Prompt + "\n\n---\n\n" + w.Before}},
		Principal: w.Principal,
	}, func(piece toolcall.Piece) {
		if t, ok := piece.(toolcall.Text); ok && text.Len() < maxWritten {
			text.WriteString(string(t))
		}
	})
	w.report.Usage.Add(answer.Usage)
	if err != nil {
		return w.unanswered(ctx, err)
	}
	w.Before = strings.TrimSpace(text.String())
	return nil
}
