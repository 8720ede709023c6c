// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that reading a backup takes.
const maxWindow = 64 << 20

// Check tells what is in a directory that nobody uses, and what of it is damaged. It
// changes nothing.
func Check(dir string) (Report, error) {
	d, err := openExisting(dir)
	if err != nil {
		return Report{}, err
	}
	defer d.close()
	i := inspection{d: d}
	err = i.run()
	return i.report, err
}

// openExisting locks a directory that has state.
func openExisting(dir string) (*directory, error) {
	if _, err := os.Stat(filepath.Join(dir, manifestName)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, storeName)); err != nil {
			return nil, fmt.Errorf("there is no state in %s: name the directory that the server was given", dir)
		}
	}
	return readDirectory(dir)
}

// Backup writes a directory that nobody uses as a compressed tar. One that is damaged is
// refused, for a backup of it would replace a good one.
func Backup(dir string, to io.Writer) error {
	d, err := openExisting(dir)
	if err != nil {
		return err
	}
	defer d.close()
	i := inspection{d: d}
	if err := i.run(); err != nil {
		return err
	}
	if len(i.report.Damages) > 0 {
		return damaged(dir, strings.Join(i.report.Damages, "; "))
	}
	compressed, err := zstd.NewWriter(to)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, relErr); err != nil || name == lockName || !entry.Type().IsRegular() {
			return err
		}
		return addFile(archive, path, name)
	})
	return errors.Join(err, archive.Close(), compressed.Close())
}

func addFile(archive *tar.Writer, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	err = archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()})
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// Restore makes a directory of a backup. The directory must be new, or empty: it is there
// as a whole, or not at all.
func Restore(from io.Reader, dir string) (Report, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return Report{}, fmt.Errorf("%s is not empty: move it away, or restore into another directory", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, err
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o700); err != nil {
		return Report{}, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), ".restoring-*")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(temp) // unless it was renamed
	if err := extract(from, temp); err != nil {
		return Report{}, fmt.Errorf("this is no backup of the state, or not a whole one: %w", err)
	}
	report, err := Check(temp)
	if err == nil && len(report.Damages) > 0 {
		err = fmt.Errorf("%w in the backup: %s", ErrDamaged, strings.Join(report.Damages, "; "))
	}
	if err != nil {
		return Report{}, err
	}
	if err := syncTree(temp); err != nil {
		return Report{}, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return Report{}, err
	}
	if err := os.Rename(temp, dir); err != nil {
		return Report{}, err
	}
	return report, syncFile(filepath.Dir(filepath.Clean(dir)))
}

// extract writes the files of a backup below a directory, and nowhere else.
func extract(from io.Reader, to string) error {
	compressed, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer compressed.Close()
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	files := 0
	for archive := tar.NewReader(compressed); ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && files == 0 {
			return errors.New("there is nothing in it")
		}
		if errors.Is(err, io.EOF) {
			// What follows the archive is read too: its checksum is there.
			_, err = io.Copy(io.Discard, compressed)
			return err
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return fmt.Errorf("it has %q, which is no file of the state", header.Name)
		}
		if err := extractFile(root, header.Name, archive); err != nil {
			return err
		}
	}
}

func extractFile(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
