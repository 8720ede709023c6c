// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/toolserver/toolserver/internal/toolcall"
	"github.com/toolserver/toolserver/internal/tools"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// worktrees is the directory of a workspace in which isolated agents work.
const worktrees = ".worktrees"

// isolated is told to an agent that works in a worktree.
const isolated = "(You work in a copy of the repository, on a branch of its own. git does not work there: what you change is committed and merged when you are done.)"

// branch returns the branch of an isolated agent, and the directory that it works in, below
// the workspace of its caller.
func (l *loop) branch() (branch, dir string) { return "agent/" + l.id, filepath.Join(worktrees, l.id) }

// isolate makes a worktree for the agent, by a call in the session of its caller: it is judged,
// and asked about, like one that the caller makes itself.
func (l *loop) isolate(ctx context.Context) error {
	branch, dir := l.branch()
	out, taken, err := l.git(ctx, fmt.Sprintf("git worktree add --quiet -b %s %s HEAD", branch, dir), "Make a git worktree for the agent "+l.definition.Name)
	if err == nil && taken {
		l.withheld, _, err = l.git(ctx, fmt.Sprintf("git -C %s ls-files --deleted", dir), "Find out what the agent "+l.definition.Name+" does not get")
		out = l.withheld
	}
	if err != nil {
		return tools.Failf("isolation_failed", "There is no git worktree for the agent: %v %.1000s", err, out)
	}
	return nil
}

//go:embed worktree.sh
var settleScript string

// settle commits what an isolated agent changed, and merges it where that is possible and
// the agent is done. It returns the branch on which it is kept otherwise, and what else there
// is to say.
func (l *loop) settle(ctx context.Context, merge bool) (kept, note string) {
	branch, dir := l.branch()
	withheld := strings.ReplaceAll(strings.TrimSpace(l.withheld), "'", `'\''`)
	script := fmt.Sprintf("branch=%s dir=%s merge=%t withheld='%s'\n%s", branch, dir, merge, withheld, settleScript)
	out, _, err := l.git(ctx, script, "Take over what the agent "+l.definition.Name+" changed")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	switch last := lines[len(lines)-1]; {
	case err != nil:
		return branch, fmt.Sprintf("(What it changed could not be taken over, and is in %s: %v)", dir, err)
	case last == "nothing":
		return "", "(It changed nothing.)"
	case last == "merged":
		return "", "(What it changed is merged.)"
	}
	return branch, ""
}

// git runs a command in the session of the caller, and returns what it wrote, and whether
// the sandbox took something back of what it did.
func (l *loop) git(ctx context.Context, command, purpose string) (_ string, taken bool, _ error) {
	input, err := json.Marshal(map[string]string{"command": command, "description": purpose})
	if err != nil {
		return "", false, err
	}
	stream, err := pb.NewToolServiceClient(l.conn).ExecuteTool(ctx, &pb.ExecuteToolRequest{
		SessionId: l.parent.id, Tool: "bash", InputJson: input, Purpose: purpose, OnDisconnect: pb.OnDisconnect_ON_DISCONNECT_CANCEL,
	})
	if err != nil {
		return "", false, err
	}
	var out strings.Builder
	shown := &called{Call: toolcall.Call{Tool: "bash", Input: input}, id: "git", room: maxOutput}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), false, errors.New("its end is not known")
		}
		if err != nil {
			return out.String(), false, err
		}
		event := response.GetEvent()
		if data := event.GetOutput().GetData(); out.Len() < maxWritten {
			out.Write(data)
		}
		f := event.GetFinished()
		shown.pass(event, l.tell)
		if f != nil && f.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED {
			return out.String(), false, errors.New(f.GetFailure().GetMessage())
		}
		if f != nil {
			return out.String(), len(f.GetWarnings()) > 0, nil
		}
	}
}
