// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"time"

	"github.com/toolserver/toolserver/internal/sandbox"
	"github.com/toolserver/toolserver/internal/size"
)

// Limits are the section "sandbox.limits" of the configuration. 0 means no limit.
type Limits struct {
	// Of one command. CPU is that of each of its processes.
	Memory    size.Bytes    `yaml:"memory"`
	Processes int           `yaml:"processes"`
	CPU       time.Duration `yaml:"cpu"`
	OpenFiles int           `yaml:"open_files"`
	FileSize  size.Bytes    `yaml:"file_size"`
	Output    size.Bytes    `yaml:"output"`

	// Commands that run at once.
	PerSession int `yaml:"per_session"`
	PerServer  int `yaml:"per_server"`

	// Of all commands of a session together, background processes and interpreters
	// included, and of all commands there are.
	SessionMemory    size.Bytes    `yaml:"session_memory"`
	SessionProcesses int           `yaml:"session_processes"`
	SessionCPU       time.Duration `yaml:"session_cpu"`
	ServerMemory     size.Bytes    `yaml:"server_memory"`
	ServerProcesses  int           `yaml:"server_processes"`

	// SessionFiles is how many files and directories there may be in the workspace,
	// the home and the temporary directory of a session that are younger than its
	// first command.
	SessionFiles int `yaml:"session_files"`

	// What commands leave free of each file system they write to, or a tenth of it
	// where that is less.
	ReservedFiles int        `yaml:"reserved_files"`
	ReservedSpace size.Bytes `yaml:"reserved_space"`
}

// DefaultLimits are the limits of a server that was told none.
func DefaultLimits() Limits {
	return Limits{
		Memory:     4 << 30,
		Processes:  512,
		CPU:        time.Hour,
		OpenFiles:  4096,
		FileSize:   4 << 30,
		Output:     4 << 30,
		PerSession: 32,
		PerServer:  512,

		SessionMemory:    8 << 30,
		SessionProcesses: 1024,

		SessionFiles:  1_000_000,
		ReservedFiles: 20_000,
		ReservedSpace: 256 << 20,
	}
}

// command returns the limits of one command, as the sandbox takes them.
func (l *Limits) command() sandbox.Limits {
	return sandbox.Limits{
		Memory: uint64(l.Memory), Processes: l.Processes, CPU: l.CPU,
		OpenFiles: uint64(l.OpenFiles), FileSize: uint64(l.FileSize),
	}
}

func (l *Limits) session() sandbox.GroupLimits {
	return sandbox.GroupLimits{Memory: uint64(l.SessionMemory), Processes: l.SessionProcesses, CPU: l.SessionCPU}
}

func (l *Limits) server() sandbox.GroupLimits {
	return sandbox.GroupLimits{Memory: uint64(l.ServerMemory), Processes: l.ServerProcesses}
}
