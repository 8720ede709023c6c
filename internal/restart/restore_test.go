// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
	"github.com/toolserver/toolserver/sdk/sdktest"
)

// TestBackupRestored: a server on an older backup gives no execution the id of one that came
// after the backup.
func TestBackupRestored(t *testing.T) {
	w := start(t)
	agent := w.as("agent")
	agent.session(&pb.CreateSessionRequest{SessionId: "s", Mode: pb.Mode_MODE_ALLOW})
	backup := filepath.Join(t.TempDir(), "backup")
	state := func(args ...string) {
		t.Helper()
		if text, err := exec.Command(sdktest.Build(t), append([]string{"state"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, text)
		}
	}
	w.Stop()
	state("backup", w.dir, backup)
	given := make(map[string]bool)
	for range 2 {
		w.Restart()
		agent = w.as("agent")
		for range 3 {
			event, _ := agent.end("s", "", "list_dir", `{}`)
			if id := event.GetExecutionId(); given[id] {
				t.Errorf("the id %s was given before", id)
			} else {
				given[id] = true
			}
		}
		w.Stop()
		if err := os.Rename(w.dir, w.dir+"-damaged"); err != nil {
			break // the second time
		}
		state("restore", backup, w.dir)
	}
}
