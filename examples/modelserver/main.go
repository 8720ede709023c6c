// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command modelserver serves a model that says what a file has it say, for trying agents without
// a provider:
//
//	go run ./examples/modelserver -listen 127.0.0.1:8670 examples/modelserver/script.json
//
// The file is a list of turns, the first for a conversation in which the model has said
// nothing yet. A turn has text, and calls, each with tool and input; or the status of an error
// that the provider answers with, such as 401. In the configuration of a server, an entry of models has url
// http://127.0.0.1:8670/v1 with format openai, or without /v1 with format anthropic, any model
// and any key.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/toolserver/toolserver/internal/model/modeltest"
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:8670", "address to serve on")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `modelserver [-listen ADDRESS] FILE serves a model that says what FILE has it say: a list of turns, such as
  [{"text": "I look.", "calls": [{"tool": "list_dir", "input": {"path": "."}}]}, {"text": "Done."}]
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("want the file with the script, and there is none: modelserver [-listen ADDRESS] FILE")
	}
	turns, err := read(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("serving a model of %d turns at http://%s\n", len(turns), listener.Addr())
	server := http.Server{Handler: modeltest.New(modeltest.Turns(turns...)), ReadHeaderTimeout: time.Minute}
	log.Fatal(server.Serve(listener))
}

// read reads a script.
func read(file string) (turns []modeltest.Turn, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&turns); err != nil {
		return nil, fmt.Errorf("%s is no list of turns: %w", file, err)
	}
	return turns, nil
}
