// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// This file puts what a policy says into words for people. All text in it that
// comes from elsewhere is made visible.

// enumWord returns the value of an enum as people write it.
func enumWord(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}

// ActionText is the word for what a verdict does.
func ActionText(action pb.Action) string { return enumWord(action, "ACTION_") }

// modeText, levelText and networkWord are the words for how a session is set.
func modeText(mode pb.Mode) string          { return enumWord(mode, "MODE_") }
func levelText(level pb.Level) string       { return enumWord(level, "LEVEL_") }
func networkWord(network pb.Network) string { return enumWord(network, "NETWORK_") }

// EffectText tells what a call would touch.
func EffectText(e *pb.Effect) string {
	var text string
	switch kind := e.GetKind().(type) {
	case *pb.Effect_Reads:
		text = "reads " + pathText(kind.Reads)
	case *pb.Effect_Writes:
		text = "writes " + pathText(kind.Writes)
	case *pb.Effect_Runs:
		text = "runs " + visibleCommand(kind.Runs.GetArgv())
		switch {
		case kind.Runs.GetReadOnly():
			text += " (changes nothing)"
		case kind.Runs.GetTold():
			text += " (changes what is told here)"
		}
	case *pb.Effect_Reaches:
		text = "reaches " + Visible(kind.Reaches.GetHost())
		if port := kind.Reaches.GetPort(); port != 0 {
			text = "reaches " + net.JoinHostPort(Visible(kind.Reaches.GetHost()), strconv.Itoa(int(port)))
		}
	case *pb.Effect_Uses:
		text = "uses " + Visible(kind.Uses.GetTool())
	case *pb.Effect_ChangesMode:
		text = "changes the mode of the session to " + modeText(kind.ChangesMode.GetMode())
	default:
		text = "does what this program does not know"
	}
	if why := e.GetUnclear(); why != "" {
		text += "; unclear: " + Visible(why)
	}
	return text
}

func pathText(p *pb.PathEffect) string {
	text := Visible(p.GetPath())
	switch {
	case p.GetGlob():
		text = "what matches " + text
	case p.GetTree():
		text += " and everything below"
	}
	if p.GetNamed() != "" {
		text += " (named " + Visible(p.GetNamed()) + ")"
	}
	return text
}

// VerdictText tells a verdict with what decided it and why.
func VerdictText(v *pb.Verdict) string {
	text := ActionText(v.GetAction())
	if v.GetRule() != "" {
		text += " by " + Visible(v.GetRule())
	}
	if v.GetReason() != "" {
		text += ": " + Visible(v.GetReason())
	}
	return text
}

// JailText tells what the commands of a call may touch; nothing where it has none.
func JailText(r *pb.Rights) string {
	if r == nil {
		return ""
	}
	var writes, reads []string
	switch r.GetConfinement() {
	case pb.Confinement_CONFINEMENT_READING:
		writes = []string{"a temporary directory of the call"}
	case pb.Confinement_CONFINEMENT_NAMED:
		writes = []string{"home", "temporary directory"}
	case pb.Confinement_CONFINEMENT_SESSION:
		writes = []string{"workspace", "home", "temporary directory", "caches"}
	case pb.Confinement_CONFINEMENT_UNCONFINED:
		return "writes: everything; reads: everything; network: " + networkText(r)
	default:
		return "what this program does not know"
	}
	for i, path := range r.GetWrite() {
		if path = Visible(path); path == "." {
			path = "workspace"
		}
		writes = slices.Insert(writes, i, path)
	}
	reads = []string{"workspace", "home", "system"}
	for _, path := range r.GetRead() {
		reads = append(reads, Visible(path))
	}
	return "writes: " + strings.Join(writes, ", ") + "; reads: " + strings.Join(reads, ", ") + "; network: " + networkText(r)
}

// networkText is networkWord, and the hosts beside it.
func networkText(r *pb.Rights) string {
	parts := []string{networkWord(r.GetNetwork())}
	if len(r.GetHosts()) > 0 && r.GetNetwork() <= pb.Network_NETWORK_NONE {
		parts = nil
	}
	for _, host := range r.GetHosts() {
		parts = append(parts, Visible(strings.TrimSuffix(host, ":0")))
	}
	return strings.Join(parts, ", ")
}

// AndMore counts what is not told.
func AndMore(n int) string {
	if n <= 0 {
		return ""
	}
	return " and " + strconv.Itoa(n) + " more"
}
