// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"time"

	"github.com/toolserver/toolserver/internal/quota"
)

// tenantCounts are the executions of a tenant: those whose tools have not ended, and
// those that ended and are kept.
type tenantCounts struct{ running, retained int }

// countsOf returns the counts of the tenant of an execution. The executor is locked.
func (e *Executor) countsOf(x *Execution) *tenantCounts {
	if counts := e.tenants[x.Order.Session.Owner.Tenant()]; counts != nil {
		return counts
	}
	return new(tenantCounts)
}

// count changes the counts of the tenant of an execution. The executor is locked.
func (e *Executor) count(x *Execution, running, retained int) {
	tenant := x.Order.Session.Owner.Tenant()
	counts := e.tenants[tenant]
	if counts == nil {
		counts = new(tenantCounts)
		e.tenants[tenant] = counts
	}
	counts.running += running
	counts.retained += retained
	if *counts == (tenantCounts{}) {
		delete(e.tenants, tenant)
	}
}

// checkTenant returns an error where the tenant of a new execution has as many as it
// may. The executor is locked.
func (e *Executor) checkTenant(x *Execution) error {
	tenant := x.Order.Session.Owner.Tenant()
	most := e.config.Tenants.Of(tenant).MaxRunning
	if most == 0 || e.countsOf(x).running < most {
		return nil
	}
	return &quota.Error{
		Tenant: tenant, Quota: "max_running", Limit: fmt.Sprint(most),
		Help: "call again when one of its calls has ended, or cancel some", RetryAfter: time.Second,
	}
}
