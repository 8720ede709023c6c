// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy_test holds what operators are given against the server. build/kube
// holds it against Kubernetes.
package deploy_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/toolserver/toolserver/internal/programtest"
	"github.com/toolserver/toolserver/internal/strictyaml"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

const chart = "chart/toolserver"

// An alert is one of chart/toolserver/files/alerts.yaml.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var all struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	name := filepath.Join(chart, "files", "alerts.yaml")
	reader := strictyaml.NewReader(name, "alerts")
	reader.Read(read(t, name), &all)
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	var list []alert
	for _, group := range all.Groups {
		list = append(list, group.Rules...)
	}
	if len(list) < 5 {
		t.Fatalf("there are %d alerts", len(list))
	}
	return list
}

// queries returns those of the dashboard, by panel.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(read(t, filepath.Join(chart, "files", "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all["panel "+panel.Title] = append(all["panel "+panel.Title], target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Definition != "" {
			all["variable "+variable.Name] = []string{variable.Definition}
		}
	}
	if len(all) < 10 {
		t.Fatalf("there are %d panels", len(all))
	}
	return all
}

// programs returns the directory of the server and its helper, which are built once.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var built = sync.OnceValues(func() (string, error) {
	if _, err := programtest.Build(buildDir, "cmd/toolserver-exec"); err != nil {
		return "", err
	}
	server, err := programtest.Build(buildDir, "cmd/toolserver")
	return filepath.Dir(server), err
})

// buildDir is where programs of the tests are.
var buildDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "deploy")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		buildDir = dir
		return m.Run()
	}())
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var (
	metricText   = regexp.MustCompile(`\b(?:toolserver|grpc_server|process|go)_[a-z0-9_]+\b`)
	selectorText = regexp.MustCompile(`\b((?:toolserver|grpc_server|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	matcherText  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	groupText    = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// byPrometheus are the labels that are not the server's.
var byPrometheus = []string{"namespace", "pod", "job", "le"}

// TestMetricsOfAlerts holds the metrics that alerts and the dashboard name, with their
// labels, against those of a server on which everything has happened once.
func TestMetricsOfAlerts(t *testing.T) {
	t.Parallel()
	labels := scrape(t)
	values := map[string]func(string) bool{
		"code": func(value string) bool {
			for code := codes.OK; code <= codes.Unauthenticated; code++ {
				if code.String() == value {
					return true
				}
			}
			return false
		},
		"outcome": func(value string) bool {
			_, ok := pb.Outcome_value["OUTCOME_"+strings.ToUpper(value)]
			return ok
		},
		"result": func(value string) bool { return value == "succeeded" || value == "failed" },
		"holds":  func(value string) bool { return value == "true" || value == "false" },
	}
	check := func(where, expr string) {
		t.Helper()
		var known []string
		for _, name := range metricText.FindAllString(expr, -1) {
			found, ok := labels[name]
			if !ok {
				t.Errorf("%s: the server has no %s", where, name)
			}
			known = append(known, found...)
		}
		if len(known) == 0 && !strings.Contains(expr, "_") {
			t.Errorf("%s asks for nothing: %s", where, expr)
		}
		for _, selector := range selectorText.FindAllStringSubmatch(expr, -1) {
			for _, matcher := range matcherText.FindAllStringSubmatch(selector[2], -1) {
				label := matcher[1]
				if !slices.Contains(labels[selector[1]], label) && !slices.Contains(byPrometheus, label) {
					t.Errorf("%s: %s has no label %s but %v", where, selector[1], label, labels[selector[1]])
				}
				if valid := values[label]; valid != nil {
					for value := range strings.SplitSeq(matcher[3], "|") {
						if !valid(value) {
							t.Errorf("%s: %s is never %q", where, label, value)
						}
					}
				}
			}
		}
		for _, group := range groupText.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(group[1], ",") {
				if label = strings.TrimSpace(label); !slices.Contains(known, label) && !slices.Contains(byPrometheus, label) {
					t.Errorf("%s: nothing has the label %s: %s", where, label, expr)
				}
			}
		}
	}
	for _, a := range alerts(t) {
		check("alert "+a.Alert, a.Expr)
	}
	for where, list := range queries(t) {
		for _, expr := range list {
			check(where, expr)
		}
	}
	if metric := regexp.MustCompile(`(?m)^  metric: (\S+)$`).FindSubmatch(read(t, filepath.Join(chart, "values.yaml"))); metric == nil || labels[string(metric[1])] == nil {
		t.Errorf("the server has no metric that the autoscaler names: %s", metric)
	}
}

// scrape returns the names of the metrics of a server, with their labels, after calls,
// limits and reloads.
func scrape(t *testing.T) map[string][]string {
	t.Helper()
	bin, dir := programs(t), t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "toolserver"), args...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // calls that are refused are part of it
		return out
	}
	certificate, key := certificateFor(t, dir)
	line, shown, _ := strings.Cut(string(run("token", "create", "--roles", "agent", "alice")), "\n")
	token := regexp.MustCompile(`tsk_\S+`).FindString(shown)
	limits := "limits:\n- {name: one, tools: [sleep], rate: 1/h, burst: 1}\n- {name: other, tools: [read_file], rate: 1/h, burst: 1, shadow: true}\n"
	policy := write("policy.yaml", "version: 1\nrules: []\n"+limits)
	config := write("config.yaml", fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {address: 127.0.0.1:0}\ntls: {certificate: %s, key: %s}\nauthentication: {token_file: %s}\npolicy: {file: %s}\nsessions: {workspace_root: %s/w}\nstate: {dir: %s/state}\naudit: {file: %s/audit.jsonl}\n",
		certificate, key, write("tokens", line+"\n"), policy, dir, dir, dir))
	server := exec.Command(filepath.Join(bin, "toolserver"), "serve", "--config", config)
	server.Dir = dir
	server.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	var serving struct{ Msg, Address, Admin string }
	log := bufio.NewScanner(stderr)
	for serving.Msg != "serving" {
		if !log.Scan() {
			t.Fatal("the server does not serve")
		}
		json.Unmarshal(log.Bytes(), &serving)
	}
	go func() {
		for log.Scan() {
		}
	}()
	call := []string{"--address", serving.Address, "--ca", certificate, "--token", token}
	for range 2 {
		run(append([]string{"call", "sleep", "duration_ms=1"}, call...)...)
		run(append([]string{"call", "read_file", "path=nothing"}, call...)...)
	}
	write("policy.yaml", "version: 1\nrules: []\n# changed\n"+limits)
	var all map[string][]string
	for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all = labelsOf(t, serving.Admin)
		if all["toolserver_policy_reloads_total"] != nil && all["toolserver_sandbox_check"] != nil {
			return all
		}
		if time.Now().After(limit) {
			t.Fatalf("what is looked for does not happen: %v", all)
		}
	}
}

func labelsOf(t *testing.T, address string) map[string][]string {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for name, family := range families {
		labels := []string{} // not nil: it is there
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if !slices.Contains(labels, label.GetName()) {
					labels = append(labels, label.GetName())
				}
			}
		}
		all[name] = labels
		if family.GetType() == dto.MetricType_HISTOGRAM {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				all[name+part] = labels
			}
		}
	}
	return all
}

// TestAlertsAreExplained sees that operators are told what each alert means, and of no
// other.
func TestAlertsAreExplained(t *testing.T) {
	text := string(read(t, "../docs/operations.md"))
	explained := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#### (Toolserver\w+)$`).FindAllStringSubmatch(text, -1) {
		explained[heading[1]] = true
	}
	for _, a := range alerts(t) {
		if !explained[a.Alert] {
			t.Errorf("docs/operations.md does not say what %s means", a.Alert)
		}
		delete(explained, a.Alert)
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s says too little", a.Alert)
		}
	}
	for name := range explained {
		t.Errorf("docs/operations.md explains %s, which does not exist", name)
	}
}

// TestValues sees that the schema of the chart knows every value there is, and no other,
// and that each is explained.
func TestValues(t *testing.T) {
	type node struct {
		Properties           map[string]*node
		AdditionalProperties any
	}
	var schema node
	if err := json.Unmarshal(read(t, filepath.Join(chart, "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global") // which Helm gives to every chart
	var keys []string
	at := []string{}
	comment := false
	for line := range strings.Lines(string(read(t, filepath.Join(chart, "values.yaml")))) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "#") || text == "" {
			comment = strings.HasPrefix(text, "#")
			continue
		}
		key, _, ok := strings.Cut(text, ":")
		if !ok || strings.HasPrefix(text, "-") {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		at = append(at[:depth], key)
		keys = append(keys, strings.Join(at, "."))
		if depth == 0 && !comment && !slices.Contains([]string{"image", "imagePullSecrets", "nameOverride", "fullnameOverride", "podAnnotations", "serviceAccount", "service", "resources", "podDisruptionBudget", "metrics", "volumes", "volumeMounts", "nodeSelector", "tolerations", "affinity", "priorityClassName"}, key) {
			t.Errorf("%s is not explained", key)
		}
		comment = false
	}
	var known []string
	var walk func(*node, string)
	walk = func(n *node, path string) {
		for name, child := range n.Properties {
			known = append(known, strings.TrimPrefix(path+"."+name, "."))
			walk(child, path+"."+name)
		}
	}
	walk(&schema, "")
	for _, key := range keys {
		// What a value of free form has in it is its own.
		if !slices.Contains(known, key) && !strings.HasPrefix(key, "resources.") && !strings.Contains(key, ".labels.") {
			t.Errorf("values.schema.json does not know %s", key)
		}
	}
	for _, key := range known {
		if !slices.Contains(keys, key) && !strings.HasPrefix(key, "authentication.oidc") {
			t.Errorf("values.yaml does not have %s", key)
		}
	}
}

// TestManifestsAreMadeOfThisChart sees that the manifests were made after the last change
// of the chart, without Helm: make manifests notes what it made them of.
func TestManifestsAreMadeOfThisChart(t *testing.T) {
	sum := sha256.New()
	for _, dir := range []string{chart, "manifests/values"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "README.md") {
				return err
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%s %d\n%s", filepath.ToSlash(path), len(text), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	digest := fmt.Sprintf("%x\n", sum.Sum(nil))
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("manifests/chart.sha256", []byte(digest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(read(t, "manifests/chart.sha256")); got != digest {
		t.Error("the chart has changed since deploy/manifests were made: run make manifests")
	}
}

// TestRoutesAllServices: a gateway in front of the chart leads to every service of the contract.
func TestRoutesAllServices(t *testing.T) {
	template := string(read(t, filepath.Join(chart, "templates", "network.yaml")))
	services := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("toolserver.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			services++
			if name := string(file.Services().Get(i).FullName()); !strings.Contains(template, `"`+name+`"`) {
				t.Errorf("the GRPCRoute of templates/network.yaml does not list %s", name)
			}
		}
		return true
	})
	if services == 0 {
		t.Error("the contract has no services")
	}
}

// TestManifestsConfigure has the server read the configurations and policies of the
// manifests.
func TestManifestsConfigure(t *testing.T) {
	t.Parallel()
	bin := programs(t)
	files, err := filepath.Glob("manifests/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		checked := 0
		for name, command := range map[string]string{"toolserver.yaml": "config", "policy.yaml": "policy"} {
			text, ok := literal(string(read(t, file)), name)
			if !ok {
				continue
			}
			checked++
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(filepath.Join(bin, "toolserver"), command, "check", path).CombinedOutput()
			if err != nil && !onlyMissing(string(out)) {
				t.Errorf("%s: %v\n%s\n%s", file, err, out, text)
			}
		}
		if checked == 0 {
			t.Errorf("%s configures nothing", file)
		}
	}
}

// onlyMissing reports whether nothing is wrong but that files are not here which are
// mounted in a pod.
func onlyMissing(out string) bool {
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "the configuration is not valid") && !strings.Contains(line, "no such file or directory") {
			return false
		}
	}
	return true
}

// literal returns a value of a ConfigMap that is written as lines.
func literal(text, key string) (string, bool) {
	_, rest, ok := strings.Cut(text, "\n  "+key+": |\n")
	var lines strings.Builder
	for line := range strings.Lines(rest) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "    ") {
			break
		}
		lines.WriteString(strings.TrimPrefix(line, "    "))
	}
	return lines.String(), ok
}
