// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/toolserver/toolserver/internal/schema"
	"github.com/toolserver/toolserver/internal/tools"
)

// resultSchemas has the schemas of results, compiled when they are first needed: by
// *tools.Entry, which the registry replaces with its tool.
type resultSchemas struct {
	registry *tools.Registry
	compiled sync.Map
}

// promised returns call, whose result must keep to what its tool declares of it.
func (r *resultSchemas) promised(entry *tools.Entry, call tools.Call) tools.Call {
	if text := bytes.TrimSpace(entry.Spec.ResultSchema); len(text) == 0 || bytes.Equal(text, []byte("true")) {
		return call
	}
	switch entry.Spec.Kind {
	case tools.OpenAPI:
		return call // a document describes an API, which never read it
	case tools.MCP:
		return call // its source does, within bounds: a server may write any schema
	}
	made, known := r.compiled.Load(entry)
	if !known {
		r.forgetReplaced()
		made, _ = r.compiled.LoadOrStore(entry, sync.OnceValues(func() (*schema.Schema, error) { return schema.Any(entry.Spec.ResultSchema) }))
	}
	c := promisedCall{call, entry.Spec.Name, made.(func() (*schema.Schema, error))}
	if _, ok := call.(tools.Renewer); ok {
		return renewedPromise{c}
	}
	return c
}

// forgetReplaced lets go of the schemas of tools that the registry no longer has.
func (r *resultSchemas) forgetReplaced() {
	entries, _ := r.registry.All()
	current := make(map[*tools.Entry]bool, len(entries))
	for _, entry := range entries {
		current[entry] = true
	}
	r.compiled.Range(func(key, _ any) bool {
		if !current[key.(*tools.Entry)] {
			r.compiled.Delete(key)
		}
		return true
	})
}

// promisedCall is a call whose JSON content is checked.
type promisedCall struct {
	tools.Call
	tool   string
	schema func() (*schema.Schema, error)
}

// renewedPromise is one that can be judged anew.
type renewedPromise struct{ promisedCall }

func (c renewedPromise) Renew(restrictions tools.Restrictions) (tools.Call, error) {
	next, err := c.Call.(tools.Renewer).Renew(restrictions)
	if err != nil {
		return nil, err
	}
	c.Call = next
	return c, nil
}

// Run runs the call. Where the result is not what its tool declares, the content is kept.
func (c promisedCall) Run(ctx context.Context, rights tools.Rights, out tools.Sink) (tools.Result, error) {
	result, err := c.Call.Run(ctx, rights, out)
	if err != nil {
		return result, err
	}
	promise, err := c.schema()
	if err != nil {
		return result, tools.Failf("result_schema", "The tool %s declares a schema for its result that is none: %s. That is a mistake of the tool; what it answered is above.", c.tool, briefly(err))
	}
	found := false
	for _, content := range result.Content {
		text, ok := content.(tools.JSON)
		if !ok {
			continue
		}
		found = true
		if err := promise.ValidateText(text); err != nil {
			return result, tools.Failf("result_schema", "The tool %s did its work, and its answer is not what its result schema declares: %s. That is a mistake of the tool, not of the call; what it answered is above.", c.tool, briefly(err))
		}
	}
	if !found {
		return result, tools.Failf("result_schema", "The tool %s declares a schema for its result, and answered without JSON. That is a mistake of the tool, not of the call; what it answered is above.", c.tool)
	}
	return result, nil
}

func briefly(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return fmt.Sprintf("%.300s", text)
}
