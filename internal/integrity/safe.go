// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package integrity

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// MaxConfig is the size up to which [SafeConfig] reads a configuration file.
const MaxConfig = 256 << 10

// safeValues are the keys that a repository needs to be used as its owner did, by
// section and name, with the values that they may have. None of them has git run
// a program, or look at files outside of the repository.
var safeValues = sync.OnceValue(func() map[string]*regexp.Regexp {
	boolean := regexp.MustCompile(`^(?i:true|false|yes|no|on|off|[01])$`)
	person := regexp.MustCompile(`^[^\pC<>]{1,200}$`)
	return map[string]*regexp.Regexp{
		"core.repositoryformatversion": regexp.MustCompile(`^[01]$`),
		"core.bare":                    regexp.MustCompile(`^(?i:false|no|off|0)$`),
		"core.filemode":                boolean,
		"core.ignorecase":              boolean,
		"core.precomposeunicode":       boolean,
		"core.symlinks":                boolean,
		"core.logallrefupdates":        regexp.MustCompile(`^(?i:true|false|always)$`),
		"core.autocrlf":                regexp.MustCompile(`^(?i:true|false|input)$`),
		"core.eol":                     regexp.MustCompile(`^(?i:lf|crlf|native)$`),
		"extensions.objectformat":      regexp.MustCompile(`^(?i:sha1|sha256)$`),
		// An address of a host, without a password, and nothing that ssh could take
		// for a flag.
		"remote.url":    regexp.MustCompile(`^((https?|git)://[A-Za-z0-9[][^\s@]*|ssh://([\w.]+@)?[A-Za-z0-9[][^\s@]*|[\w.]+@[A-Za-z0-9][\w.-]*:[^\s:-][^\s:]*)$`),
		"remote.fetch":  regexp.MustCompile(`^\+?refs/[\w./*-]+:refs/[\w./*-]+$`),
		"branch.remote": regexp.MustCompile(`^([A-Za-z0-9_][\w.-]*|\.)$`),
		"branch.merge":  regexp.MustCompile(`^refs/[\w./-]+$`),
		// Who commits, in a line.
		"user.name":  person,
		"user.email": person,
	}
})

// safeSubsection matches the names of remotes and branches that are kept.
var safeSubsection = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w][\w./+@#-]*$`) })

// SafeConfig returns a configuration file of git with those keys of another that
// its repository is read by and that have git run nothing, and the names of the
// keys that it leaves out. A file that git would refuse, or that is larger than
// [MaxConfig], has no keys to keep.
func SafeConfig(data []byte) (config []byte, dropped []string) {
	entries, err := parseConfig(data)
	if err != nil || len(data) > MaxConfig {
		return nil, nil
	}
	var b strings.Builder
	last := ""
	for _, e := range entries {
		section, subsection, name := e.split()
		value := safeValues()[section+"."+name]
		if value == nil || !value.MatchString(e.Value) || !safePlace(section, subsection) || e.executes(func(string) bool { return false }) {
			key := section + "." + name
			if section == "remote" || section == "branch" { // other subsections may be addresses, with passwords
				key = section + "." + clip(subsection) + "." + name
			}
			if !slices.Contains(dropped, key) {
				dropped = append(dropped, key)
			}
			continue
		}
		header := "[" + section + "]\n"
		if subsection != "" {
			header = "[" + section + " " + quote(subsection) + "]\n"
		}
		if header != last {
			b.WriteString(header)
			last = header
		}
		b.WriteString("\t" + name + " = " + quote(e.Value) + "\n")
	}
	return []byte(b.String()), dropped
}

// safePlace reports whether keys of a section are kept with this subsection.
func safePlace(section, subsection string) bool {
	if section == "remote" || section == "branch" {
		return safeSubsection().MatchString(subsection) && !strings.Contains(subsection, "..")
	}
	return subsection == ""
}

// MaxIndex is the size up to which [JudgeIndex] reads an index.
const MaxIndex = 32 << 20

// JudgeIndex returns why an index of a repository with this configuration cannot be
// taken from somebody who need not be trusted; empty: it can, git writes nothing with it
// that runs later. It is read by the sizes of hashes that the configuration says.
func JudgeIndex(index, config []byte) string {
	entries, err := parseConfig(config)
	switch {
	case len(index) > MaxIndex:
		return fmt.Sprintf("it has more than %d MiB", MaxIndex>>20)
	case err != nil:
		return "the configuration of the repository cannot be read"
	case !bytes.HasPrefix(index, []byte("DIRC")):
		return forged
	}
	for _, hash := range hashSizesOf(entries).all() {
		facts, err := (&indexReader{file: bytes.NewReader(index), size: int64(len(index)), hash: hash}).read()
		switch {
		case err != nil:
			return err.Error()
		case facts.bad != "":
			return facts.bad
		case facts.shared != "":
			return "a part of it is in another file"
		}
	}
	return ""
}
