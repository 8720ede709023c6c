// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/toolserver/toolserver/internal/strictyaml"
)

// newReader returns a reader of a configuration file.
func newReader(file string) *strictyaml.Reader {
	return strictyaml.NewReader(file, "configuration")
}

// read sets what the file says.
func read(r *strictyaml.Reader, file string, c *Config) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	r.Read(text, c)
	return nil
}

// fieldAt returns the field with a key such as "log.level".
func fieldAt(c *Config, key string) reflect.Value {
	field := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		field = strictyaml.FieldsOf(field)[name]
	}
	return field
}

// textOf returns the value of a key as text.
func textOf(c *Config, key string) string { return fmt.Sprint(fieldAt(c, key)) }

// A logLevel is the least level to log.
type logLevel zapcore.Level

// UnmarshalText reads the name of a level.
func (l *logLevel) UnmarshalText(text []byte) error {
	if (*zapcore.Level)(l).UnmarshalText(text) != nil {
		return fmt.Errorf("%q is no level: want debug, info, warn or error", text)
	}
	return nil
}

func (l logLevel) String() string { return zapcore.Level(l).String() }
