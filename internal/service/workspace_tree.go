// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// maxLeftOut is how many entries a summary names that were left out.
const maxLeftOut = 1000

// reason is why an entry is left out.
type reason string

func (r reason) Error() string { return string(r) }

// leaveOut notes an entry that a tree is without. Those that are left out always
// take at most half of the list, so that the others are seen.
func leaveOut(summary *pb.TreeSummary, path string, why error) {
	summary.LeftOutCount++
	_, always := errors.AsType[neverUploaded](why)
	if always {
		summary.AlwaysLeftOutCount++
	}
	if len(summary.LeftOut) == maxLeftOut || always && summary.AlwaysLeftOutCount > maxLeftOut/2 {
		return
	}
	reason := output.VisibleText(why.Error())
	if s, ok := status.FromError(why); ok {
		reason = s.Message()
	}
	summary.LeftOut = append(summary.LeftOut, &pb.LeftOut{Path: output.ValidText(path), Reason: reason, Always: always})
}

// noted puts what a tree was into the record of the call.
func (t *transfer) noted(summary *pb.TreeSummary, sum []byte) {
	summary.Sha256 = workspace.Hash(sum).String()
	t.record.Count, t.record.Bytes, t.record.Digest = summary.Files, summary.FileBytes, [32]byte(sum)
	if summary.LeftOutCount > 0 {
		were := "entries were"
		if summary.LeftOutCount == 1 {
			were = "entry was"
		}
		t.record.Comment = fmt.Sprintf("%d %s left out, the first: %s: %s",
			summary.LeftOutCount, were, summary.LeftOut[0].Path, summary.LeftOut[0].Reason)
	}
}
