// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// The program agents serves an agent, and uses it: the model of a caller gives a task to the
// librarian, which this program serves, and whose model works on it in a session of its own.
// Both models are scripts, in ../../agents.json. Run it with
//
//	go run ./examples/go/agents localhost:8665 examples/agents.json
//
// against a server whose configuration has agents: {serve: true}. One that asks for tokens
// finds them in AGENT_TOKEN.
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

// model is a script: what it says in each turn.
type model []struct {
	Content []struct {
		Type, Text, ID, Name string
		Input                json.RawMessage
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: go run ./examples/go/agents ADDRESS SCRIPT")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, script string) error {
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	var models map[string]model
	if err := json.Unmarshal(text, &models); err != nil {
		return err
	}
	caller, err := client.Connect(address, client.Options{Token: os.Getenv("AGENT_TOKEN")})
	if err != nil {
		return err
	}
	defer caller.Close()

	ctx, leave := context.WithCancel(ctx)
	ready, served := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		served <- caller.Serve(ctx, client.Serving{Ready: func() { ready <- struct{}{} }, Agents: []client.Agent{{
			Name: "librarian", Description: "Knows about books.", Mode: pb.Mode_MODE_PLAN,
			Work: func(ctx context.Context, task *client.Task) (client.Report, error) {
				fmt.Println("librarian is asked:", task.GetPrompt())
				said, err := loop(ctx, task.Client, "librarian", models["librarian"], task.Tell)
				return client.Report{Text: said}, err
			},
		}}})
	}()
	select {
	case <-ready:
	case err := <-served:
		leave()
		return err
	}
	created, err := caller.Sessions.CreateSession(ctx, &pb.CreateSessionRequest{Mode: pb.Mode_MODE_ALLOW})
	if err == nil {
		_, err = loop(ctx, caller.In(created.GetSession().GetSessionId()), "caller", models["caller"], func(string) {})
	}
	leave()
	<-served
	return err
}

// loop is a model that calls tools until it says something and calls none. It returns that.
func loop(ctx context.Context, c *client.Client, who string, script model, tell func(string)) (said string, err error) {
	for _, turn := range script {
		batch := c.Batch(ctx, nil)
		for _, block := range turn.Content {
			if block.Type == "tool_use" {
				if _, err := batch.Call(client.Call{ID: block.ID, Tool: block.Name, Input: block.Input}); err != nil {
					return "", err
				}
				continue
			}
			said = block.Text
			fmt.Printf("%s: %s\n", who, said)
			tell(said)
		}
		results, err := batch.Results()
		if err != nil {
			return "", err
		}
		for _, result := range results { // the next message to the model
			text, failed := client.Text(result.Finished), result.Finished.GetOutcome() != pb.Outcome_OUTCOME_SUCCEEDED
			if result.Err != nil {
				text, failed = result.Err.Error(), true
			}
			fmt.Printf("%s gets %s, is_error %t\n", who, result.CallID, failed)
			for line := range strings.Lines(text) {
				fmt.Println("  |", strings.TrimRight(line, "\n"))
			}
		}
	}
	return said, nil
}
