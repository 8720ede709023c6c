// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolserver/toolserver/internal/quota"
)

func TestOf(t *testing.T) {
	all := quota.Tenants{{Name: "acme", MaxSessions: 1}, {Name: "*", MaxSessions: 2}, {Name: "default", MaxSessions: 3}}
	for tenant, want := range map[string]int{"acme": 1, "beta": 2, "": 3, "ACME": 2} {
		if got := all.Of(tenant).MaxSessions; got != want {
			t.Errorf("%q may have %d sessions, want %d", tenant, got, want)
		}
	}
	if got := all[:1].Of("beta"); got.Name != "" || got.MaxSessions != 0 {
		t.Errorf("a tenant without an entry has %+v", got)
	}
}

func TestCheck(t *testing.T) {
	for want, tenants := range map[string]quota.Tenants{
		"": {{Name: "a", AllowedWorkspaces: []string{"/srv/a"}}, {Name: "b", MaxSessions: 1, AllowedWorkspaces: []string{"/srv/ab"}}, {Name: "*"}, {Name: "default"}},
		"[0].name: an entry needs the name of its tenant":        {{}},
		`[0].name: "../x" is no tenant`:                          {{Name: "../x"}},
		`[1].name: there is an entry for "a" already`:            {{Name: "a"}, {Name: "a"}},
		"[0].max_running: -1 is out of bounds":                   {{Name: "a", MaxRunning: -1}},
		"[0].calls_per_minute: 1000001 is out of bounds":         {{Name: "a", CallsPerMinute: 1000001}},
		"[0].max_storage: -1 is negative":                        {{Name: "a", MaxStorage: -1}},
		"[0].allowed_workspaces[0]: several tenants would share": {{Name: "*", AllowedWorkspaces: []string{"/srv"}}},
		"[0].allowed_workspaces[0]: those of the default tenant": {{Name: "default", AllowedWorkspaces: []string{"/srv"}}},
		`[0].allowed_workspaces[0]: "srv": want an absolute`:     {{Name: "a", AllowedWorkspaces: []string{"srv"}}},
		"[1].allowed_workspaces[0]: /srv/a/b is, lies in":        {{Name: "a", AllowedWorkspaces: []string{"/srv/a"}}, {Name: "b", AllowedWorkspaces: []string{"/srv/a/b"}}},
		"[1].allowed_workspaces[0]: /srv is, lies in":            {{Name: "a", AllowedWorkspaces: []string{"/srv/a"}}, {Name: "b", AllowedWorkspaces: []string{"/srv"}}},
	} {
		var got []string
		tenants.Check(func(key, format string, args ...any) { got = append(got, key+": "+fmt.Sprintf(format, args...)) })
		if want == "" && len(got) == 0 || len(got) == 1 && want != "" && strings.HasPrefix(got[0], want) {
			continue
		}
		t.Errorf("%v: %q, want %q", tenants, got, want)
	}
}

// TestRates: tenants are counted apart, also those that share an entry.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates, err := quota.NewRates(quota.Tenants{{Name: "*", CallsPerMinute: 12}, {Name: "free"}})
		if err != nil {
			t.Fatal(err)
		}
		passed := func(tenant string) (n int) {
			for range 100 {
				err := rates.Take(tenant)
				if err == nil {
					n++
					continue
				}
				over, ok := errors.AsType[*quota.Error](err)
				if !ok || over.Quota != "calls_per_minute" || over.Limit != "12" || over.RetryAfter <= 0 || !strings.Contains(err.Error(), "call again in ") {
					t.Fatalf("%v", err)
				}
			}
			return n
		}
		got := []int{passed("acme"), passed("beta"), passed(""), passed("free")}
		time.Sleep(time.Minute)
		got = append(got, passed("acme"))
		time.Sleep(5 * time.Second)
		got = append(got, passed("acme"))
		if want := []int{2, 2, 2, 100, 2, 1}; !slices.Equal(got, want) {
			t.Errorf("%v calls passed, want %v", got, want)
		}
	})
}
