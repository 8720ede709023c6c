// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package pdf

import (
	"fmt"
	"maps"
	"slices"
)

// A node is a part of the tree of pages: a page, or what holds some.
type node struct {
	num    int // of its object
	parent int // node, or -1
}

// findPages goes through the tree of pages, each part of it once.
func (d *Document) findPages() error {
	d.nodes, d.pages = nil, nil
	root := d.dict(d.trailer["Root"])
	top, ok := root["Pages"].(ref)
	if ok {
		d.walk(top)
	}
	if len(d.pages) == 0 && d.failure == nil && d.repaired {
		d.strayPages()
	}
	switch {
	case d.failure != nil:
		return d.failure
	case len(d.pages) == 0:
		return fmt.Errorf("%w: no pages are found in it", ErrBroken)
	}
	return nil
}

func (d *Document) walk(top ref) {
	seen := map[int]bool{top.num: true}
	todo := []node{{top.num, -1}} // the next one at the end
	for len(todo) > 0 && d.failure == nil && len(d.nodes) < 2*maxPages && len(d.pages) < maxPages {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		held := d.dict(ref{num: n.num})
		if held == nil {
			continue
		}
		d.nodes = append(d.nodes, n)
		at := len(d.nodes) - 1
		kids, ok := d.resolve(held["Kids"]).(array)
		if !ok {
			if d.resolve(held["Type"]) != name("Pages") {
				d.pages = append(d.pages, at)
			}
			continue
		}
		for _, kid := range slices.Backward(kids) {
			if kid, ok := kid.(ref); ok && !seen[kid.num] && len(seen) < 2*maxPages {
				seen[kid.num] = true
				todo = append(todo, node{kid.num, at})
			}
		}
	}
}

// strayPages takes every object that is called a page, where there is no tree.
func (d *Document) strayPages() {
	for _, num := range slices.Sorted(maps.Keys(d.entries)) {
		if d.failure != nil || len(d.pages) >= maxPages {
			return
		}
		if d.dict(ref{num: num})["Type"] == name("Page") {
			d.nodes = append(d.nodes, node{num, -1})
			d.pages = append(d.pages, len(d.nodes)-1)
		}
	}
}

// inherited returns what a page says, or what holds it.
func (d *Document) inherited(page int, key name) object {
	for at := d.pages[page]; at >= 0; at = d.nodes[at].parent {
		if o := d.resolve(d.dict(ref{num: d.nodes[at].num})[key]); o != nil {
			return o
		}
		if d.failure != nil {
			break
		}
	}
	return nil
}
