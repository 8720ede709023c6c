// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/glob"
	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/policy"
	"github.com/toolserver/toolserver/internal/tools"
	"github.com/toolserver/toolserver/internal/workspace"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// maxLeftOut is how many entries a summary names that were left out.
const maxLeftOut = 1000

// reason is why an entry is left out.
type reason string

func (r reason) Error() string { return string(r) }

// leaveOut notes an entry that a tree is without. Those that are left out always
// take at most half of the list, so that the others are seen.
func leaveOut(summary *pb.TreeSummary, path string, why error) {
	summary.LeftOutCount++
	_, always := errors.AsType[always](why)
	if always {
		summary.AlwaysLeftOutCount++
	}
	if len(summary.LeftOut) == maxLeftOut || always && summary.AlwaysLeftOutCount > maxLeftOut/2 {
		return
	}
	reason := output.VisibleText(why.Error())
	if s, ok := status.FromError(why); ok {
		reason = s.Message()
	}
	summary.LeftOut = append(summary.LeftOut, &pb.LeftOut{Path: output.ValidText(path), Reason: reason, Always: always})
}

// noted puts what a tree was into the record of the call.
func (t *transfer) noted(summary *pb.TreeSummary, sum []byte) {
	summary.Sha256 = workspace.Hash(sum).String()
	t.record.Count, t.record.Bytes, t.record.Digest = summary.Files, summary.FileBytes, [32]byte(sum)
	if summary.LeftOutCount > 0 {
		were := "entries were"
		if summary.LeftOutCount == 1 {
			were = "entry was"
		}
		t.record.Comment = fmt.Sprintf("%d %s left out, the first: %s: %s",
			summary.LeftOutCount, were, summary.LeftOut[0].Path, summary.LeftOut[0].Reason)
	}
}

func (s *workspaceService) DownloadTree(request *pb.DownloadTreeRequest, stream grpc.ServerStreamingServer[pb.DownloadTreeResponse]) (err error) {
	exclude, err := glob.CompileList(request.GetExclude())
	if err != nil {
		return invalid("exclude: %v", err)
	}
	t, err := s.begin(stream.Context(), readsFiles, request.GetSessionId(), topOf(request.GetPath()), readsTree)
	if err != nil {
		return err
	}
	defer t.end(&err)
	d := &download{transfer: t, exclude: exclude, withheld: t.withheld(), summary: new(pb.TreeSummary)}
	d.out = &chunkWriter{send: func(data []byte) error { return stream.Send(&pb.DownloadTreeResponse{Data: data}) }, sum: sha256.New()}
	d.tar = tar.NewWriter(d.out)
	all, err := t.session.Workspace.Walk(stream.Context(), t.path, maxEntries, d.visit)
	if err == nil && !all {
		err = fmt.Errorf("%s: a directory has more than %d entries: %w", t.path, maxEntries, errTooMany)
	}
	if err == nil {
		err = d.tar.Close()
	}
	if err == nil {
		err = d.out.flush()
	}
	d.summary.ArchiveBytes = d.out.written
	t.noted(d.summary, d.out.sum.Sum(nil))
	if err != nil {
		return err
	}
	return stream.Send(&pb.DownloadTreeResponse{Summary: d.summary})
}

// A download is a tree on its way to a client.
type download struct {
	*transfer
	exclude  glob.List
	withheld func(path string) bool // nil where nothing is
	summary  *pb.TreeSummary
	out      *chunkWriter
	tar      *tar.Writer
	header   tar.Header
	buffer   []byte
}

// visit writes one entry to the archive.
func (d *download) visit(e workspace.Entry) error {
	name, err := filepath.Rel(d.path, e.Path)
	if err != nil {
		return err
	}
	switch {
	case workspace.IsTemporary(e.Path):
		return nil
	case d.exclude.Match(name):
		return skip(e)
	case d.withheld != nil && d.withheld(e.Path):
		why := d.may(tools.ReadsPath, e.Path)
		if why == nil {
			why = reason("a rule of the policy keeps it from being read")
		}
		leaveOut(d.summary, e.Path, why)
		return skip(e)
	}
	d.header = tar.Header{Name: name, Mode: int64(e.Mode.Perm()), ModTime: e.ModTime.Truncate(time.Second)}
	switch {
	case e.Mode.IsDir():
		d.header.Typeflag, d.header.Name = tar.TypeDir, name+"/"
		d.summary.Directories++
		return d.tar.WriteHeader(&d.header)
	case e.Mode&fs.ModeSymlink != 0:
		target, err := d.session.Workspace.Readlink(e.Path)
		if err != nil {
			leaveOut(d.summary, e.Path, err)
			return nil
		}
		d.header.Typeflag, d.header.Linkname = tar.TypeSymlink, target
		d.summary.Links++
		return d.tar.WriteHeader(&d.header)
	case !e.Mode.IsRegular():
		leaveOut(d.summary, e.Path, reason("it is a pipe, a socket or a device"))
		return nil
	}
	return d.file(e.Path)
}

// file writes a regular file to the archive.
func (d *download) file(path string) error {
	d.header.Typeflag = tar.TypeReg
	if d.buffer == nil {
		d.buffer = make([]byte, 4*maxFileChunk)
	}
	for try := 0; ; try++ {
		file, err := d.session.Workspace.OpenFile(path)
		if err != nil {
			leaveOut(d.summary, path, err) // it is gone, something else, or nobody may read it
			return nil
		}
		err = d.content(file)
		file.Close()
		if errors.Is(err, workspace.ErrChanged) && file.Info().Size <= int64(len(d.buffer)) { // nothing of it is sent
			if try < 3 {
				continue
			}
			leaveOut(d.summary, path, err)
			return nil
		}
		return err
	}
}

// content writes a file that is open. One that fits into the buffer is read before
// anything of it is written, so that it can be read again where it has changed.
func (d *download) content(file *workspace.Opened) error {
	size := file.Info().Size
	d.header.Size = size
	small := size <= int64(len(d.buffer))
	if !small {
		if err := d.tar.WriteHeader(&d.header); err != nil {
			return err
		}
	}
	for at := int64(0); at < size || small; {
		data := d.buffer[:min(size-at, int64(len(d.buffer)))]
		if n, err := file.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		} else if n < len(data) {
			return writtenMeanwhile(file.Path())
		}
		at += int64(len(data))
		if at == size {
			if same, err := file.Unchanged(); err != nil || !same {
				return errors.Join(err, writtenMeanwhile(file.Path()))
			}
		}
		if small {
			if err := d.tar.WriteHeader(&d.header); err != nil {
				return err
			}
		}
		if _, err := d.tar.Write(data); err != nil {
			return err
		}
		if small {
			break
		}
	}
	d.summary.Files++
	d.summary.FileBytes += uint64(size)
	return nil
}

// chunkWriter sends what is written to it in chunks.
type chunkWriter struct {
	send    func(data []byte) error
	sum     hash.Hash
	buffer  [maxFileChunk]byte
	n       int
	written uint64
}

func (w *chunkWriter) Write(data []byte) (n int, err error) {
	for len(data) > 0 {
		m := copy(w.buffer[w.n:], data)
		w.n += m
		n += m
		data = data[m:]
		if w.n == len(w.buffer) {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (w *chunkWriter) flush() error {
	if w.n == 0 {
		return nil
	}
	data := w.buffer[:w.n]
	w.n = 0
	w.sum.Write(data)
	w.written += uint64(len(data))
	return w.send(data)
}

func (s *workspaceService) UploadTree(stream grpc.ClientStreamingServer[pb.UploadTreeRequest, pb.UploadTreeResponse]) (err error) {
	in := receive(stream, s.limits.Idle)
	defer in.stop()
	first, err := in.next()
	if err != nil {
		return noHeader(err)
	}
	header := first.GetHeader()
	if header == nil {
		return noHeader(io.EOF)
	}
	digest, err := digestFrom(header.GetSha256())
	if err != nil {
		return err
	}
	t, err := s.begin(stream.Context(), writesFiles, header.GetSessionId(), topOf(header.GetPath()), tools.Env.Writes)
	if err != nil {
		return err
	}
	defer t.end(&err)
	if in.closed, err = s.uploads.closing(t.session); err != nil {
		return err
	}
	a := &arrival{transfer: t, in: &archive{in: in, limit: s.limits.MaxTreeBytes, sum: sha256.New()}, summary: new(pb.TreeSummary)}
	record, err := a.unpack(stream.Context())
	a.summary.ArchiveBytes, a.summary.Directories = uint64(a.in.n), uint64(a.tree.Made())
	sum := a.in.sum.Sum(nil)
	t.noted(a.summary, sum)
	if err != nil {
		return err
	}
	if digest != nil && *digest != workspace.Hash(sum) {
		return status.Errorf(codes.DataLoss, "the archive that arrived has the SHA-256 %s, not %s: what it has was written. Send it again.", a.summary.Sha256, digest)
	}
	return stream.SendAndClose(&pb.UploadTreeResponse{Summary: a.summary, ChangeId: changeID(record)})
}

// An arrival is an archive that is taken apart.
type arrival struct {
	*transfer
	in      *archive
	tree    *workspace.Tree
	summary *pb.TreeSummary
	entries int
	unseen  int64             // bytes since the last look at what is left
	dirs    map[string]string // where the directories of the archive lead
	configs map[string][]byte // of repositories, that were made
}

// unpack takes the archive apart. What was written before an error stays.
func (a *arrival) unpack(ctx context.Context) (*workspace.Record, error) {
	a.tree = a.session.Workspace.BeginTree(a.session.Changes, "", a.spec.Name, func(path string, size int64, err error) {
		a.summary.Files--
		a.summary.FileBytes -= uint64(size)
		leaveOut(a.summary, path, err)
	})
	a.dirs = make(map[string]string)
	err := a.each(ctx)
	record, failed := a.tree.Commit()
	if err == nil {
		err = failed
	}
	return record, err
}

func (a *arrival) each(ctx context.Context) error {
	if a.path != "." {
		if err := a.tree.Mkdir(a.path, 0o777); err != nil {
			return err
		}
	}
	for r := tar.NewReader(a.in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a.in.end()
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return a.in.explain(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.entries++; a.entries > a.service.limits.MaxTreeEntries {
			return fmt.Errorf("the archive has more than %d entries: %w", a.service.limits.MaxTreeEntries, errTooMany)
		}
		if err := a.entry(header, r); err != nil {
			return err
		}
	}
}

// entry takes one entry. An error ends the upload; an entry that may not be
// written is left out.
func (a *arrival) entry(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, why := entryName(header.Name)
	if why != nil {
		leaveOut(a.summary, header.Name, why)
		return nil
	}
	if name == "." {
		return nil
	}
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // a few bytes of an archive, and gigabytes on the disk
			leaveOut(a.summary, header.Name, reason("it is a sparse file: send all of it"))
			return nil
		}
	}
	if header.Typeflag == tar.TypeReg {
		limits := &a.service.limits
		if header.Size > limits.MaxFileBytes {
			return fmt.Errorf("%s has %d bytes, a file may have %d: %w", header.Name, header.Size, limits.MaxFileBytes, errTooMany)
		}
		if int64(a.summary.FileBytes)+header.Size > limits.MaxTreeBytes {
			return fmt.Errorf("the files of the archive have more than %d bytes together: %w", limits.MaxTreeBytes, errTooMany)
		}
		if a.unseen += header.Size + fitsEntry; a.unseen >= fitsStep || a.entries == 1 {
			a.unseen = 0
			if err := a.fits(uint64(header.Size)); err != nil {
				return err
			}
		}
	}
	dir, inside := a.resolve(path.Dir(name))
	if !inside {
		leaveOut(a.summary, filepath.Join(a.path, name), reason("it lies behind a link that leads out of the workspace"))
		return nil
	}
	why = a.make(header, content, dir, name)
	if why == nil {
		return nil
	}
	if a.in.failed != nil || fatal(why) {
		return a.in.explain(why)
	}
	at := filepath.Join(dir, path.Base(name))
	if policy.NeverUploaded(at) {
		why = neverTaken(at, why)
	}
	leaveOut(a.summary, at, why)
	return nil
}

// entryName returns the name of an entry as a clean path below the directory
// that the archive is for, or why it cannot be one.
func entryName(name string) (string, error) {
	switch {
	case name == "":
		return "", reason("it has no name")
	case len(name) > maxPath:
		return "", reason(fmt.Sprintf("its name has %d bytes: at most %d", len(name), maxPath))
	case strings.HasPrefix(name, "/"):
		return "", reason("its name is absolute: names are relative to the directory")
	case strings.Contains(name, "\x00"):
		return "", reason("its name has a NUL character")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", reason(`its name has "..", which may lead elsewhere`)
		}
		if workspace.IsTemporary(part) {
			return "", reason("the server keeps names like this for files that are being written")
		}
	}
	return path.Clean(name), nil
}

// resolve returns where a directory of the archive leads.
func (a *arrival) resolve(dir string) (resolved string, inside bool) {
	if resolved, known := a.dirs[dir]; known {
		return resolved, true
	}
	resolved, inside = a.session.Workspace.Resolve(filepath.Join(a.path, dir))
	if inside {
		if len(a.dirs) == 10_000 {
			clear(a.dirs)
		}
		a.dirs[dir] = resolved
	}
	return resolved, inside
}

// make writes one entry, by its name in the archive and the directory it is in.
func (a *arrival) make(header *tar.Header, content io.Reader, dir, name string) error {
	at := filepath.Join(dir, path.Base(name))
	switch header.Typeflag {
	case tar.TypeReg:
		return a.file(header, content, dir, path.Base(name))
	case tar.TypeDir:
		if path.Base(name) == ".git" {
			return nil // it is made for what comes of it
		}
		dir, inside := a.resolve(name)
		if !inside {
			return reason("there is a link in its place that leads out of the workspace")
		}
		if policy.NeverUploaded(dir) {
			return nil // what comes of it is told
		}
		if err := a.may(tools.WritesPath, dir); err != nil {
			return err
		}
		return a.tree.Mkdir(dir, header.FileInfo().Mode().Perm()|0o700)
	case tar.TypeSymlink:
		if strings.Contains("/"+at, "/.git/") {
			return reason("it is a link inside a repository")
		}
		if err := a.leadsOut(dir, header.Linkname); err != nil {
			return err
		}
		if err := a.may(tools.WritesPath, at); err != nil {
			return err
		}
		if err := a.tree.Symlink(header.Linkname, at); err != nil {
			return err
		}
		clear(a.dirs) // what they lead to may be elsewhere now
		a.summary.Links++
		return nil
	case tar.TypeLink:
		return reason("it is a hard link: send the file itself instead")
	}
	return reason(fmt.Sprintf("it is neither a file, a directory nor a symbolic link (type %q)", header.Typeflag))
}

// leadsOut returns why a link may not be made.
func (a *arrival) leadsOut(dir, target string) error {
	lexical := filepath.Join(dir, target)
	if target == "" || filepath.IsAbs(target) || !filepath.IsLocal(lexical) && lexical != "." || len(target) > maxPath {
		return reason(fmt.Sprintf("it is a link to %.200q, which leads out of the workspace", target))
	}
	if _, inside := a.session.Workspace.Resolve(dir + "/" + target); !inside {
		return reason(fmt.Sprintf("it is a link to %.200q, which leads out of the workspace", target))
	}
	return nil
}

// file writes one regular file. A link in its place is followed, as far as it
// stays in the workspace.
func (a *arrival) file(header *tar.Header, content io.Reader, dir, name string) error {
	at := filepath.Join(dir, name)
	old, err := a.tree.Stat(dir, name)
	if err != nil {
		return err
	}
	if policy.IsRepositoryConfig(at) {
		return a.config(at, header.Size, content, old)
	}
	if policy.IsRepositoryIndex(at) {
		return a.index(at, header.Size, content, old)
	}
	if old.Mode&fs.ModeSymlink != 0 {
		var inside bool
		if at, inside = a.session.Workspace.Resolve(at); !inside {
			return reason("there is a link in its place that leads out of the workspace")
		}
		if old, err = a.tree.Stat(filepath.Dir(at), filepath.Base(at)); err != nil {
			return err
		}
	}
	if err := a.may(tools.WritesPath, at); err != nil {
		return err
	}
	if err := a.tree.Write(at, content, header.FileInfo().Mode().Perm(), old); err != nil {
		return err
	}
	a.summary.Files++
	a.summary.FileBytes += uint64(header.Size)
	return nil
}

// fatal reports whether an error is about more than one entry.
func fatal(err error) bool {
	if _, ok := errors.AsType[reason](err); ok {
		return false
	}
	if _, ok := errors.AsType[always](err); ok {
		return false
	}
	code := status.Code(fileStatus(err))
	return code == codes.ResourceExhausted || code == codes.Unknown
}

// An archive reads the bytes of an archive from the messages of a stream.
type archive struct {
	in     *incoming[pb.UploadTreeRequest]
	data   []byte // of the last message, not read yet
	n      int64
	limit  int64
	sum    hash.Hash
	tail   []byte // the last bytes
	failed error  // why no more can be read, but for the end
}

// trailer is what an archive ends with, at least.
const trailer = 1024

func (a *archive) Read(p []byte) (int, error) {
	for len(a.data) == 0 {
		if err := a.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.data)
	a.data = a.data[n:]
	return n, nil
}

// more takes the next message.
func (a *archive) more() error {
	if a.failed != nil {
		return a.failed
	}
	message, err := a.in.next()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		a.failed = err
		return err
	}
	part, ok := message.GetPart().(*pb.UploadTreeRequest_Data)
	if !ok {
		a.failed = invalid("the stream has a second header, or a message without data: after the header comes data alone")
		return a.failed
	}
	a.data = part.Data
	a.n += int64(len(a.data))
	if a.n > 2*a.limit { // names and padding may take as much as the files
		a.failed = fmt.Errorf("the archive has more than %d bytes: %w", 2*a.limit, errTooMany)
		return a.failed
	}
	a.sum.Write(a.data)
	a.tail = append(a.tail, a.data[max(0, len(a.data)-trailer):]...)
	a.tail = append(a.tail[:0], a.tail[max(0, len(a.tail)-trailer):]...)
	return nil
}

// end reads what comes after the last entry, and makes sure that it is the end.
func (a *archive) end() error {
	for {
		if err := a.more(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if len(a.tail) < trailer || len(bytes.Trim(a.tail, "\x00")) > 0 {
		return invalid("the archive has no end, so that a part may be missing: a tar archive ends with 1024 zero bytes. What it has was written.")
	}
	return nil
}

// explain tells why an archive cannot be read on.
func (a *archive) explain(err error) error {
	switch {
	case a.failed != nil:
		return a.failed
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return invalid("the archive ends in the middle of an entry. What came before was written.")
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return invalid("the archive is malformed (%v): want a tar archive that is not compressed. What came before was written.", err)
	}
	return err
}
