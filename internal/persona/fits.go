// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package persona

import (
	"encoding/json"
	"slices"
)

// A check finds quickly that a value fits a schema. What it does not accept may fit all
// the same: the validator of JSON Schema decides then, and says what is wrong.
type check struct {
	kind       string // empty: any
	enum       []string
	min, max   *float64
	properties map[string]*check
	required   []string
	closed     bool // no other properties
	items      *check
	count      [2]int // of items, at least and at most; -1: any number
	unsure     bool   // the schema has what is not known here
}

// newCheck returns the check of a schema.
func newCheck(schema map[string]any) *check {
	c := &check{count: [2]int{0, -1}}
	for keyword, value := range schema {
		known := true
		switch keyword {
		case "description", "title", "default":
		case "type":
			c.kind, known = value.(string)
		case "enum":
			c.enum, known = texts(value)
		case "required":
			c.required, known = texts(value)
		case "minimum":
			c.min, known = number(value)
		case "maximum":
			c.max, known = number(value)
		case "minItems", "maxItems":
			var n *float64
			if n, known = number(value); known {
				c.count[map[string]int{"minItems": 0, "maxItems": 1}[keyword]] = int(*n)
			}
		case "items":
			var inner map[string]any
			if inner, known = value.(map[string]any); known {
				c.items = newCheck(inner)
			}
		case "additionalProperties":
			var open bool
			open, known = value.(bool)
			c.closed = !open
		case "properties":
			var inner map[string]any
			inner, known = value.(map[string]any)
			c.properties = make(map[string]*check, len(inner))
			for key, property := range inner {
				of, ok := property.(map[string]any)
				c.properties[key], known = newCheck(of), known && ok
			}
		default:
			known = false
		}
		c.unsure = c.unsure || !known
	}
	return c
}

func texts(value any) (list []string, ok bool) {
	all, ok := value.([]any)
	for _, item := range all {
		text, isText := item.(string)
		list, ok = append(list, text), ok && isText
	}
	return list, ok
}

func number(value any) (*float64, bool) {
	n, ok := value.(json.Number)
	if !ok {
		return nil, false
	}
	f, err := n.Float64()
	return &f, err == nil
}

// fits reports whether a value surely fits.
func (c *check) fits(value any) bool {
	if c.unsure {
		return false
	}
	switch v := value.(type) {
	case string:
		return (c.kind == "string" || c.kind == "") && (c.enum == nil || slices.Contains(c.enum, v))
	case bool:
		return (c.kind == "boolean" || c.kind == "") && c.enum == nil
	case int64:
		n := float64(v)
		return (c.kind == "integer" || c.kind == "number" || c.kind == "") && c.enum == nil &&
			(c.min == nil || n >= *c.min) && (c.max == nil || n <= *c.max)
	case []any:
		if c.kind != "array" && c.kind != "" || c.enum != nil || len(v) < c.count[0] || c.count[1] >= 0 && len(v) > c.count[1] {
			return false
		}
		return c.items == nil || !slices.ContainsFunc(v, func(item any) bool { return !c.items.fits(item) })
	case map[string]any:
		return (c.kind == "object" || c.kind == "") && c.enum == nil && c.fitsObject(v)
	}
	return false
}

func (c *check) fitsObject(v map[string]any) bool {
	for _, key := range c.required {
		if _, ok := v[key]; !ok {
			return false
		}
	}
	for key, item := range v {
		if property := c.properties[key]; property == nil && c.closed || property != nil && !property.fits(item) {
			return false
		}
	}
	return true
}
