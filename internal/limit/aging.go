// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package limit

// aging is a map whose values are worth keeping until a time. They are dropped
// after that, but for a few, without anybody going through them: values live in
// two generations, and move to the young one whenever they are found. The old
// one is dropped whole when the last of its times has come.
type aging[V any] struct {
	young, old generation[V]
}

type generation[V any] struct {
	values map[key]*V
	until  int64 // the latest time that a value is kept for
}

// minGeneration is how many values are kept in any case.
const minGeneration = 256

// find returns the value of k, or nil. It moves to the young generation, so tell
// keep how long it is good for.
func (a *aging[V]) find(k key) *V {
	if v, ok := a.young.values[k]; ok {
		return v
	}
	v, ok := a.old.values[k]
	if !ok {
		return nil
	}
	delete(a.old.values, k)
	a.young.values[k] = v
	a.young.until = max(a.young.until, a.old.until)
	return v
}

// add makes a value for k, which has none.
func (a *aging[V]) add(k key, now int64) *V {
	if a.old.until <= now {
		a.old = generation[V]{}
		if len(a.young.values) >= minGeneration {
			a.old, a.young = a.young, generation[V]{}
		}
	}
	if a.young.values == nil {
		a.young.values = make(map[key]*V)
	}
	v := new(V)
	a.young.values[k] = v
	return v
}

// keep says that the value found or added last is worth keeping until a time.
func (a *aging[V]) keep(until int64) { a.young.until = max(a.young.until, until) }
