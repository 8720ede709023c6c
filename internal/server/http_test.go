// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestRequestsAreCounted: requests by HTTP are counted by method and code, while streams can
// still be flushed and given deadlines.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	underWay := 0.0
	handler := measured(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		families, err := registry.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, family := range families {
			if family.GetName() == "toolserver_http_requests_in_flight" && underWay == 0 { // in the first
				underWay = family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}), registry)
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, method := range []string{"GET", "GET", "POST", "MADEUP"} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	server.Close() // so that all have ended
	if underWay != 1 {
		t.Errorf("%v were under way within the first", underWay)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "toolserver_http_")
			for _, label := range metric.GetLabel() { // sorted
				name += " " + label.GetValue()
			}
			counted[name] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount()) + metric.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"requests_total 200 get": 2, "requests_total 200 post": 1, "requests_total 200 unknown": 1, "requests_in_flight": 0,
		"request_duration_seconds get": 2, "request_duration_seconds post": 1, "request_duration_seconds unknown": 1,
	}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}
