// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package tools

// A Checker is an input type that knows more about what fits than a schema can
// tell, such as that one field excludes another. A tool that [New] made asks it
// once the input has the form of the schema.
type Checker interface {
	// Check returns what is wrong with the input, or nothing.
	Check() []Problem
}

// check asks an input what the schema could not.
func check(in any) error {
	checker, ok := in.(Checker)
	if !ok {
		return nil
	}
	if problems := checker.Check(); len(problems) > 0 {
		return &InputError{problems}
	}
	return nil
}
