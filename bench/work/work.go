// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package work names what the harness asks of both servers, so that they and
// it cannot differ about it.
package work

import "encoding/json"

// The tools that the harness calls. Those that begin with bench exist in builds
// with the tag bench alone.
const (
	Noop    = "bench_noop"    // does nothing and returns ResultBytes of text
	Output  = "bench_output"  // writes what OutputInput says
	Profile = "bench_profile" // writes a CPU profile of the server; see ProfileInput
	Sleep   = "sleep"

	ReadFile = "read_file" // of FileName, which has FileBytes
	EditFile = "edit_file"

	Bash = "bash" // runs what BashInput says
)

const (
	// ResultBytes is the size of Noop's result.
	ResultBytes = 1024

	// ChunkBytes is the size of a chunk of output: the most that toolserver puts
	// into one event.
	ChunkBytes = 32_000

	// FileName and FileBytes are of the file that is read, in the directory where
	// the servers run.
	FileName  = "read.txt"
	FileBytes = 4096

	// IndexTools is the number of tools in the index that is listed.
	IndexTools = 100
)

// NoopInput is a small input as a typical tool has it.
type NoopInput struct {
	Text string `json:"text" jsonschema:"anything" check:"max=4096"`
}

// OutputInput says how much output to write, and in which pieces.
type OutputInput struct {
	Bytes int64 `json:"bytes" jsonschema:"how many bytes to write" check:"min=0"`
	Chunk int   `json:"chunk" jsonschema:"how many of them at once" check:"min=1,max=1048576"`
}

// ProfileInput says for how long to look.
type ProfileInput struct {
	Milliseconds int `json:"milliseconds" jsonschema:"how long to look" check:"min=1,max=60000"`
}

// SleepInput is the input of Sleep.
type SleepInput struct {
	DurationMS int `json:"duration_ms"`
}

// ReadFileInput is the input of ReadFile.
type ReadFileInput struct {
	Path string `json:"path"`
}

// EditFileInput is the input of EditFile.
type EditFileInput struct {
	Path string `json:"path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
}

// BashInput is the input of Bash.
type BashInput struct {
	Command string `json:"command"`
}

// JSON returns an input as JSON text.
func JSON(input any) []byte {
	text, err := json.Marshal(input)
	if err != nil {
		panic(err) // the inputs above always marshal
	}
	return text
}
