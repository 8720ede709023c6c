// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// This file is how people say what their answer is, wherever they are asked.

// answerTo begins an answer to what was shown.
func answerTo(a *pb.Approval, kind pb.AnswerKind) *pb.ResolveApprovalRequest {
	return &pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Digest: a.GetDigest(), Kind: kind}
}

// once are the kinds for one time, always those that last.
func once(allow bool) pb.AnswerKind {
	if allow {
		return pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
	}
	return pb.AnswerKind_ANSWER_KIND_DENY_ONCE
}

func always(allow bool) pb.AnswerKind {
	if allow {
		return pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS
	}
	return pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS
}

// tierOf returns the id of the tier that a person names by number or label.
func tierOf(a *pb.Approval, text string) (string, error) {
	text = strings.TrimSpace(text)
	for _, tier := range a.GetTiers() {
		if text == tier.GetTierId() || text == tier.GetLabel() {
			return tier.GetTierId(), nil
		}
	}
	if len(a.GetTiers()) == 0 {
		return "", errors.New("always is not offered: this can be answered for one time only")
	}
	var offered []string
	for _, tier := range a.GetTiers() {
		offered = append(offered, Visible(tier.GetTierId()+" ("+tier.GetLabel()+")"))
	}
	return "", fmt.Errorf("%q is not offered: want %s", text, strings.Join(offered, ", "))
}

// answerOf reads what a person says to a question: numbers or labels of
// options, separated by commas where several may be chosen, or free text.
func answerOf(q *pb.Question, text string) (*pb.QuestionAnswer, error) {
	text = strings.TrimSpace(text)
	words := []string{text}
	if q.GetMultiple() && optionOf(q, text) == "" {
		words = strings.Split(text, ",")
	}
	answer := new(pb.QuestionAnswer)
	for _, word := range words {
		label := optionOf(q, strings.TrimSpace(word))
		if label == "" {
			answer.Chosen = nil
			break
		}
		if !slices.Contains(answer.Chosen, label) {
			answer.Chosen = append(answer.Chosen, label)
		}
	}
	switch {
	case len(answer.Chosen) > 0, text == "" && q.GetMultiple():
	case text == "" || q.GetOptionsOnly():
		return nil, fmt.Errorf("%q is no answer: %s", text, howToAnswer(q))
	default:
		answer.Text = text
	}
	return answer, nil
}

// optionOf returns the label of the option that a person names.
func optionOf(q *pb.Question, text string) string {
	for _, option := range q.GetOptions() {
		if strings.EqualFold(option.GetLabel(), text) {
			return option.GetLabel()
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(q.GetOptions()) {
		return q.GetOptions()[n-1].GetLabel()
	}
	return ""
}

// answersOf reads the answers to all questions of an approval.
func answersOf(a *pb.Approval, texts []string) ([]*pb.QuestionAnswer, error) {
	questions := a.GetQuestions()
	if len(questions) == 0 {
		return nil, errors.New("there is no question to answer, a call waits: allow or deny it")
	}
	if len(texts) != len(questions) {
		return nil, fmt.Errorf("%d answers to %d questions: give one for each, in their order", len(texts), len(questions))
	}
	var answers []*pb.QuestionAnswer
	for i, text := range texts {
		answer, err := answerOf(questions[i], text)
		if err != nil {
			return nil, fmt.Errorf("question %d: %w", i+1, err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// minPrefix is how much of an id must be given: less is too easily another's.
// wholeID is how many characters the ids have that a server makes.
const minPrefix, wholeID = 4, 26

// uniquely returns the one of list whose id begins with prefix; the zero value
// where none does, since it may have been answered and the server knows more.
func uniquely[T any](list []T, idOf func(T) string, prefix string) (found T, err error) {
	var none T
	var ids []string
	for _, item := range list {
		id := idOf(item)
		if id == prefix {
			return item, nil
		}
		if strings.HasPrefix(id, prefix) {
			found = item
			ids = append(ids, Visible(id))
		}
	}
	switch {
	case len(ids) > 1:
		some := ids[:min(len(ids), 5)]
		return none, fmt.Errorf("%d ids begin with %q: %s%s; give more of it", len(ids), prefix, strings.Join(some, ", "), AndMore(len(ids)-len(some)))
	case len(ids) == 1 && len(prefix) < minPrefix:
		return none, fmt.Errorf("%q is too short: give at least %d characters of the id", prefix, minPrefix)
	}
	return found, nil
}

// approval returns what waits under an id or the beginning of one; an approval
// that has nothing but the id where nothing does.
func (c *Client) approval(ctx context.Context, id string) (*pb.Approval, error) {
	response, err := c.ListApprovals(ctx, &pb.ListApprovalsRequest{})
	if err != nil {
		return nil, err
	}
	found, err := uniquely(response.GetApprovals(), (*pb.Approval).GetApprovalId, id)
	if found == nil {
		found = &pb.Approval{ApprovalId: id}
	}
	return found, err
}
