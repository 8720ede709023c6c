// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"sync"
	"time"
)

// A Budget is what may be used in a day of UTC. Zero is no bound.
type Budget struct {
	Tokens  int     `yaml:"tokens"` // read and written, cached ones as well
	Dollars Dollars `yaml:"dollars"`
}

// budgets count what an endpoint used today. Nothing of it outlives the process.
type budgets struct {
	all, each Budget // of the endpoint, and of each principal

	mu         sync.Mutex
	day        time.Time
	used       *usedUp
	principals map[string]*usedUp
}

type usedUp struct{ tokens, dollars float64 }

func (u *usedUp) add(used Usage, sign float64) {
	u.tokens += sign * float64(used.Input+used.Output)
	u.dollars += sign * used.Dollars
}

// reserve takes what a request will use at least, and returns what puts the true usage in
// its place. It refuses where a budget is used up: requests that run at the same time may
// exceed it by their answers. The usage counts for the day on which the request began.
func (b *budgets) reserve(principal string, least Usage) (settle func(Usage), err *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if today := time.Now().UTC().Truncate(24 * time.Hour); !today.Equal(b.day) {
		b.day, b.used, b.principals = today, new(usedUp), make(map[string]*usedUp)
	}
	own := b.principals[principal]
	if own == nil {
		own = new(usedUp)
	}
	for _, bound := range []struct {
		Budget
		used  *usedUp
		whose string
	}{{b.all, b.used, "the endpoint"}, {b.each, own, "each principal"}} {
		if principal == "" && bound.used == own {
			continue
		}
		what := ""
		switch {
		case bound.Tokens > 0 && bound.used.tokens+float64(least.Input) > float64(bound.Tokens):
			what = fmt.Sprintf("%d tokens, of which %.0f are used, and this request has about %d", bound.Tokens, bound.used.tokens, least.Input)
		case bound.Dollars > 0 && bound.used.dollars+least.Dollars > float64(bound.Dollars):
			what = fmt.Sprintf("%s dollars, of which %.4f are used, and this request costs about %.4f", bound.Dollars, bound.used.dollars, least.Dollars)
		default:
			continue
		}
		tomorrow := b.day.Add(24 * time.Hour)
		return nil, &Error{Kind: OutOfBudget, Retry: tomorrow,
			Message: fmt.Sprintf("the budget of %s for a day is %s. It begins anew at %s; the operator can raise it.", bound.whose, what, tomorrow.Format(time.RFC3339))}
	}
	if principal != "" {
		b.principals[principal] = own
	}
	counts := []*usedUp{b.used, own}
	for _, u := range counts {
		u.add(least, 1)
	}
	return func(used Usage) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, u := range counts {
			u.add(least, -1)
			u.add(used, 1)
		}
	}, nil
}
