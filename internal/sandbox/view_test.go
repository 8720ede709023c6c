// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"reflect"
	"testing"

	"github.com/toolserver/toolserver/internal/sandbox"
)

// TestViewsThatDifferAreNotEqual changes each field: what is kept for one view must never
// be used for another.
func TestViewsThatDifferAreNotEqual(t *testing.T) {
	if !new(sandbox.View).Equal(&sandbox.View{Read: []string{}}) {
		t.Error("views that show nothing differ")
	}
	for field, value := range reflect.ValueOf(new(sandbox.View)).Elem().Fields() {
		var other sandbox.View
		changed := reflect.ValueOf(&other).Elem().FieldByIndex(field.Index)
		switch value.Interface().(type) {
		case string:
			changed.SetString("x")
		case []string:
			changed.Set(reflect.ValueOf([]string{"x"}))
		default:
			t.Fatalf("%s has a type that this test does not know", field.Name)
		}
		if new(sandbox.View).Equal(&other) || other.Equal(new(sandbox.View)) {
			t.Errorf("views are equal that differ in %s", field.Name)
		}
	}
}
