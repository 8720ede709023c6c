// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path/filepath"

	"github.com/toolserver/toolserver/internal/tools"
)

//go:embed send_user_message.md
var sendUserMessageDoc string

//go:embed send_user_message_help.md
var sendUserMessageHelp string

type sendUserMessageInput struct {
	Message     string   `json:"message" check:"min=1,max=65536" jsonschema:"Markdown"`
	Status      string   `json:"status,omitempty" check:"enum=normal|proactive" jsonschema:"proactive: brought up by the agent; default normal"`
	Attachments []string `json:"attachments,omitempty" check:"max=32" jsonschema:"workspace files to show with it"`
}

// SendUserMessage returns the tool that tells the user something.
func SendUserMessage() tools.Tool {
	return tools.New(
		tools.Spec{
			Name:            "send_user_message",
			Aliases:         []string{"SendUserMessage", "Brief"},
			Label:           "Message to the user",
			Summary:         "Show a message to the user while the agent goes on.",
			Description:     sendUserMessageDoc,
			Help:            sendUserMessageHelp,
			Category:        category,
			Level:           tools.ReadOnly,
			ConcurrencySafe: true,
			Examples: []tools.Example{
				{Summary: "A message", Input: json.RawMessage(`{"message":"The build is **green**."}`)},
			},
		},
		func(env tools.Env, in sendUserMessageInput) []tools.Effect { return env.Reads(in.Attachments...) },
		func(_ context.Context, env tools.Env, in sendUserMessageInput, out tools.Sink) (tools.Result, error) {
			said := tools.UserMessage{Message: in.Message, Proactive: in.Status == "proactive"}
			for _, path := range in.Attachments {
				a, err := attach(env, path)
				if err != nil {
					return tools.Result{}, tools.Failf("bad_attachment", "The message was not sent: attachment %v", err)
				}
				said.Attachments = append(said.Attachments, a)
			}
			out.Emit(said)
			return tools.TextResult(fmt.Sprintf("The message was sent, with %d attachments.", len(said.Attachments))), nil
		})
}

// attach looks at a file that goes with a message.
func attach(env tools.Env, name string) (tools.Attachment, error) {
	file, err := env.Open(name)
	if err != nil {
		return tools.Attachment{}, err
	}
	defer file.Close()
	a := tools.Attachment{Path: file.Path(), Size: uint64(file.Info().Size), MediaType: mime.TypeByExtension(filepath.Ext(name))}
	if a.MediaType == "" {
		head := make([]byte, 512)
		n, err := io.ReadFull(file, head)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return tools.Attachment{}, err
		}
		a.MediaType = http.DetectContentType(head[:n])
	}
	return a, nil
}
