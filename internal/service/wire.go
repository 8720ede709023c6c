// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
)

// Wire sets the limits of connections. Zero fields take the defaults named.
type Wire struct {
	MaxMessageBytes    int           // of a request or an answer; 4 MiB
	MaxStreams         uint32        // calls at once on one connection; 1,024
	MaxHeaderBytes     uint32        // metadata of a call; 16 KiB
	KeepaliveTime      time.Duration // before a silent client is asked for a sign of life; 30 s
	KeepaliveTimeout   time.Duration // for that sign; 10 s
	MinPingInterval    time.Duration // below which a client that pings is cut off; 10 s
	MaxConnectionAge   time.Duration // after which a client is asked to connect anew; 2 h
	MaxConnectionGrace time.Duration // for the streams of such a client; 10 min
}

// windows are the flow-control windows for requests, in bytes. Being set, they
// spare each connection the pings by which gRPC would measure them.
const windows = 1 << 20

// writeBuffer is how many bytes a connection gathers before it writes to its
// socket. gRPC lends them the buffer while they have something to write.
const writeBuffer = 256 << 10

// streamWorkers is the number of goroutines that wait for calls with their
// stacks grown. Calls beyond them get goroutines of their own.
const streamWorkers = 24

// WithDefaults returns w with its zero fields filled in.
func (w Wire) WithDefaults() Wire {
	return Wire{
		MaxMessageBytes:    cmp.Or(w.MaxMessageBytes, 4<<20),
		MaxStreams:         cmp.Or(w.MaxStreams, 1024),
		MaxHeaderBytes:     cmp.Or(w.MaxHeaderBytes, 16<<10),
		KeepaliveTime:      cmp.Or(w.KeepaliveTime, 30*time.Second),
		KeepaliveTimeout:   cmp.Or(w.KeepaliveTimeout, 10*time.Second),
		MinPingInterval:    cmp.Or(w.MinPingInterval, 10*time.Second),
		MaxConnectionAge:   cmp.Or(w.MaxConnectionAge, 2*time.Hour),
		MaxConnectionGrace: cmp.Or(w.MaxConnectionGrace, 10*time.Minute),
	}
}

func (w Wire) options(codec encoding.CodecV2) []grpc.ServerOption {
	w = w.WithDefaults()
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(w.MaxMessageBytes),
		grpc.MaxSendMsgSize(w.MaxMessageBytes),
		grpc.MaxConcurrentStreams(w.MaxStreams),
		grpc.MaxHeaderListSize(w.MaxHeaderBytes),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:                  w.KeepaliveTime,
			Timeout:               w.KeepaliveTimeout,
			MaxConnectionAge:      w.MaxConnectionAge,
			MaxConnectionAgeGrace: w.MaxConnectionGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             w.MinPingInterval,
			PermitWithoutStream: true,
		}),
		grpc.StaticStreamWindowSize(windows),
		grpc.StaticConnWindowSize(windows),
		grpc.WriteBufferSize(writeBuffer),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
		grpc.ForceServerCodecV2(codec),
	}
}
