// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func TestAnswerOf(t *testing.T) {
	options := []*pb.QuestionOption{{Label: "red"}, {Label: "green"}, {Label: "red, or so"}}
	one := &pb.Question{Options: options, OptionsOnly: true}
	several := &pb.Question{Options: options, OptionsOnly: true, Multiple: true}
	for _, test := range []struct {
		question *pb.Question
		text     string
		chosen   string
		own      string
		wrong    bool
	}{
		{one, "2", "green", "", false},
		{one, " red ", "red", "", false},
		{one, "GREEN", "green", "", false},
		{one, "red, or so", "red, or so", "", false},
		{one, "1,2", "", "", true},
		{one, "0", "", "", true},
		{one, "", "", "", true},
		{one, "blue", "", "", true},
		{several, "1, green,1", "red|green", "", false},
		{several, "red, or so", "red, or so", "", false},
		{several, "", "", "", false},
		{several, "1,blue", "", "", true},
		{&pb.Question{Options: options}, "blue", "", "blue", false},
		{&pb.Question{Options: options, Multiple: true}, "1,blue", "", "1,blue", false},
		{&pb.Question{}, "1", "", "1", false},
		{&pb.Question{}, " ", "", "", true},
	} {
		answer, err := answerOf(test.question, test.text)
		if (err != nil) != test.wrong || strings.Join(answer.GetChosen(), "|") != test.chosen || answer.GetText() != test.own {
			t.Errorf("%v: %q: %v, %v", test.question, test.text, answer, err)
		}
	}
}

func TestUniquely(t *testing.T) {
	list := []string{"abcdef", "abcxyz", "abcdefgh", "q"}
	for prefix, want := range map[string]string{"abcx": "abcxyz", "abcdef": "abcdef", "abcdefg": "abcdefgh", "q": "q", "nix": "", "zzzzz": ""} {
		if got, err := uniquely(list, strings.Clone, prefix); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", prefix, got, err, want)
		}
	}
	for _, prefix := range []string{"abcd", "abc", "a", ""} {
		if got, err := uniquely(list, strings.Clone, prefix); got != "" || err == nil {
			t.Errorf("%q: %q, want an error", prefix, got)
		}
	}
	if _, err := uniquely(list, strings.Clone, "abcd"); err == nil || !strings.Contains(err.Error(), "abcdef, abcdefgh;") {
		t.Errorf("%v does not name the candidates", err)
	}
	if _, err := uniquely([]string{"abcdef"}, strings.Clone, "abc"); err == nil {
		t.Error("three characters are enough")
	}
}
