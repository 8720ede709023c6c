// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/toolserver/toolserver/internal/cli"
	"github.com/toolserver/toolserver/internal/config"
)

// printConfig writes every key with its value and where that comes from: a line of the
// file, a variable, a flag, or the default. origin returns that, or nothing.
func printConfig(c *config.Config, out *cli.Stream, origin func(key string) string) error {
	t := cli.NewTable(out, "KEY", "VALUE", "FROM")
	eachValue(reflect.ValueOf(c).Elem(), "", func(key string, value reflect.Value) {
		from := ""
		for part := key; part != "" && from == ""; part = part[:max(strings.LastIndexAny(part, ".["), 0)] {
			from = origin(part)
			if from == "" && !strings.Contains(part, "[") {
				break // only what is in a list has the place of the whole
			}
		}
		if from == "" {
			from = "default"
		}
		t.Row(key, shownValue(key, value), cli.Visible(from))
	})
	if err := t.Flush(); err != nil {
		return err
	}
	for _, v := range config.StrayVariables(c.NamedVariables()...) {
		fmt.Fprintf(cli.NewStream(os.Stderr), "(%s is set and means nothing here)\n", cli.Visible(v.Name))
	}
	return nil
}

// eachValue visits the values of a struct that have no keys below them, a list of
// words as one.
func eachValue(v reflect.Value, key string, visit func(key string, value reflect.Value)) {
	_, single := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case single:
		visit(key, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("yaml"); name != "-" {
				eachValue(v.Field(i), strings.TrimPrefix(key+"."+name, "."), visit)
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && v.Len() > 0:
		for i := range v.Len() {
			eachValue(v.Index(i), fmt.Sprintf("%s[%d]", key, i), visit)
		}
	default:
		visit(key, v)
	}
}

// shownValue returns a value for people. A secret is never shown: of a token there
// is only that it is set, of the environment of commands only the names.
func shownValue(key string, value reflect.Value) string {
	if strings.HasPrefix(key, "authentication.tokens[") && strings.HasSuffix(key, ".token") && value.String() != "" {
		return "(not shown)"
	}
	if value.Kind() != reflect.Slice {
		if text := cli.Visible(fmt.Sprint(value.Interface())); text != "" {
			return text
		}
		return `""`
	}
	words := make([]string, value.Len())
	for i := range words {
		words[i] = cli.Visible(fmt.Sprint(value.Index(i).Interface()))
		if name, _, set := strings.Cut(words[i], "="); set && key == "sandbox.env" {
			words[i] = name + "=(not shown)"
		}
	}
	return "[" + strings.Join(words, ", ") + "]"
}
