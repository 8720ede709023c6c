// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"

	"github.com/toolserver/toolserver/internal/size"
)

// Wire is the section "wire" of the configuration: the limits of connections. Zero
// fields take the defaults named.
type Wire struct {
	MaxMessageBytes    size.Bytes    `yaml:"max_message_bytes"`    // of a request or an answer; 4 MiB
	MaxStreams         int           `yaml:"max_streams"`          // calls at once on one connection; 1,024
	MaxHeaderBytes     size.Bytes    `yaml:"max_header_bytes"`     // metadata of a call; 16 KiB
	KeepaliveTime      time.Duration `yaml:"keepalive_time"`       // before a silent client is asked for a sign of life; 30 s
	KeepaliveTimeout   time.Duration `yaml:"keepalive_timeout"`    // for that sign; 10 s
	MinPingInterval    time.Duration `yaml:"min_ping_interval"`    // below which a client that pings is cut off; 10 s
	MaxConnectionAge   time.Duration `yaml:"max_connection_age"`   // after which a client is asked to connect anew; 2 h
	MaxConnectionGrace time.Duration `yaml:"max_connection_grace"` // for the streams of such a client; 10 min
}

// Envelope is the room a message needs besides the input of a call or the content of its
// result, in bytes.
const Envelope = 32 << 10

// windows are the flow-control windows for requests, in bytes. Being set, they
// spare each connection the pings by which gRPC would measure them.
const windows = 1 << 20

// writeBuffer is how many bytes a connection gathers before it writes to its
// socket. gRPC lends them the buffer while they have something to write.
const writeBuffer = 256 << 10

// streamWorkers is the number of goroutines that wait for calls with their
// stacks grown. Calls beyond them get goroutines of their own, whose stacks grow in
// each call.
const streamWorkers = 64

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
		grpc.MaxRecvMsgSize(int(w.MaxMessageBytes)),
		grpc.MaxSendMsgSize(int(w.MaxMessageBytes)),
		grpc.MaxConcurrentStreams(uint32(w.MaxStreams)),
		grpc.MaxHeaderListSize(uint32(w.MaxHeaderBytes)),
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
