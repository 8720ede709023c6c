// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// The program go is a turn of an agent: tools are rendered for the model, its calls are
// parsed and run as batches, a person approves, and the results go back to the model.
// The model is a script, ../model.json. Run it with
//
//	go run ./examples/go localhost:8665 examples/model.json
//
// A server that asks for tokens finds them in AGENT_TOKEN and PERSON_TOKEN.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/toolserver/toolserver/client"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// block is a part of a message of the model.
type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: go run ./examples/go ADDRESS SCRIPT")
	}
	if err := turn(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func turn(ctx context.Context, address, script string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	agent, err := client.Connect(address, client.Options{Token: os.Getenv("AGENT_TOKEN")})
	if err != nil {
		return err
	}
	defer agent.Close()
	created, err := agent.Sessions.CreateSession(ctx, &pb.CreateSessionRequest{Mode: pb.Mode_MODE_ASK})
	if err != nil {
		return err
	}
	agent = agent.In(created.GetSession().GetSessionId())

	person, err := client.Connect(address, client.Options{
		Token: os.Getenv("PERSON_TOKEN"), Session: created.GetSession().GetSessionId(),
	})
	if err != nil {
		return err
	}
	defer person.Close()
	go person.Approve(ctx, decide)

	tools, err := agent.List(ctx, "read_file", "write_file", "delete_file", "list_dir")
	if err != nil {
		return err
	}
	for _, tool := range tools {
		if err := render(tool); err != nil {
			return err
		}
	}

	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	var responses []struct{ Content []block }
	if err := json.Unmarshal(text, &responses); err != nil {
		return err
	}
	for _, response := range responses {
		batch := agent.Batch(ctx, nil)
		for _, block := range response.Content { // with a model that streams: as they come
			switch block.Type {
			case "text":
				fmt.Println("model:", block.Text)
			case "tool_use":
				if _, err := batch.Call(client.Call{ID: block.ID, Tool: block.Name, Input: block.Input}); err != nil {
					return err
				}
			}
		}
		results, err := batch.Results()
		if err != nil {
			return err
		}
		for _, result := range results { // the next message to the model
			show(result)
		}
	}
	return nil
}

// render prints a tool as the API of a model takes it, in short.
func render(tool *pb.Tool) error {
	var schema struct{ Required []string }
	if err := json.Unmarshal([]byte(tool.GetInputSchema()), &schema); err != nil {
		return err
	}
	rendered := map[string]any{
		"name": tool.GetName(), "description": tool.GetDescription(), "input_schema": json.RawMessage(tool.GetInputSchema()),
	}
	fmt.Printf("tool %s(%s)\n", rendered["name"], strings.Join(schema.Required, ", "))
	return nil
}

// decide is the person: notes may be written, and nothing is deleted.
func decide(approval *pb.Approval) *pb.ResolveApprovalRequest {
	if approval.GetTool() == "delete_file" {
		return client.Deny("Keep it.")
	}
	return client.Allow()
}

// show prints a result as the model is given it.
func show(result client.BatchResult) {
	text, failed := client.Text(result.Finished), result.Finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED
	if result.Err != nil {
		text, failed = result.Err.Error(), true
	}
	fmt.Printf("tool_result %s, is_error %t\n", result.CallID, failed)
	for line := range strings.Lines(text) {
		fmt.Println("  |", strings.TrimRight(line, "\n"))
	}
}
