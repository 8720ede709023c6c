// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"bytes"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/toolserver/toolserver/internal/metrics"
)

// everything returns a registry that has one metric of each kind.
func everything() *metrics.Registry {
	r := new(metrics.Registry)
	calls := r.Counter("calls_total", "Calls by tool\nand \\ outcome.", "tool", "outcome")
	calls.Inc("read", "ok")
	calls.Inc("read", "failed")
	calls.Inc("read", "ok")
	calls.Inc("find", "ok")
	sizes := r.Histogram("size_bytes", "Sizes.", []float64{0.5, 1, 1e6}, "tool")
	for _, size := range []float64{0.25, 1, 1.25, 1e6, 2e6} {
		sizes.Observe(size, "read")
	}
	r.Histogram("age_seconds", "Ages.", nil).Observe(3)
	r.Counter("starts_total", "Starts.")
	r.Counter("never_total", "Nothing yet.", "why")
	r.GaugeFunc("room:free", "Room.", func() float64 { return -0.5 })
	r.CounterFunc("bytes_total", "Bytes.", func() float64 { return 1 << 40 })
	r.GaugeFunc("unknown", "Not told.", math.NaN)
	r.Info("build_info", "Build.", map[string]string{"version": "v1", "go": "1.26"})
	return r
}

const everythingText = `# HELP age_seconds Ages.
# TYPE age_seconds histogram
age_seconds_bucket{le="+Inf"} 1
age_seconds_sum 3
age_seconds_count 1
# HELP build_info Build.
# TYPE build_info gauge
build_info{go="1.26",version="v1"} 1
# HELP bytes_total Bytes.
# TYPE bytes_total counter
bytes_total 1.099511627776e+12
# HELP calls_total Calls by tool\nand \\ outcome.
# TYPE calls_total counter
calls_total{outcome="failed",tool="read"} 1
calls_total{outcome="ok",tool="find"} 1
calls_total{outcome="ok",tool="read"} 2
# HELP room:free Room.
# TYPE room:free gauge
room:free -0.5
# HELP size_bytes Sizes.
# TYPE size_bytes histogram
size_bytes_bucket{tool="read",le="0.5"} 1
size_bytes_bucket{tool="read",le="1"} 2
size_bytes_bucket{tool="read",le="1e+06"} 4
size_bytes_bucket{tool="read",le="+Inf"} 5
size_bytes_sum{tool="read"} 3.0000025e+06
size_bytes_count{tool="read"} 5
# HELP starts_total Starts.
# TYPE starts_total counter
starts_total 0
`

func TestText(t *testing.T) {
	if got := string(everything().Text()); got != everythingText {
		t.Errorf("got\n%s\nwant\n%s", got, everythingText)
	}
}

func TestServeHTTP(t *testing.T) {
	w := httptest.NewRecorder()
	everything().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got, want := w.Header().Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"; got != want {
		t.Errorf("Content-Type %q, want %q", got, want)
	}
	if w.Code != 200 || w.Body.String() != everythingText {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

// parse reads a text as Prometheus does.
func parse(t *testing.T, text []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return families
}

// TestParsedBack proves that Prometheus reads what was meant: what its own
// library writes of what it read is what we wrote.
func TestParsedBack(t *testing.T) {
	families := parse(t, everything().Text())
	var again strings.Builder
	for _, name := range []string{
		"age_seconds", "build_info", "bytes_total", "calls_total", "room:free", "size_bytes", "starts_total",
	} {
		if _, err := expfmt.MetricFamilyToText(&again, families[name]); err != nil {
			t.Fatal(err)
		}
	}
	if again.String() != everythingText {
		t.Errorf("got\n%s\nwant\n%s", &again, everythingText)
	}
	if sum := families["size_bytes"].GetMetric()[0].GetHistogram().GetSampleSum(); sum != 3000002.5 {
		t.Errorf("sum %v", sum)
	}
}

// hostile are values of labels that are no plain words.
var hostile = []string{
	"", " ", "\n", `"`, `\`, `\n`, `\"`, "a\nb\"c\\d", "\\\n", `"} 1`, "}\n# HELP x y\nx 1\n",
	"\r\n", "\t\x00\x7f", "ä€😀", "\u2028", "\xff", "a\xffb\xfe\xfdc", "\xed\xa0\x80", "\ufffd",
}

// checkValue fails unless a value of a label comes back as it was, beside
// another and on each line of a histogram.
func checkValue(t *testing.T, value string) {
	t.Helper()
	want := strings.ToValidUTF8(value, "\ufffd")
	r := new(metrics.Registry)
	r.Counter("c", "", "b", "a").Inc(value, "x")
	r.Histogram("h", "", []float64{1}, "b").Observe(1, value)
	families := parse(t, r.Text())
	if len(families) != 2 {
		t.Errorf("%d families", len(families))
	}
	for name, labels := range map[string]int{"c": 2, "h": 1} {
		series := families[name].GetMetric()
		if len(series) != 1 || len(series[0].GetLabel()) != labels {
			t.Fatalf("%q became %v", value, series)
		}
		if last := series[0].GetLabel()[labels-1]; last.GetName() != "b" || last.GetValue() != want {
			t.Errorf("%q became %v", value, last)
		}
	}
}

func TestHostileLabels(t *testing.T) {
	for _, value := range hostile {
		checkValue(t, value)
	}
}

func FuzzLabel(f *testing.F) {
	for _, value := range hostile {
		f.Add(value)
	}
	f.Fuzz(checkValue)
}

// TestBrokenLabelsAreOneSeries: values that are written alike must not be
// written twice.
func TestBrokenLabelsAreOneSeries(t *testing.T) {
	r := new(metrics.Registry)
	c := r.Counter("c", "C.", "a")
	for _, value := range []string{"x\xff", "x\xfe", "x\ufffd", "x\xff"} {
		c.Inc(value)
	}
	if got, want := string(r.Text()), "# HELP c C.\n# TYPE c counter\nc{a=\"x\ufffd\"} 4\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMistakesPanic(t *testing.T) {
	for name, mistake := range map[string]func(*metrics.Registry){
		"no name":             func(r *metrics.Registry) { r.Counter("", "") },
		"a digit first":       func(r *metrics.Registry) { r.GaugeFunc("1st", "", math.NaN) },
		"a dash":              func(r *metrics.Registry) { r.CounterFunc("a-b", "", math.NaN) },
		"a letter of another": func(r *metrics.Registry) { r.Counter("größe", "") },
		"twice":               func(r *metrics.Registry) { r.Counter("a", ""); r.Histogram("a", "", nil) },
		"an empty label":      func(r *metrics.Registry) { r.Counter("a", "", "") },
		"a colon in a label":  func(r *metrics.Registry) { r.Info("a", "", map[string]string{"a:b": ""}) },
		"a reserved label":    func(r *metrics.Registry) { r.Counter("a", "", "__name__") },
		"a label twice":       func(r *metrics.Registry) { r.Counter("a", "", "b", "b") },
		"too many labels":     func(r *metrics.Registry) { r.Counter("a", "", "b", "c", "d") },
		"le":                  func(r *metrics.Registry) { r.Histogram("a", "", nil, "le") },
		"bounds that fall":    func(r *metrics.Registry) { r.Histogram("a", "", []float64{2, 1}) },
		"equal bounds":        func(r *metrics.Registry) { r.Histogram("a", "", []float64{1, 1}) },
		"an endless bound":    func(r *metrics.Registry) { r.Histogram("a", "", []float64{1, math.Inf(1)}) },
		"no number":           func(r *metrics.Registry) { r.Histogram("a", "", []float64{math.NaN()}) },
		"a value too few":     func(r *metrics.Registry) { r.Counter("a", "", "b").Inc() },
		"a value too many":    func(r *metrics.Registry) { r.Histogram("a", "", nil).Observe(1, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if reason := fmt.Sprint(recover()); !strings.HasPrefix(reason, "metrics: ") {
					t.Errorf("panic: %s", reason)
				}
			}()
			mistake(new(metrics.Registry))
		})
	}
}

// TestTogether counts, registers and tells at once: nothing is lost, and the
// buckets of every text agree with its count.
func TestTogether(t *testing.T) {
	const writers, times = 8, 2000
	r := new(metrics.Registry)
	c := r.Counter("c", "", "who", "what")
	h := r.Histogram("h", "", []float64{1, 2, 3}, "who")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r.GaugeFunc(fmt.Sprintf("g%d", w), "", func() float64 { return 1 })
			for i := range times {
				c.Inc("all", fmt.Sprint(i%10))
				h.Observe(float64(i%5), "all")
			}
		})
	}
	for range 50 {
		for _, series := range parse(t, r.Text())["h"].GetMetric() {
			h := series.GetHistogram()
			if last := h.GetBucket()[3].GetCumulativeCount(); last != h.GetSampleCount() {
				t.Errorf("%d in buckets of %d", last, h.GetSampleCount())
			}
		}
	}
	wg.Wait()
	families := parse(t, r.Text())
	for _, series := range families["c"].GetMetric() {
		if n := series.GetCounter().GetValue(); n != writers*times/10 {
			t.Errorf("%v is %v", series.GetLabel(), n)
		}
	}
	got := families["h"].GetMetric()[0].GetHistogram()
	if got.GetSampleCount() != writers*times || got.GetSampleSum() != writers*times*2 {
		t.Errorf("%d observations, sum %v", got.GetSampleCount(), got.GetSampleSum())
	}
}

func TestCountingTakesNoMemory(t *testing.T) {
	r := new(metrics.Registry)
	c, h := r.Counter("c", "", "a", "b"), r.Histogram("h", "", []float64{1, 2}, "a")
	count := func() {
		c.Inc("x", "y")
		h.Observe(1.5, "x")
	}
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkInc(b *testing.B) {
	c := new(metrics.Registry).Counter("c", "", "method", "code")
	b.ReportAllocs()
	for b.Loop() {
		c.Inc("/toolserver.v1.ToolService/ExecuteTool", "OK")
	}
}

func BenchmarkObserve(b *testing.B) {
	h := new(metrics.Registry).Histogram("h", "", []float64{0.001, 0.01, 0.1, 1, 10}, "tool")
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(0.05, "read_file")
	}
}
