// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP serves read_file as the SDK's own documentation has it: a typed tool over
// streamable HTTP or, at the address stdio, over standard input and output, with no options.
func serveMCP(address string) error {
	type input struct {
		Path string `json:"path" jsonschema:"the file to read"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "read_file", Description: "Read a file."}, func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		text, err := os.ReadFile(in.Path)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, nil
	})
	if address == "stdio" {
		return server.Run(context.Background(), &mcp.StdioTransport{})
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	line := map[string]string{"msg": "serving", "address": listener.Addr().String(), "http": listener.Addr().String()}
	if err := json.NewEncoder(os.Stderr).Encode(line); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	return http.Serve(listener, mux)
}
