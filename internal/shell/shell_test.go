// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolserver/toolserver/internal/shell"
)

// place is where the commands of the tests would run.
var place = shell.Place{Workspace: "/ws", Home: "/home/me", Temp: "/session/tmp", Temporary: []string{"/tmp"}, SameRepository: func(dir string) bool { return dir == "pkg" || dir == "pkg/sub" }}

// TestEffects holds the effects of the commands in testdata. A file has a command
// after "$ ", its further lines after "> ", then one effect per line in the
// notation of notation_test.go, then an empty line. UPDATE_GOLDEN=1 writes the
// effects anew.
func TestEffects(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no tables in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { testTable(t, file) })
	}
}

func testTable(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE_GOLDEN") == "1"
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		var head, want []string
		var command string
		for line := range strings.SplitSeq(block, "\n") {
			switch {
			case strings.HasPrefix(line, "#"):
				head = append(head, line)
			case strings.HasPrefix(line, "$ "):
				head, command = append(head, line), line[2:]
			case strings.HasPrefix(line, ">"):
				head, command = append(head, line), command+"\n"+strings.TrimPrefix(line[1:], " ")
			default:
				want = append(want, line)
			}
		}
		if command == "" {
			out.WriteString(block + "\n\n")
			continue
		}
		var got []string
		for _, e := range shell.Effects(command, place) {
			got = append(got, notation(e))
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w && !update {
			t.Errorf("%s\n got:\n%s\n want:\n%s", command, g, w)
		}
		out.WriteString(strings.Join(append(head, got...), "\n") + "\n\n")
	}
	if update {
		if err := os.WriteFile(file, []byte(strings.TrimSuffix(out.String(), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
