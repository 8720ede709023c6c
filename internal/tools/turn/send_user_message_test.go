// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/tools/toolstest"
	"github.com/toolserver/toolserver/internal/tools/turn"
)

func TestSendUserMessage(t *testing.T) {
	env := toolstest.Env(t, map[string]string{
		"empty":          "",
		"notes":          "plain text\n",
		"picture":        "\x89PNG\r\n\x1a\n",
		"short.json":     "{}",
		"out/chart.png":  "not really a picture",
		"odd.thingthing": "%PDF-1.7",
	})
	for _, test := range []struct {
		name, input string
		want        tools.UserMessage
		says        string
	}{
		{"a message", `{"message":"The build is **green**."}`,
			tools.UserMessage{Message: "The build is **green**."}, "with 0 attachments"},
		{"an answer", `{"message":"yes","status":"normal","attachments":[]}`,
			tools.UserMessage{Message: "yes"}, "with 0 attachments"},
		{"brought up", `{"message":"By the way\n\t😀","status":"proactive"}`,
			tools.UserMessage{Message: "By the way\n\t😀", Proactive: true}, "with 0 attachments"},
		{"by extension", `{"message":"see","attachments":["out/chart.png","./short.json"]}`,
			tools.UserMessage{Message: "see", Attachments: []tools.Attachment{
				{Path: "out/chart.png", MediaType: "image/png", Size: 20},
				{Path: "short.json", MediaType: "application/json", Size: 2},
			}}, "with 2 attachments"},
		{"by content", `{"message":"see","attachments":["picture","notes","odd.thingthing","empty"]}`,
			tools.UserMessage{Message: "see", Attachments: []tools.Attachment{
				{Path: "picture", MediaType: "image/png", Size: 8},
				{Path: "notes", MediaType: "text/plain; charset=utf-8", Size: 11},
				{Path: "odd.thingthing", MediaType: "application/pdf", Size: 8},
				{Path: "empty", MediaType: "text/plain; charset=utf-8", Size: 0},
			}}, "with 4 attachments"},
		{"the same twice", `{"message":"see","attachments":["notes","notes"]}`,
			tools.UserMessage{Message: "see", Attachments: []tools.Attachment{
				{Path: "notes", MediaType: "text/plain; charset=utf-8", Size: 11},
				{Path: "notes", MediaType: "text/plain; charset=utf-8", Size: 11},
			}}, "with 2 attachments"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, reports, err := toolstest.Run(t, turn.SendUserMessage(), env, test.input)
			if err != nil {
				t.Fatal(err)
			}
			if len(reports) != 1 || !reflect.DeepEqual(reports[0], test.want) {
				t.Errorf("said %+v\nwant %+v", reports, test.want)
			}
			if got := toolstest.Text(result); !strings.Contains(got, test.says) {
				t.Errorf("%q does not say %q", got, test.says)
			}
		})
	}
}

// TestSendUserMessageNeedsItsAttachments proves that a message is sent whole or
// not at all.
func TestSendUserMessageNeedsItsAttachments(t *testing.T) {
	env := toolstest.Env(t, map[string]string{"here.txt": "x", "dir/f": "x"})
	outside := filepath.Join(t.TempDir(), "canary.txt")
	if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(env.Workspace.Dir(), "link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(env.Workspace.Dir(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, says string }{
		{"gone.txt", "gone.txt: no such file"},
		{"dir", "dir: not a regular file but a directory"},
		{"pipe", "pipe: not a regular file but a named pipe"},
		{"", "not a regular file but a directory"},
		{"../canary.txt", "../canary.txt: path is outside"},
		{outside, outside + ": path is outside"},
		{"link.txt", "link.txt: path is outside"},
	} {
		t.Run(test.path, func(t *testing.T) {
			input, err := json.Marshal(map[string]any{"message": "see", "attachments": []string{"here.txt", test.path}})
			if err != nil {
				t.Fatal(err)
			}
			_, reports, err := toolstest.Run(t, turn.SendUserMessage(), env, string(input))
			failure, ok := errors.AsType[*tools.Failure](err)
			if !ok || failure.Code != "bad_attachment" || !strings.Contains(failure.Message, test.says) ||
				!strings.Contains(failure.Message, "not sent") || failure.Retryable {
				t.Errorf("%+v, want bad_attachment: %s", err, test.says)
			}
			if len(reports) != 0 {
				t.Errorf("it was sent all the same: %+v", reports)
			}
		})
	}
}

func TestSendUserMessageEffects(t *testing.T) {
	env := toolstest.Env(t, nil)
	call, err := turn.SendUserMessage().Decode(&env, json.RawMessage(`{"message":"see","attachments":["a","b/../c","../d"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, effect := range call.Effects() {
		if effect.Kind == tools.ReadsPath {
			paths = append(paths, effect.Path)
		}
	}
	if want := []string{"a", "c", filepath.Dir(env.Workspace.Dir()) + "/d"}; !slices.Equal(paths, want) {
		t.Errorf("reads %q, want %q", paths, want)
	}
}

func TestSendUserMessageBounds(t *testing.T) {
	files := strings.Repeat(`"a",`, 32) + `"a"`
	for _, test := range []struct{ input, says string }{
		{`{}`, "/message: is required"},
		{`{"message":""}`, "/message: too few characters"},
		{`{"message":"` + strings.Repeat("x", 65537) + `"}`, "/message: too many characters: 65537"},
		{`{"message":"x","status":"loud"}`, "/status: "},
		{`{"message":"x","attachments":[` + files + `]}`, "/attachments: too many items: 33"},
		{`{"message":"x","attachments":[7]}`, "/attachments/0: want a string"},
	} {
		_, err := turn.SendUserMessage().Decode(&tools.Env{}, json.RawMessage(test.input))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.50s: %v, want %q in it", test.input, err, test.says)
		}
	}
}
