// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// fairRate is a rate that one tenant cannot use up for others: once the limiter refuses, a tenant
// that had less than its share in a second still has that. So it is at most twice the rate.
type fairRate struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	second  int64          // that is counted
	had     map[string]int // in this second, by tenant
	tenants int            // that had something in the second before
}

func (f *fairRate) allow(tenant string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if second := now.Unix(); second != f.second {
		f.second, f.tenants, f.had = second, len(f.had), make(map[string]int)
	}
	share := int(f.limiter.Limit()) / max(f.tenants, len(f.had)+1)
	if !f.limiter.AllowN(now, 1) && f.had[tenant] >= share {
		return false
	}
	f.had[tenant]++
	return true
}
