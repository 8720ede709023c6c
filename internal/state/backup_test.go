// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/toolserver/toolserver/internal/state"
)

func TestBackup(t *testing.T) {
	dir := filled(t)
	report, err := state.Check(dir)
	if err != nil || len(report.Damages) > 0 || !report.Clean || len(report.Spaces) != 2 {
		t.Fatalf("Check: %+v, %v", report, err)
	}
	for i, want := range []state.SpaceReport{{Name: "calls", Records: 100}, {Name: "events", Log: true, Records: 100}} {
		if got := report.Spaces[i]; got.Name != want.Name || got.Log != want.Log || got.Records != want.Records || got.Bytes == 0 {
			t.Errorf("the report has %+v, want %+v", got, want)
		}
	}
	before := tree(t, dir)
	var backup bytes.Buffer
	if err := state.Backup(dir, &backup); err != nil {
		t.Fatal(err)
	}
	if after := tree(t, dir); len(after) != len(before) {
		t.Errorf("%d files after the backup, and %d before", len(after), len(before))
	}
	for _, to := range []string{filepath.Join(t.TempDir(), "made", "here"), t.TempDir()} {
		if _, err := state.Restore(bytes.NewReader(backup.Bytes()), to); err != nil {
			t.Fatal(err)
		}
		e := open(t, state.Options{Dir: to})
		wants(t, bucket(t, e, state.Space{Name: "calls"}), "7", "value 7")
		if n := len(must[[]state.Record](t)(logOf(t, e, state.Space{Name: "events"}).Read(t.Context(), "t", 95, 1000))); n != 6 {
			t.Errorf("%d records are left of the last 6", n)
		}
	}
	if _, err := state.Restore(bytes.NewReader(backup.Bytes()), dir); err == nil || !strings.Contains(err.Error(), dir+" is not empty") {
		t.Errorf("Restore over what is there: %v", err)
	}
	e := open(t, state.Options{Dir: dir})
	if err := state.Backup(dir, &backup); err == nil || !strings.Contains(err.Error(), "another process uses") {
		t.Errorf("Backup while it is used: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, lastBlock(t, dir, "jetstream/$G/streams/LOG_ts-events/"))); err != nil {
		t.Fatal(err)
	}
	if report, err := state.Check(dir); err != nil || len(report.Damages) != 1 || !strings.Contains(report.Damages[0], "is missing") {
		t.Errorf("Check of what is damaged: %+v, %v", report, err)
	}
	if err := state.Backup(dir, new(bytes.Buffer)); !errors.Is(err, state.ErrDamaged) {
		t.Errorf("Backup of what is damaged: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := state.Check(none); err == nil || !strings.Contains(err.Error(), "there is no state in "+none) {
		t.Errorf("Check of nothing: %v", err)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("Check made a directory")
	}
}

// TestBadBackups: what is no whole backup leaves nothing.
func TestBadBackups(t *testing.T) {
	dir := filled(t)
	var good bytes.Buffer
	if err := state.Backup(dir, &good); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good.Bytes())
	for i := len(flipped) / 4; i < len(flipped); i += 97 { // one alone may be where it changes nothing
		flipped[i] ^= 1
	}
	packed := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewWriter(w)
		for _, h := range headers {
			h.Mode = 0o600
			if err := archive.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			archive.Write(make([]byte, h.Size))
		}
		if err := errors.Join(archive.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, backup := range map[string][]byte{
		"empty":       {},
		"text":        []byte("this is no backup"),
		"cut":         good.Bytes()[:good.Len()/2],
		"end cut":     good.Bytes()[:good.Len()-1],
		"bits":        flipped,
		"no state":    packed(tar.Header{Name: "file", Size: 3}),
		"upwards":     packed(tar.Header{Name: "../file", Size: 3}),
		"from root":   packed(tar.Header{Name: "/tmp/file", Size: 3}),
		"link":        packed(tar.Header{Name: "jetstream", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}),
		"device":      packed(tar.Header{Name: "jetstream", Typeflag: tar.TypeChar}),
		"twice":       packed(tar.Header{Name: "state.json"}, tar.Header{Name: "state.json"}),
		"nothing in":  packed(),
		"no manifest": packed(tar.Header{Name: "jetstream/x", Size: 3}),
	} {
		parent := t.TempDir()
		_, err := state.Restore(bytes.NewReader(backup), filepath.Join(parent, "state"))
		if err == nil {
			t.Errorf("%s: it was restored", name)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %v, %v", name, left, err)
		}
	}
}
