// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"time"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// answerWords are the words for what became of an approval.
var answerWords = map[pb.AnswerKind]string{
	pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE:   "allowed",
	pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS: "always allowed",
	pb.AnswerKind_ANSWER_KIND_DENY_ONCE:    "denied",
	pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS:  "always denied",
	pb.AnswerKind_ANSWER_KIND_ANSWERED:     "answered",
	pb.AnswerKind_ANSWER_KIND_EXPIRED:      "expired: nobody answered in time",
	pb.AnswerKind_ANSWER_KIND_WITHDRAWN:    "withdrawn: the call ended before anybody answered",
}

// answerText tells what became of an approval, and who said so.
func answerText(a *pb.ApprovalAnswer) string {
	text, known := answerWords[a.GetKind()]
	if !known {
		text = Visible(a.GetKind().String())
	}
	switch a.GetKind() {
	case pb.AnswerKind_ANSWER_KIND_EXPIRED, pb.AnswerKind_ANSWER_KIND_WITHDRAWN:
		return text
	}
	if label := a.GetTier().GetLabel(); label != "" {
		text += " (" + Visible(label) + ")"
	}
	text += " by " + Visible(a.GetBy())
	if a.GetComment() != "" {
		text += ": " + Visible(a.GetComment())
	}
	return text
}

// local is the principal of callers who need not say who they are. In this process it
// always acts for the user of the machine.
const local = "local"

// callerText names who calls, and for whom.
func callerText(tenant, principal, onBehalfOf string) string {
	if onBehalfOf == "" || principal == local {
		return ownerText(tenant, principal)
	}
	return ownerText(tenant, principal) + " for " + Visible(onBehalfOf)
}

// approvalText tells in one line what an approval is about.
func approvalText(a *pb.Approval) string {
	if questions := a.GetQuestions(); len(questions) > 0 {
		return Visible(a.GetTool()) + " wants to know: " + Visible(questions[0].GetText()) + AndMore(len(questions)-1)
	}
	var decisive []string
	for _, judged := range a.GetEffects() {
		if judged.GetVerdict().GetAction() == a.GetVerdict().GetAction() {
			decisive = append(decisive, EffectText(judged.GetEffect()))
		}
	}
	if len(decisive) == 0 {
		return Visible(a.GetTool())
	}
	return Visible(a.GetTool()) + " " + decisive[0] + AndMore(len(decisive)-1+int(a.GetMoreEffects()))
}

// shortID is enough of an id to tell it from others, mostly.
func shortID(id string) string {
	return Visible(id[:min(len(id), 8)])
}

// ageText writes a time that people wait.
func ageText(d time.Duration) string { return max(d, 0).Truncate(time.Second).String() }

// visibleLines is visible for text of several lines.
func visibleLines(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Visible(strings.TrimSuffix(line, "\r"))
	}
	return lines
}
