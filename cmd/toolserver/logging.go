// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// newLogger returns a logger to standard error, for people on a terminal and
// as JSON otherwise, and what flushes it. JSON is buffered for at most a second,
// unless it is a warning or worse: a call must not cost a system call for its
// line. No line is ever sampled away.
func newLogger(level zapcore.Level) (logger *zap.Logger, flush func()) {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.SecondsDurationEncoder
	// Not os.Stderr itself: flushing is not meant to wait for a disk.
	stderr := zapcore.AddSync(struct{ io.Writer }{os.Stderr})
	if term.IsTerminal(int(os.Stderr.Fd())) {
		encoding.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoding.EncodeDuration = zapcore.StringDurationEncoder
		return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(stderr), level)), func() {}
	}
	buffer := &zapcore.BufferedWriteSyncer{WS: stderr, Size: 64 << 10, FlushInterval: time.Second}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), buffer, level)
	logger = zap.New(zapcore.RegisterHooks(core, func(entry zapcore.Entry) error {
		if entry.Level >= zapcore.WarnLevel {
			return buffer.Sync()
		}
		return nil
	}))
	return logger, func() { buffer.Stop() }
}
