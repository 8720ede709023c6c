// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// linkText says which call began an agent.
func linkText(link *pb.AgentLink) string {
	return fmt.Sprintf("%s in session %s, asked by call %s of session %s", link.GetAgent(), link.GetSessionId(), link.GetExecutionId(), link.GetParentSessionId())
}

// sessionText names the session of an approval, with the agents that it is for, the
// outermost first.
func sessionText(a *pb.Approval) string {
	text := Visible(a.GetSessionId())
	if len(a.GetChain()) == 0 {
		return text
	}
	var agents []string
	for _, link := range a.GetChain() {
		agents = append(agents, Visible(link.GetAgent()))
	}
	return text + " (" + strings.Join(agents, " > ") + ")"
}

// A sessionRow is a session in a list, with how its name is shown.
type sessionRow struct {
	*pb.Session
	name string
}

// asTree puts sessions of agents right below the one that began them, and the others in
// their order.
func asTree(list []*pb.Session) (rows []sessionRow) {
	type key struct{ tenant, principal, id string }
	below := make(map[key][]*pb.Session)
	known := make(map[key]bool)
	for _, s := range list {
		known[key{s.GetTenant(), s.GetPrincipal(), s.GetSessionId()}] = true
	}
	var roots []*pb.Session
	for _, s := range list {
		if parent := (key{s.GetTenant(), s.GetPrincipal(), s.GetParentSessionId()}); s.GetParentSessionId() != "" && known[parent] {
			below[parent] = append(below[parent], s)
		} else {
			roots = append(roots, s)
		}
	}
	var add func(s *pb.Session, indent string)
	add = func(s *pb.Session, indent string) {
		name := indent + Visible(s.GetSessionId())
		if s.GetAgent() != "" {
			name += " (" + Visible(s.GetAgent()) + ")"
		}
		rows = append(rows, sessionRow{s, name})
		if indent == "" {
			indent = "└ "
		} else {
			indent = "  " + indent
		}
		for _, child := range below[key{s.GetTenant(), s.GetPrincipal(), s.GetSessionId()}] {
			add(child, indent)
		}
	}
	for _, s := range roots {
		add(s, "")
	}
	return rows
}
