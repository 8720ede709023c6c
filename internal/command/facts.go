// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"strings"

	"github.com/toolserver/toolserver/internal/tools"
)

// Facts are what a model is told of where its commands run, in words.
type Facts struct {
	Network   string // a sentence
	Temporary string // where temporary files are
	Programs  string // those of interest that are there
}

// interesting are programs that a model wants to know of before it makes a plan.
var interesting = strings.Fields(`
	git go python3 pip uv node npm pnpm yarn bun deno cargo rustc java mvn gradle kotlinc dotnet ruby php perl Rscript julia swift zig ghc
	gcc clang make cmake ninja rg fd jq yq curl sqlite3 psql redis-server pandoc ffmpeg convert shellcheck
`)

// Facts returns what is so on this server, unless the rights of a call say
// otherwise.
func (r *Runners) Facts() Facts {
	f := Facts{Network: networkFacts[cmp.Or(r.config.SessionNetwork, r.config.Network)], Temporary: "`$TMPDIR`"}
	if temporary := r.Offer().Temporary; len(temporary) > 0 {
		f.Temporary += ", which is `" + strings.Join(temporary, "` and `") + "` too"
	} else {
		f.Temporary += "; `/tmp` is closed"
	}
	var found []string
	for _, name := range interesting {
		if _, ok := r.Find(name); ok {
			found = append(found, name)
		}
	}
	f.Programs = strings.Join(found, ", ")
	return f
}

var networkFacts = map[tools.Network]string{
	tools.NetworkNone:     "None: nothing can be downloaded, and no port opened.",
	tools.NetworkLoopback: "Loopback of this session only: its own servers can be reached at 127.0.0.1, nothing can be downloaded.",
	tools.NetworkHosts:    "Loopback of this session, and the hosts that the server allows, through the proxy that `https_proxy` names.",
	tools.NetworkOpen:     "Open.",
}
