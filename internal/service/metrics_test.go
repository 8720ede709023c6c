// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/toolserver/toolserver/internal/executor"
)

// TestHostileLabels has names of limits and tools that are no plain words: they
// are read as they were meant, and neither end the server nor add other lines.
func TestHostileLabels(t *testing.T) {
	for _, value := range []string{
		"", " ", "\n", `"`, `\`, `\n`, `\"`, "a\nb\"c\\d", "\\\n", `"} 1`, "}\n# HELP x y\nx 1\n",
		"\r\n", "\t\x00\x7f", "ä€😀", "\u2028", "\xff", "a\xffb\xfe\xfdc", "\xed\xa0\x80", "\ufffd",
	} {
		registry := prometheus.NewRegistry()
		m := newMeters(registry, func() executor.Stats { return executor.Stats{} })
		m.overLimit(value, value, false)
		gathered, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, family := range gathered {
			if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
				t.Fatal(err)
			}
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
		if err != nil || len(families) != len(gathered) {
			t.Fatalf("%q: %d families, want %d: %v in\n%s", value, len(families), len(gathered), err, &text)
		}
		labels := families["toolserver_limited_total"].GetMetric()[0].GetLabel()
		want := strings.ToValidUTF8(value, "\ufffd")
		if len(labels) != 2 || labels[0].GetValue() != want || labels[1].GetValue() != want {
			t.Errorf("%q was read as %v", value, labels)
		}
	}
}
