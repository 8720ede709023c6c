// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapgrpc"
	"golang.org/x/term"
	"google.golang.org/grpc/grpclog"

	"github.com/toolserver/toolserver/internal/trace"
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
	if !LogsJSON() {
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

// LogsJSON reports whether a log goes to a program, not to a person.
func LogsJSON() bool { return !term.IsTerminal(int(os.Stderr.Fd())) }

// logOthers has what libraries say about themselves in the log: gRPC's warnings
// and errors, and what is written by the standard library's log.
func logOthers(logger *zap.Logger) {
	collector := strings.TrimPrefix(trace.Target(), "unix:")
	ofGRPC := zapgrpc.NewLogger(logger.Named("grpc").WithOptions(zap.IncreaseLevel(zap.WarnLevel)))
	grpclog.SetLoggerV2(grpcLog{ofGRPC, strconv.Quote(collector)})
	zap.RedirectStdLog(logger.Named("log"))
}

// grpcLog leaves out each connection to the collector of traces that fails: that spans do
// not arrive is told by tracing.
type grpcLog struct {
	*zapgrpc.Logger
	collector string // as gRPC writes the address
}

// Warningln is what gRPC tells of its channels by.
func (l grpcLog) Warningln(args ...any) {
	if text := fmt.Sprint(args...); !strings.Contains(text, "createTransport failed") || !strings.Contains(text, l.collector) {
		l.Logger.Warningln(args...)
	}
}

// LogLines has every line that is written to the file in the log, as a warning.
// Close the file after use.
func LogLines(logger *zap.Logger, message string) (*os.File, error) {
	lines, file, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer lines.Close()
		for r := bufio.NewReaderSize(lines, 16<<10); ; {
			line, err := r.ReadSlice('\n') // of a longer one, a part
			if len(line) > 0 {
				logger.Warn(message, zap.String("line", strings.TrimSuffix(string(line), "\n")))
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
	return file, nil
}

// LogEnd writes why a server ended, or did not begin, as the last line of its log.
func LogEnd(err error) {
	logger, flush := newLogger(zapcore.InfoLevel)
	defer flush()
	logger.Error("failed", zap.Error(err))
}
