// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package console serves a page on which people see what agents do, answer what they ask,
// and find out why something was refused. The page is a client of the REST edge like any
// other: nothing is decided here. Its sources are in web, and what is built of them, which
// is served, in dist.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/site"
)

// Path is where the console is.
const Path = "/console/"

// policy lets the page load what this server embeds and nothing else. No text becomes
// markup: there are no trusted types at all.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Config is what a [Handler] is made of.
type Config struct {
	// REST answers what the page asks.
	REST http.Handler

	// Authenticator knows whose tokens they are that people sign in with: the same that the
	// chain asks about every call.
	Authenticator auth.Authenticator

	// Issuers are those of tokens; people sign in at some of them.
	Issuers []*auth.Issuer

	// Site keeps other sites out.
	Site site.Filter
}

// A Handler serves the console.
type Handler struct {
	config Config
	paths  *http.ServeMux
}

// New returns a handler for everything below [Path].
func New(config Config) *Handler {
	h := &Handler{config: config, paths: http.NewServeMux()}
	h.paths.HandleFunc(Path, serveFile)
	h.paths.HandleFunc("POST "+Path+"sign-in", h.signIn)
	h.paths.HandleFunc("POST "+Path+"sign-out", h.signOut)
	h.paths.HandleFunc("GET "+Path+"sign-in", h.ways)
	h.paths.HandleFunc("POST "+Path+"sign-in/begin", h.beginSignIn)
	h.paths.HandleFunc("POST "+Path+"sign-in/finish", h.finishSignIn)
	h.paths.HandleFunc("GET "+Path+signedIn+"{name}", h.comeBack)
	h.paths.HandleFunc(Path+"v1/", h.forward)
	return h
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if err := h.config.Site.Check(r); err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	h.paths.ServeHTTP(w, r)
}

//go:embed dist
var dist embed.FS

// A file is one that is served.
type file struct {
	plain, zipped []byte
	tag           string
}

// files are those of dist by name. They are packed when the first is asked for.
var files = sync.OnceValue(func() map[string]file {
	all := make(map[string]file)
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f := file{}
		if f.plain, err = dist.ReadFile(name); err != nil {
			return err
		}
		var packed bytes.Buffer
		packer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is one
		packer.Write(f.plain)                                           // a buffer takes everything
		packer.Close()
		f.zipped = packed.Bytes()
		sum := sha256.Sum256(f.plain)
		f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
		all[strings.TrimPrefix(name, "dist/")] = f
		return nil
	})
	if err != nil {
		panic(err) // it is in memory
	}
	return all
})

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// serveFile answers with a file of the page.
func serveFile(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Path)
	if name == "" {
		name = "index.html"
	}
	f, ok := files()[name]
	if !ok || r.Method != http.MethodGet {
		refuse(w, http.StatusNotFound, "the console has no such file: it begins at "+Path)
		return
	}
	header := w.Header()
	header.Set("Content-Type", mediaTypes[path.Ext(name)])
	header.Set("Cache-Control", "no-cache") // it is asked whether it is still the same
	header.Set("Vary", "Accept-Encoding")
	header.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
