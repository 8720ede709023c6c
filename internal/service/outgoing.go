// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outgoing are the messages of a stream to a client that fetches files. A client that
// takes nothing for long, or whose session is closed, is not waited for.
type outgoing[A any] struct {
	stream grpc.ServerStreamingServer[A]
	idle   time.Duration
	closed <-chan struct{} // of the session; nil where there is none
	begun  bool

	// From the second message on, since gRPC always has room for the first.
	messages chan *A
	sent     chan error // has room for one
	timer    *time.Timer
}

// sending returns what sends to a stream. Call stop after use.
func sending[A any](stream grpc.ServerStreamingServer[A], idle time.Duration, closed <-chan struct{}) *outgoing[A] {
	return &outgoing[A]{stream: stream, idle: idle, closed: closed}
}

// stop ends what sends, as soon as the call has returned.
func (o *outgoing[A]) stop() {
	if o.messages != nil {
		close(o.messages)
		o.timer.Stop()
	}
}

// send sends a message. After an error nobody may change what the message points to.
func (o *outgoing[A]) send(message *A) error {
	select {
	case <-o.closed:
		return errSessionClosed
	default:
	}
	if !o.begun {
		o.begun = true
		return o.stream.Send(message)
	}
	if o.messages == nil {
		o.messages, o.sent, o.timer = make(chan *A), make(chan error, 1), time.NewTimer(o.idle)
		go func() {
			for message := range o.messages {
				o.sent <- o.stream.Send(message) // which fails once the call has returned
			}
		}()
	}
	o.messages <- message
	o.timer.Reset(o.idle)
	select {
	case err := <-o.sent:
		return err
	case <-o.closed:
		return errSessionClosed
	case <-o.stream.Context().Done():
		return o.stream.Context().Err()
	case <-o.timer.C:
		return status.Errorf(codes.DeadlineExceeded, "nothing was taken for %s: the download has ended; it can be continued at an offset", o.idle)
	}
}

var errSessionClosed = status.Error(codes.Aborted, "the session was closed")
