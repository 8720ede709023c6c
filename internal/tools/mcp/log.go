// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/output"
)

// What is kept of what a server says, and how much of it goes to the log of this server.
const (
	maxLogLines  = 500
	maxLogLine   = 1000
	maxPerSecond = 20
)

// A journal keeps the last lines of what a server said.
type journal struct {
	name   string
	logger *zap.Logger
	mask   func(string) string

	mu     sync.Mutex
	open   []byte // the beginning of a line
	lines  []string
	second int64 // in which so many lines went to the log
	logged int
	lost   int
}

// write takes what a server writes to standard error.
func (j *journal) write(data []byte) {
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		j.mu.Lock()
		j.open = append(j.open, line[:min(len(line), max(0, maxLogLine-len(j.open)))]...)
		text := string(j.open)
		if whole {
			j.open = j.open[:0]
		}
		j.mu.Unlock()
		if whole {
			j.add(zapcore.DebugLevel, text)
		}
	}
}

func (j *journal) printf(format string, args ...any) {
	j.add(zapcore.InfoLevel, fmt.Sprintf(format, args...))
}

// add takes a line.
func (j *journal) add(level zapcore.Level, text string) {
	text = strings.TrimSpace(output.WithoutInvisible(output.Clean([]byte(text))))
	if text == "" {
		return
	}
	if j.mask != nil {
		text = j.mask(text)
	}
	text = output.Short(text, maxLogLine)
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) >= maxLogLines {
		j.lines = slices.Delete(j.lines, 0, len(j.lines)-maxLogLines+1)
	}
	j.lines = append(j.lines, now.UTC().Format(time.RFC3339)+" "+text)
	if now.Unix() != j.second {
		if j.lost > 0 {
			j.logger.Info("an MCP server said more than is logged", zap.String("source", j.name), zap.Int("lines", j.lost))
		}
		j.second, j.logged, j.lost = now.Unix(), 0, 0
	}
	if j.logged++; j.logged > maxPerSecond {
		j.lost++
		return
	}
	j.logger.Log(level, "an MCP server says", zap.String("source", j.name), zap.String("text", text))
}

// last returns the last line, without its time.
func (j *journal) last() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == 0 {
		return ""
	}
	_, text, _ := strings.Cut(j.lines[len(j.lines)-1], " ")
	return output.Short(text, 200)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// Log returns the last lines of what the server said.
func (s *Source) Log() []string { return s.log.all() }

// said takes a message of the server's log.
func (s *Source) said(severity, logger string, message any) {
	level := zapcore.DebugLevel
	switch severity {
	case "warning":
		level = zapcore.InfoLevel
	case "error", "critical", "alert", "emergency":
		level = zapcore.WarnLevel
	}
	text, ok := message.(string)
	if !ok {
		data, _ := json.Marshal(message)
		text = string(data)
	}
	if logger != "" {
		text = logger + ": " + text
	}
	s.log.add(level, severity+" "+text)
}
