// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package script offers the tools of a folder of the operator: one manifest for each, and
// the program that it names. They run in the sandbox, with the rights of their verdict.
package script

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolserver/toolserver/internal/command"
	"github.com/toolserver/toolserver/internal/source"
	"github.com/toolserver/toolserver/internal/tools"
)

// Config is a folder with tools.
type Config struct {
	Name string `yaml:"name"` // the namespace of its tools
	Dir  string `yaml:"dir"`

	// Secrets are variables whose values are in files, for the manifests that name them.
	Secrets map[string]string `yaml:"secret_files"`
}

const (
	// interval is how often a folder is looked at. That works on every file system, and
	// with the links that Kubernetes swaps.
	interval     = time.Second
	maxManifests = 500
)

// A Source offers the tools of a folder.
type Source struct {
	config  Config
	runners *command.Runners
	first   chan struct{} // closed once the folder was looked at
	once    sync.Once

	mu      sync.Mutex
	broken  []string // manifests
	missing []string // programs of others
}

var _ source.Detailed = (*Source)(nil)

// New returns the source of a folder.
func New(config Config, runners *command.Runners) *Source {
	return &Source{config: config, runners: runners, first: make(chan struct{})}
}

// Name returns the namespace of the tools.
func (s *Source) Name() string { return s.config.Name }

// Kind returns that of its tools.
func (s *Source) Kind() tools.Kind { return tools.Script }

// Scanned is closed when the folder was read for the first time.
func (s *Source) Scanned() <-chan struct{} { return s.first }

// Detail tells where the folder is, which manifests are wrong, and why.
func (s *Source) Detail() source.Detail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return source.Detail{At: s.config.Dir, Refused: s.broken}
}

// Serve offers what is in the folder, and again when that changes. A manifest that is
// wrong offers nothing, and takes nothing from the others.
func (s *Source) Serve(ctx context.Context, offer func([]tools.Tool)) error {
	defer s.once.Do(func() { close(s.first) })
	files, inForce, err := read(s.config.Dir)
	if err != nil {
		return err
	}
	s.offer(files, offer)
	s.once.Do(func() { close(s.first) })
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for last := inForce; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		files, now, err := read(s.config.Dir)
		if err != nil {
			return err
		}
		// What is half written is another thing the next time.
		if now == last && (now != inForce || s.mended(files)) {
			s.offer(files, offer)
			inForce = now
		}
		last = now
	}
}

// mended reports whether something else is wrong now with the same manifests: what they
// name came, or went.
func (s *Source) mended(files []file) bool {
	_, broken, missing := s.load(files)
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.Equal(s.broken, broken) || !slices.Equal(s.missing, missing)
}

// load returns the tools of manifests, what is wrong with some of them, and the names of
// programs that are not there.
func (s *Source) load(files []file) (list []tools.Tool, broken, missing []string) {
	for _, f := range files {
		p, err := f.parse(&s.config)
		if err != nil {
			broken = append(broken, mistakes(f.path, err)...)
			continue
		}
		unavailable := ""
		if name := p.Command[0]; !strings.Contains(name, "/") { // others were looked at
			if _, ok := s.runners.Find(name); !ok {
				missing = append(missing, name)
				unavailable = command.NoProgram(name)
			}
		}
		list = append(list, p.tool(s.runners, unavailable))
	}
	return list, broken, missing
}

func (s *Source) offer(files []file, offer func([]tools.Tool)) {
	list, broken, missing := s.load(files)
	s.mu.Lock()
	s.broken, s.missing = broken, missing
	s.mu.Unlock()
	offer(list)
}

// mistakes returns what is wrong with a manifest, each with its file and line.
func mistakes(path string, err error) []string {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > 1 {
		lines = lines[1:] // the first says that they follow
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, path) { // it is about what is missing
			lines[i] = path + ": " + line
		}
	}
	return lines
}

// Check returns everything that is wrong with the manifests of a folder. missing returns why
// there is no program of a name, or nothing.
func Check(config Config, missing func(program string) string) (wrong []string) {
	files, _, err := read(config.Dir)
	if err != nil {
		return []string{err.Error()}
	}
	at := make(map[string]string)
	for _, f := range files {
		p, err := f.parse(&config)
		switch {
		case err != nil:
			wrong = append(wrong, mistakes(f.path, err)...)
		case at[p.Name] != "":
			wrong = append(wrong, fmt.Sprintf("%s: there is a tool %s in %s", f.path, p.Name, at[p.Name]))
		default:
			at[p.Name] = f.path
			if program := p.Command[0]; !strings.Contains(program, "/") { // others were looked at
				if why := missing(program); why != "" {
					wrong = append(wrong, fmt.Sprintf("%s: command: %s", f.path, why))
				}
			}
		}
	}
	return wrong
}

type file struct {
	path string
	text []byte
	err  error // it could not be read
}

func (f *file) parse(config *Config) (*program, error) {
	if f.err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, f.err)
	}
	return parse(f.path, f.text, config.Secrets)
}

// read returns the manifests of a folder, and what tells them from others.
func read(dir string) (files []file, digest [sha256.Size]byte, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, digest, err
	}
	var paths []string
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); (ext == ".yaml" || ext == ".yml") && entry.Name()[0] != '.' {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	if len(paths) > maxManifests {
		return nil, digest, fmt.Errorf("%s has %d manifests: at most %d", dir, len(paths), maxManifests)
	}
	sum := sha256.New()
	for _, path := range paths {
		text, err := readFile(path)
		fmt.Fprintf(sum, "%d:%s%d:%s%v", len(path), path, len(text), text, err)
		files = append(files, file{path, text, err})
	}
	sum.Sum(digest[:0])
	return files, digest, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	return text, err
}
