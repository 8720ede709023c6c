// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command bare is the yardstick of the harness: a default grpc-go server that
// answers with the messages toolserver answers with, and does nothing else. It
// has no options, no interceptors and no tools; it builds its messages afresh
// for each call, as any handler would.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protodelim"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	answers := flag.String("answers", "", "file with the answers of a toolserver; without it the server has no tools")
	overMCP := flag.Bool("mcp", false, "serve read_file over MCP, with the official SDK, instead: over HTTP, or where listen is stdio")
	flag.Parse()
	if *overMCP {
		if err := serveMCP(*listen); err != nil {
			fmt.Fprintln(os.Stderr, "bare:", err)
			os.Exit(1)
		}
		return
	}
	if err := serve(*listen, *answers); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func serve(address, answers string) error {
	service := &bare{list: new(pb.ListToolsResponse)}
	if answers != "" {
		if err := service.learn(answers); err != nil {
			return fmt.Errorf("%s: %w", answers, err)
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterToolServiceServer(server, service)
	pb.RegisterWorkspaceServiceServer(server, files{})

	// The line has the form of toolserver's own.
	line := map[string]string{"msg": "serving", "address": listener.Addr().String()}
	if err := json.NewEncoder(os.Stderr).Encode(line); err != nil {
		return err
	}
	return server.Serve(listener)
}

// learn reads what a toolserver answered: its ListToolsResponse, then the
// messages of one call, each with its length before it.
func (b *bare) learn(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if err := protodelim.UnmarshalFrom(r, b.list); err != nil {
		return err
	}
	var messages []*pb.ExecuteToolResponse
	for {
		message := new(pb.ExecuteToolResponse)
		if err := protodelim.UnmarshalFrom(r, message); errors.Is(err, io.EOF) {
			return b.model(messages)
		} else if err != nil {
			return err
		}
		messages = append(messages, message)
	}
}
