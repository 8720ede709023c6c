// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Command image writes the container image of toolserver as an OCI image layout,
// without a container engine. It is what deploy/Dockerfile describes:
//
//	go run . -out DIR -version V FILE...            the server alone
//	go run . -out DIR -version V -root TREE FILE... on top of the file tree of a system
//
// The files go to /usr/bin. The same input gives the same image.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is who the server runs as, in the image and in the chart.
const user = 65532

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "where the layout is written; what is there is replaced")
	flag.StringVar(&o.version, "version", "dev", "version of the server")
	flag.StringVar(&o.root, "root", "", "file tree of a system to build on; none: the server alone")
	flag.StringVar(&o.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "certificates to trust, where there is no system")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture of the files")
	flag.Parse()
	o.programs = flag.Args()
	digest, err := o.build()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

type options struct {
	out, version, root, certificates, arch string
	programs                               []string
}

// build writes the layout and returns the digest of the image.
func (o *options) build() (v1.Hash, error) {
	if o.out == "" || len(o.programs) == 0 {
		return v1.Hash{}, errors.New("want -out DIR and the programs that go to /usr/bin")
	}
	if info, err := os.Stat(o.out); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(o.out, "oci-layout")); err != nil {
			if entries, _ := os.ReadDir(o.out); len(entries) > 0 {
				return v1.Hash{}, fmt.Errorf("%s is not empty and no image layout: it is not replaced", o.out)
			}
		}
	}
	image, err := o.image()
	if err != nil {
		return v1.Hash{}, err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(o.out, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return v1.Hash{}, err
	}
	err = path.AppendImage(image, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: o.arch}),
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version}))
	if err != nil {
		return v1.Hash{}, err
	}
	return image.Digest()
}

func (o *options) image() (v1.Image, error) {
	base := o.bare
	if o.root != "" {
		base = func(w *tar.Writer) error { return addTree(w, o.root) }
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, step := range []struct {
		what string
		fill func(*tar.Writer) error
	}{
		{"the system", base},
		{"directories", o.directories},
		{"toolserver", o.binaries},
	} {
		layer, err := newLayer(step.fill)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, History: v1.History{CreatedBy: "build/image: " + step.what, Created: v1.Time{Time: time.Unix(0, 0).UTC()}},
		})
		if err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", o.arch
	file.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/usr/bin/toolserver"},
		Cmd:          []string{"serve"},
		WorkingDir:   "/workspace",
		Env:          []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/var/lib/toolserver", "XDG_STATE_HOME=/var/lib/toolserver/state"},
		ExposedPorts: map[string]struct{}{"8665/tcp": {}, "8666/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/toolserver": {}, "/workspace": {}, "/tmp": {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "toolserver",
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/toolserver/toolserver",
		},
	}
	return mutate.ConfigFile(image, file)
}

// newLayer makes a layer of what fill writes. It is kept in a temporary file that is
// gone when the program ends.
func newLayer(fill func(*tar.Writer) error) (v1.Layer, error) {
	file, err := os.CreateTemp("", "layer")
	if err != nil {
		return nil, err
	}
	os.Remove(file.Name())
	w := tar.NewWriter(file)
	if err := fill(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(file, 0, size)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// bare fills what a server needs that has no system below it.
func (o *options) bare(w *tar.Writer) error {
	certificates, err := os.ReadFile(o.certificates)
	if err != nil {
		return err
	}
	for _, dir := range []string{"etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "proc", "sys", "dev"} {
		if err := add(w, dir+"/", tar.TypeDir, 0o755, 0, nil); err != nil {
			return err
		}
	}
	for _, file := range []struct{ name, text string }{
		{"etc/passwd", fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\ntoolserver:x:%d:%d::/var/lib/toolserver:/sbin/nologin\n", user, user)},
		{"etc/group", fmt.Sprintf("root:x:0:\ntoolserver:x:%d:\n", user)},
		{"etc/nsswitch.conf", "hosts: files dns\n"},
		{"etc/ssl/certs/ca-certificates.crt", string(certificates)},
	} {
		if err := add(w, file.name, tar.TypeReg, 0o644, 0, []byte(file.text)); err != nil {
			return err
		}
	}
	return nil
}

// directories are what the server writes to: volumes, where the root cannot be written.
// Its own files and the workspace are apart, or no command would be run.
func (o *options) directories(w *tar.Writer) error {
	for _, dir := range []struct {
		name  string
		mode  int64
		owner int
	}{{"tmp/", 0o1777, 0}, {"var/", 0o755, 0}, {"var/lib/", 0o755, 0}, {"var/lib/toolserver/", 0o750, user}, {"workspace/", 0o750, user}, {"etc/toolserver/", 0o755, 0}} {
		if err := add(w, dir.name, tar.TypeDir, dir.mode, dir.owner, nil); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) binaries(w *tar.Writer) error {
	for _, path := range o.programs {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(text, []byte("\x7fELF")) {
			return fmt.Errorf("%s is no program for Linux", path)
		}
		if err := add(w, "usr/bin/"+filepath.Base(path), tar.TypeReg, 0o755, 0, text); err != nil {
			return err
		}
	}
	return nil
}

func add(w *tar.Writer, name string, kind byte, mode int64, owner int, text []byte) error {
	err := w.WriteHeader(&tar.Header{
		Name: name, Typeflag: kind, Mode: mode, Uid: owner, Gid: owner, Size: int64(len(text)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// leftOut is what of a system is made anew wherever it runs, or only its installation needs.
var leftOut = []string{"proc/", "sys/", "dev/", "tmp/", "run/", "var/cache/apt/", "var/lib/apt/lists/", "var/log/", "debootstrap/", "etc/resolv.conf", "etc/hostname"}

// addTree adds a file tree, in the order of its names. Links are links, hard links too;
// devices and sockets are left out, and times are those of the beginning.
func addTree(w *tar.Writer, root string) error {
	seen := make(map[[2]uint64]string)
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		for _, prefix := range leftOut {
			if strings.HasPrefix(name, prefix) {
				return skipDir(entry)
			}
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		case !info.IsDir() && !info.Mode().IsRegular():
			return nil
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		header.Name = name
		if info.IsDir() {
			header.Name += "/"
		}
		header.ModTime, header.AccessTime, header.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
		header.Uname, header.Gname, header.Format = "", "", tar.FormatPAX
		header.Mode &^= 0o6000 // nobody becomes somebody else in a pod
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && stat.Nlink > 1 {
			id := [2]uint64{uint64(stat.Dev), stat.Ino}
			if first, ok := seen[id]; ok {
				header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
			} else {
				seen[id] = name
			}
		}
		if err := w.WriteHeader(header); err != nil || header.Size == 0 {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(w, file)
		return err
	})
}

// skipDir returns what leaves out a directory with all in it.
func skipDir(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
