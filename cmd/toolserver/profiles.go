// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// heapSampling is how many bytes are allocated between two samples, as Go has it
// by default, in servers that show profiles. The others take no samples.
const heapSampling = 512 << 10

// maxProfile is how long a profile may take. The admin port ends an answer that
// takes much longer.
const maxProfile = 100 * time.Second

// profiles serves profiles under /debug/pprof/, as "go tool pprof" and "go tool
// trace" want them. It does without net/http/pprof, which every server that
// links it would pay for at its start.
func profiles(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, profilesPath)
	switch name {
	case "":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "cmdline\nprofile?seconds=30\ntrace?seconds=1\n")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%s (%d)\n", p.Name(), p.Count())
		}
	case "cmdline":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, strings.Join(os.Args, "\x00"))
	case "profile":
		record(w, r, name, 30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case "trace":
		record(w, r, name, time.Second, trace.Start, trace.Stop)
	default:
		showNow(w, r, name)
	}
}

// record answers with what is recorded for a number of seconds.
func record(w http.ResponseWriter, r *http.Request, name string, length time.Duration, start func(io.Writer) error, stop func()) {
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 || time.Duration(seconds) > maxProfile/time.Second {
			http.Error(w, fmt.Sprintf("seconds=%s: want 1 to %d", text, maxProfile/time.Second), http.StatusBadRequest)
			return
		}
		length = time.Duration(seconds) * time.Second
	}
	asFile(w, name)
	if err := start(w); err != nil { // somebody else records already
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(r.Context(), length)
	defer cancel()
	<-ctx.Done()
}

// showNow answers with a profile of what is now: binary, or as text with debug=1.
func showNow(w http.ResponseWriter, r *http.Request, name string) {
	profile := pprof.Lookup(name)
	if profile == nil {
		http.Error(w, fmt.Sprintf("there is no profile %q: %s lists them", name, profilesPath), http.StatusNotFound)
		return
	}
	if name == "heap" && r.FormValue("gc") != "" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug"))
	if debug != 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		asFile(w, name)
	}
	profile.WriteTo(w, debug)
}

func asFile(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}
