// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/session"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// uploads are the files that are being uploaded, by session. They are kept in
// files without a name outside of the workspace, until they are complete.
type uploads struct {
	limits FileLimits

	mu    sync.Mutex
	known map[*session.Session]*sessionUploads
}

// sessionUploads are the uploads of one session.
type sessionUploads struct {
	all   map[*upload]bool
	byID  map[string]*upload
	bytes int64
}

// An upload is a file that is being uploaded. While a stream writes it, file, sum
// and received are the stream's own; the rest is used with the lock of uploads.
type upload struct {
	of       *sessionUploads
	id, path string
	file     *os.File
	sum      hash.Hash
	received int64

	active  bool
	kept    int64 // how much of the file there is
	expires time.Time
	timer   *time.Timer // gives it up; nil while it is active
}

func newUploads(limits FileLimits) *uploads {
	return &uploads{limits: limits, known: make(map[*session.Session]*sessionUploads)}
}

// of returns the uploads of a session, which go with it; with u.mu held.
func (u *uploads) of(s *session.Session) (*sessionUploads, error) {
	if found := u.known[s]; found != nil {
		return found, nil
	}
	if !s.AfterClose(func() { u.forget(s) }) {
		return nil, session.ErrNotFound
	}
	made := &sessionUploads{all: make(map[*upload]bool), byID: make(map[string]*upload)}
	u.known[s] = made
	return made, nil
}

// forget drops the uploads of a session that nobody uses any more.
func (u *uploads) forget(s *session.Session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.known[s]
	for up := range of.all {
		u.drop(up)
	}
	delete(u.known, s)
}

// drop forgets an upload; u.mu is held.
func (u *uploads) drop(up *upload) {
	if !up.of.all[up] {
		return
	}
	delete(up.of.all, up)
	if up.of.byID[up.id] == up {
		delete(up.of.byID, up.id)
	}
	up.of.bytes -= up.kept
	if up.timer != nil {
		up.timer.Stop()
	}
	up.file.Close()
}

// begin returns an upload for a stream to write: a new one or, at an offset, one
// that was begun before. End it with discard or keep.
func (u *uploads) begin(s *session.Session, id, path string, offset uint64) (*upload, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of, err := u.of(s)
	if err != nil {
		return nil, err
	}
	old := of.byID[id]
	switch {
	case id == "" && offset > 0:
		return nil, invalid("offset is %d and upload_id is empty: only an upload with an id can be continued", offset)
	case old != nil && old.active:
		return nil, status.Errorf(codes.Aborted, "another stream writes the upload %.128q just now: wait for its end, or use another id", id)
	case old == nil && offset > 0:
		return nil, status.Errorf(codes.NotFound, "there is no upload %.128q: it is finished, was given up, or never was. Begin at offset 0.", id)
	case offset > 0 && old.path != path:
		return nil, invalid("the upload %.128q is for %s, not for %s: begin another, or begin it anew at offset 0", id, output.VisibleText(old.path), output.VisibleText(path))
	case offset > 0 && uint64(old.received) != offset:
		return nil, status.Errorf(codes.OutOfRange, "the upload %.128q has %d bytes, not %d: continue there", id, old.received, offset)
	case offset > 0:
		old.timer.Stop()
		old.timer, old.active = nil, true
		return old, nil
	case old != nil:
		u.drop(old)
	}
	if len(of.all) >= u.limits.MaxUploads && !u.dropOldest(of) {
		return nil, status.Errorf(codes.ResourceExhausted, "the session has %d uploads under way, as many as it may: wait for one to end", len(of.all))
	}
	file, err := s.Changes.Spool()
	if err != nil {
		return nil, err
	}
	up := &upload{of: of, id: id, path: path, file: file, sum: sha256.New(), active: true}
	of.all[up] = true
	if id != "" {
		of.byID[id] = up
	}
	return up, nil
}

// dropOldest gives up the upload that has waited longest to be continued.
func (u *uploads) dropOldest(of *sessionUploads) bool {
	var oldest *upload
	for up := range of.all {
		if !up.active && (oldest == nil || up.expires.Before(oldest.expires)) {
			oldest = up
		}
	}
	if oldest != nil {
		u.drop(oldest)
	}
	return oldest != nil
}

// write adds bytes to an upload.
func (u *uploads) write(up *upload, data []byte) error {
	n := int64(len(data))
	if up.received+n > int64(u.limits.MaxFileBytes) {
		return fmt.Errorf("%s would have more than %d bytes: %w", up.path, u.limits.MaxFileBytes, errTooMany)
	}
	u.mu.Lock()
	fits := up.of.bytes+n <= int64(u.limits.MaxUploadBytes)
	if fits {
		up.of.bytes += n
		up.kept += n
	}
	u.mu.Unlock()
	if !fits {
		return fmt.Errorf("the unfinished uploads of the session would have more than %d bytes together: %w", u.limits.MaxUploadBytes, errTooMany)
	}
	if _, err := up.file.WriteAt(data, up.received); err != nil {
		return fmt.Errorf("%s: %w", up.path, err)
	}
	up.sum.Write(data)
	up.received += n
	return nil
}

// discard ends an upload: it is complete, or of no use.
func (u *uploads) discard(up *upload) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(up)
}

// keep has an upload wait to be continued.
func (u *uploads) keep(up *upload) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up.active, up.expires = false, time.Now().Add(u.limits.UploadTTL)
	up.of.bytes -= up.kept - up.received // of a write that failed
	up.kept = up.received
	up.timer = time.AfterFunc(u.limits.UploadTTL, func() { u.expire(up) })
}

// expire gives an upload up, unless a stream has taken it meanwhile.
func (u *uploads) expire(up *upload) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !up.active && !up.expires.After(time.Now()) {
		u.drop(up)
	}
}

// find tells of an upload.
func (u *uploads) find(s *session.Session, id string) (*pb.Upload, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.known[s]
	if of == nil || id == "" || of.byID[id] == nil {
		return nil, status.Errorf(codes.NotFound, "there is no upload %.128q: it is finished, was given up, or never was", id)
	}
	up := of.byID[id]
	m := &pb.Upload{UploadId: id, Path: output.ValidText(up.path), ReceivedBytes: uint64(up.kept), Active: up.active}
	if !up.active {
		m.ExpireTime = timestamppb.New(up.expires)
	}
	return m, nil
}

// incoming are the messages of a stream of a client. One that brings nothing for
// long, or whose session is closed, ends.
type incoming[Q any] struct {
	messages chan *Q
	failed   error // why there are no more; set before messages is closed
	done     chan struct{}
	closed   <-chan struct{}
	ended    <-chan struct{} // when the call is cut; its link knows why
	idle     time.Duration
	timer    *time.Timer
}

// receive begins to receive. Call stop after use.
func receive[Q, A any](stream grpc.ClientStreamingServer[Q, A], idle time.Duration) *incoming[Q] {
	in := &incoming[Q]{messages: make(chan *Q), done: make(chan struct{}), ended: stream.Context().Done(), idle: idle, timer: time.NewTimer(idle)}
	go func() {
		defer close(in.messages)
		for {
			message, err := stream.Recv()
			if err != nil {
				in.failed = err
				return
			}
			select {
			case in.messages <- message:
			case <-in.done:
				return
			}
		}
	}()
	return in
}

// stop ends what receives, as soon as the call has returned.
func (in *incoming[Q]) stop() {
	close(in.done)
	in.timer.Stop()
}

// next returns the next message; io.EOF at the end.
func (in *incoming[Q]) next() (*Q, error) {
	in.timer.Reset(in.idle)
	select {
	case message, ok := <-in.messages:
		if !ok {
			return nil, in.failed
		}
		return message, nil
	case <-in.closed:
		return nil, errSessionClosed
	case <-in.ended:
		return nil, status.Error(codes.Canceled, "the call was ended")
	case <-in.timer.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "nothing has arrived for %s: the upload has ended", in.idle)
	}
}
