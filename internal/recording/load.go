// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"errors"
	"fmt"
	"io"
	"os"

	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// MaxLoaded is how many bytes the files have together at most that are held in memory.
const MaxLoaded = 256 << 20

// A Recording is what is in files, in memory.
type Recording struct {
	Tools    []*pb.Tool // each name once: as the last file has it
	Sessions []*pb.Session
	Calls    []*Call // in their order
}

// A Call is an execution and its events.
type Call struct {
	Execution *pb.Execution
	Events    []*pb.Event
}

// Whole reports whether the end of the call is there.
func (c *Call) Whole() bool {
	return len(c.Events) > 0 && c.Events[len(c.Events)-1].GetFinished() != nil
}

// Load reads files as one recording.
func Load(files ...string) (*Recording, error) {
	all := new(Recording)
	tools, calls := make(map[string]int), make(map[string]*Call)
	left := int64(MaxLoaded)
	for _, name := range files {
		if err := all.load(name, &left, tools, calls); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(all.Calls) == 0 {
		return nil, errors.New("nothing is recorded there: no file has an execution")
	}
	return all, nil
}

func (all *Recording) load(name string, left *int64, tools map[string]int, calls map[string]*Call) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	bounded := &io.LimitedReader{R: file, N: *left}
	defer func() { *left = bounded.N }()
	r, err := NewReader(bounded)
	if err != nil {
		return err
	}
	for {
		item, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && bounded.N <= 0:
			return fmt.Errorf("the recordings have more than %d bytes together: serve fewer at once", MaxLoaded)
		case err != nil:
			return err
		case item.Tool != nil:
			if i, known := tools[item.Tool.GetName()]; known {
				all.Tools[i] = item.Tool
				continue
			}
			tools[item.Tool.GetName()] = len(all.Tools)
			all.Tools = append(all.Tools, item.Tool)
		case item.Session != nil:
			all.Sessions = append(all.Sessions, item.Session)
		case item.Execution != nil:
			id := item.Execution.GetExecutionId()
			if calls[id] != nil {
				return fmt.Errorf("execution %s is in a file before it as well: give each once", id)
			}
			calls[id] = &Call{Execution: item.Execution}
			all.Calls = append(all.Calls, calls[id])
		case item.Event != nil:
			c := calls[item.Event.GetExecutionId()]
			c.Events = append(c.Events, item.Event)
		}
	}
}
