// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"regexp"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// A class tells what a command does to its workspace, from which follows what a
// user expects in each setting.
type class string

const (
	// reads changes nothing and is understood: it runs unasked everywhere.
	reads class = "reads"
	// readsMaybe changes nothing, and need not be understood.
	readsMaybe class = "reads?"
	// edits writes named files of the workspace and is understood.
	edits class = "edits"
	// editsMaybe changes the workspace, and need not be understood.
	editsMaybe class = "edits?"
	// runs is a program that nobody can foresee.
	runs class = "runs"
	// runsMaybe is such a program beside edits that are understood.
	runsMaybe class = "runs?"
	// temp touches what is the session's own beside the workspace.
	temp class = "temp"
)

var classes = []class{reads, readsMaybe, edits, editsMaybe, runs, runsMaybe, temp}

// A setting is how much a session is trusted.
type setting struct {
	name  string
	mode  pb.Mode
	level pb.Level
}

var settings = []setting{
	{"allow", pb.Mode_MODE_ALLOW, pb.Level_LEVEL_WORKSPACE_WRITE},
	{"ask", pb.Mode_MODE_ASK, pb.Level_LEVEL_WORKSPACE_WRITE},
	{"accept_edits", pb.Mode_MODE_ACCEPT_EDITS, pb.Level_LEVEL_WORKSPACE_WRITE},
	{"plan", pb.Mode_MODE_PLAN, pb.Level_LEVEL_WORKSPACE_WRITE},
	{"read_only", pb.Mode_MODE_ALLOW, pb.Level_LEVEL_READ_ONLY},
}

// A demand is what a setting wants of a case.
type demand struct {
	outcome    *regexp.Regexp // of the call
	asExpected bool           // a call that ran must have done what the case says
	unchanged  bool           // the workspace must be as before, whatever the outcome
}

var (
	denied    = regexp.MustCompile(`^DENIED$`)
	notDenied = regexp.MustCompile(`^(SUCCEEDED|FAILED)$`)
	whatever  = regexp.MustCompile(`^(SUCCEEDED|FAILED|DENIED)$`)
)

// in returns what a setting wants of a class. A nil outcome is that of the case.
func (c class) in(name string) demand {
	if name == "allow" {
		return demand{asExpected: true, unchanged: c == reads || c == readsMaybe || c == temp}
	}
	contained := name == "plan" || name == "read_only"
	switch c {
	case reads:
		return demand{asExpected: true, unchanged: true}
	case edits:
		if name == "accept_edits" {
			return demand{asExpected: true}
		}
		return demand{outcome: denied, unchanged: true}
	case editsMaybe:
		switch name {
		case "ask":
			return demand{outcome: denied, unchanged: true}
		case "accept_edits":
			return demand{outcome: whatever}
		}
	case runs, runsMaybe:
		if contained && c == runs {
			return demand{outcome: notDenied, unchanged: true}
		}
		if contained {
			return demand{outcome: whatever, unchanged: true}
		}
		return demand{outcome: denied, unchanged: true}
	}
	return demand{outcome: whatever, unchanged: true}
}
