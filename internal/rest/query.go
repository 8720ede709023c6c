// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	"github.com/toolserver/toolserver/internal/nearest"
)

// parameters reads the query of a request into its message, and refuses parameters that
// the message does not have.
type parameters struct{ runtime.DefaultQueryParser }

// Parse is part of the interface.
func (p parameters) Parse(message proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	fields := message.ProtoReflect().Descriptor().Fields()
	seen := make(map[string]bool)
	for name := range values {
		first, rest, _ := strings.Cut(name, ".")
		if field := cmp.Or(fields.ByTextName(first), fields.ByJSONName(first)); field != nil {
			if as := field.TextName() + "." + rest; !seen[as] {
				seen[as] = true
				continue
			}
			return fmt.Errorf("the parameter %.64q is there under both of its names: want one", name)
		}
		var names []string
		for i := range fields.Len() {
			names = append(names, fields.Get(i).JSONName())
		}
		slices.Sort(names)
		return fmt.Errorf("there is no parameter %.64q: want some of %s%s", name, strings.Join(names, ", "), meant(first, names))
	}
	return p.DefaultQueryParser.Parse(message, values, filter)
}

func meant(name string, names []string) string {
	if near := nearest.Names(name, names); len(near) > 0 {
		return "; did you mean " + near[0] + "?"
	}
	return ""
}
