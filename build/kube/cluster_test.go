// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// A cluster is an API server with its store, on loopback. No pods run.
type cluster struct {
	url, token, ca, kubeconfig string
	client                     *http.Client
}

// newCluster starts what make kube has built.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("TOOLSERVER_KUBE") == "" {
		t.Skip("this needs an API server, which takes long to build: see make kube")
	}
	dir := t.TempDir()
	etcd := "http://" + freeAddress(t)
	startProgram(t, dir, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", "http://"+freeAddress(t), "--unsafe-no-fsync")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private := write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	c := &cluster{token: rand.Text(), ca: filepath.Join(dir, "certs", "apiserver.crt")}
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	startProgram(t, dir, "kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", filepath.Join(dir, "certs"),
		"--authorization-mode", "RBAC", "--token-auth-file", write("tokens.csv", c.token+`,admin,1,"system:masters"`+"\n"),
		"--service-account-key-file", private, "--service-account-signing-key-file", private, "--service-account-issuer", "https://kubernetes.default.svc",
		"--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24",
		"--allow-privileged") // so that it is Pod Security who refuses
	c.url = "https://127.0.0.1:" + port
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if c.client == nil {
			if text, err := os.ReadFile(c.ca); err == nil {
				roots := x509.NewCertPool()
				if roots.AppendCertsFromPEM(text) {
					c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
				}
			}
		} else if code, _ := c.send(t, c.token, http.MethodGet, "/readyz", nil); code == http.StatusOK {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the API server is not ready: %s", tail(filepath.Join(dir, "kube-apiserver.log")))
		}
	}
	c.kubeconfig = write("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %s, certificate-authority: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, c.url, c.ca, c.token))
	return c
}

// freeAddress returns an address of loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// program returns the path of what make kube has built.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../.bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startProgram runs a program until the test ends.
func startProgram(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t, name), args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
	})
}

func tail(file string) string {
	text, _ := os.ReadFile(file)
	return string(text[max(0, len(text)-4000):])
}

// send asks the API server, and returns the status and the body of its answer.
func (c *cluster) send(t *testing.T, token, method, path string, body any) (int, string) {
	t.Helper()
	var text []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		text = b
	default:
		var err error
		if text, err = json.Marshal(b); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequest(method, c.url+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(answer)
}

// must is send as the administrator, which has to succeed.
func (c *cluster) must(t *testing.T, method, path string, body any) string {
	t.Helper()
	code, answer := c.send(t, c.token, method, path, body)
	if code/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

func (c *cluster) get(t *testing.T, path string, target any) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.must(t, http.MethodGet, path, nil)), target); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) helm(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(program(t, "helm"), args...)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// plurals are the names of kinds in paths.
var plurals = map[string]string{
	"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts", "Deployment": "deployments",
	"StatefulSet": "statefulsets", "HorizontalPodAutoscaler": "horizontalpodautoscalers", "NetworkPolicy": "networkpolicies",
	"PodDisruptionBudget": "poddisruptionbudgets", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
	"ServiceMonitor": "servicemonitors", "PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules", "Certificate": "certificates",
	"GRPCRoute": "grpcroutes", "SandboxTemplate": "sandboxtemplates", "SandboxWarmPool": "sandboxwarmpools",
}

// pathOf returns where objects of a kind are.
func pathOf(kind string) string {
	version, name, _ := strings.Cut(kind, " ")
	prefix := "/apis/" + version
	if version == "v1" {
		prefix = "/api/v1"
	}
	if strings.HasPrefix(name, "ClusterRole") {
		return prefix + "/" + plurals[name]
	}
	return prefix + "/namespaces/" + namespace + "/" + plurals[name]
}

// addKinds makes the kinds of others known. Their types are held against Go's by TestChart.
func (c *cluster) addKinds(t *testing.T) {
	t.Helper()
	for kind := range kinds {
		version, name, _ := strings.Cut(kind, " ")
		group, version, ok := strings.Cut(version, "/")
		if !ok || !strings.Contains(group, ".") || strings.HasSuffix(group, "k8s.io") && group != "gateway.networking.k8s.io" && !strings.Contains(group, "x-k8s.io") {
			continue
		}
		c.must(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plurals[name] + "." + group, "annotations": map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}},
			"spec": map[string]any{
				"group": group, "scope": "Namespaced", "names": map[string]string{"kind": name, "plural": plurals[name], "singular": strings.ToLower(name)},
				"versions": []any{map[string]any{"name": version, "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			},
		})
		for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if code, _ := c.send(t, c.token, http.MethodGet, pathOf(kind), nil); code == http.StatusOK {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s is not served", kind)
			}
		}
	}
}

func TestCluster(t *testing.T) {
	c := newCluster(t)
	c.must(t, http.MethodPost, "/api/v1/namespaces", corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	c.addKinds(t)
	t.Run("every object is valid", c.testValid)
	t.Run("install, upgrade, remove", c.testRelease)
	t.Run("all manifests install", c.testManifests)
	t.Run("restricted", c.testRestricted)
	t.Run("service accounts", c.testTokenReview)
}

// testValid has the API server look at all that the chart makes of all values.
func (c *cluster) testValid(t *testing.T) {
	for _, test := range cases {
		objects, _, err := render(test.values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			text, err := yaml.YAMLToJSON(o.text)
			if err != nil {
				t.Fatal(err)
			}
			if code, answer := c.send(t, c.token, http.MethodPost, pathOf(o.kind)+"?dryRun=All&fieldValidation=Strict", text); code != http.StatusCreated {
				t.Errorf("%s: %s %s: %d %s", test.name, o.kind, o.name, code, answer)
			}
		}
	}
	bogus := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"daten":{}}`)
	if code, _ := c.send(t, c.token, http.MethodPost, pathOf("v1 ConfigMap")+"?dryRun=All&fieldValidation=Strict", bogus); code != http.StatusBadRequest {
		t.Errorf("a field that does not exist: %d", code)
	}
}

// owned counts the objects of a release, by kind.
func (c *cluster) owned(t *testing.T) map[string]int {
	t.Helper()
	found := make(map[string]int)
	for kind := range kinds {
		var list struct{ Items []any }
		c.get(t, pathOf(kind)+"?labelSelector=app.kubernetes.io/instance%3D"+release, &list)
		if len(list.Items) > 0 {
			found[kind] = len(list.Items)
		}
	}
	return found
}

func (c *cluster) testRelease(t *testing.T) {
	values := manifestsDir + "/values/deployment.yaml"
	c.helm(t, "install", release, chartDir, "--namespace", namespace, "--values", values)
	var first, second, third appsv1.Deployment
	at := pathOf("apps/v1 Deployment") + "/" + release
	c.get(t, at, &first)
	if *first.Spec.Replicas != 2 {
		t.Errorf("%d replicas", *first.Spec.Replicas)
	}
	c.helm(t, "upgrade", release, chartDir, "--namespace", namespace, "--values", values, "--set-string", "policy=version: 1", "--set", "replicas=3")
	c.get(t, at, &second)
	if *second.Spec.Replicas != 3 || second.Spec.Template.Annotations["checksum/config"] != first.Spec.Template.Annotations["checksum/config"] {
		t.Errorf("a new policy makes new pods: %v", second.Spec.Template.Annotations)
	}
	var policy corev1.ConfigMap
	if c.get(t, pathOf("v1 ConfigMap")+"/"+release+"-policy", &policy); strings.TrimSpace(policy.Data["policy.yaml"]) != "version: 1" {
		t.Errorf("the policy is %q", policy.Data)
	}
	c.helm(t, "upgrade", release, chartDir, "--namespace", namespace, "--values", values, "--set", "config.sessions.mode=plan")
	c.get(t, at, &third)
	if third.Spec.Template.Annotations["checksum/config"] == first.Spec.Template.Annotations["checksum/config"] {
		t.Error("a new configuration makes no new pods")
	}
	c.helm(t, "rollback", release, "1", "--namespace", namespace)
	c.helm(t, "uninstall", release, "--namespace", namespace)
	if left := c.owned(t); len(left) > 0 {
		t.Errorf("left after removal: %v", left)
	}
}

func (c *cluster) testManifests(t *testing.T) {
	files, err := filepath.Glob(manifestsDir + "/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		c.helm(t, "install", release, chartDir, "--namespace", namespace, "--values", file)
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, _, err := render(string(values))
		if err != nil {
			t.Fatal(err)
		}
		there := 0
		for _, n := range c.owned(t) {
			there += n
		}
		if there != len(objects) {
			t.Errorf("%s: %d objects, want %d", file, there, len(objects))
		}
		c.helm(t, "uninstall", release, "--namespace", namespace)
		if left := c.owned(t); len(left) > 0 {
			t.Errorf("%s: left after removal: %v", file, left)
		}
	}
}

// testRestricted makes pods of the templates, as there is nobody else who would: those of
// the chart are let in, and those that ask for more are not.
func (c *cluster) testRestricted(t *testing.T) {
	yes, no, root := true, false, int64(0)
	changes := map[string]func(*corev1.PodSpec){
		"nothing else": func(*corev1.PodSpec) {},
		"privileged": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Privileged = &yes
			p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		},
		"privilege escalation": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"root":                 func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = &root; p.SecurityContext.RunAsNonRoot = &no },
		"a capability": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		},
		"no seccomp":              func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil },
		"the network of the node": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"files of the node": func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		},
	}
	for _, test := range cases {
		objects, _, err := render(test.values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			about, spec := podOf(o)
			if spec == nil {
				continue
			}
			if stateful, ok := o.any.(*appsv1.StatefulSet); ok {
				for _, claim := range stateful.Spec.VolumeClaimTemplates { // as its controller does
					spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-0"}}})
				}
			}
			spec.PriorityClassName, spec.RuntimeClassName = "", nil // which this cluster does not have
			for name, change := range changes {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: about.Labels, Annotations: about.Annotations}, Spec: *spec.DeepCopy()}
				change(&pod.Spec)
				code, answer := c.send(t, c.token, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All", pod)
				if name == "nothing else" && code != http.StatusCreated {
					t.Errorf("%s: %d %s", test.name, code, answer)
				}
				if name != "nothing else" && (code != http.StatusForbidden || !strings.Contains(answer, "violates PodSecurity")) {
					t.Errorf("%s, with %s: %d %s", test.name, name, code, answer)
				}
			}
		}
	}
}

// tokenFor returns a token of a service account.
func (c *cluster) tokenFor(t *testing.T, account string, audiences ...string) string {
	t.Helper()
	var request struct{ Status struct{ Token string } }
	answer := c.must(t, http.MethodPost, pathOf("v1 ServiceAccount")+"/"+account+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"audiences": audiences, "expirationSeconds": 3600},
	})
	if err := json.Unmarshal([]byte(answer), &request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// testTokenReview serves as the service account of the chart would, and calls as another.
func (c *cluster) testTokenReview(t *testing.T) {
	path, err := server()
	if err != nil {
		t.Fatal(err)
	}
	c.helm(t, "install", release, chartDir, "--namespace", namespace, "--set", "authentication.tokenReview.enabled=true")
	defer c.helm(t, "uninstall", release, "--namespace", namespace)
	var role rbacv1.ClusterRole
	c.get(t, pathOf("rbac.authorization.k8s.io/v1 ClusterRole")+"/"+namespace+"-"+release+"-token-review", &role)
	if len(role.Rules) != 1 {
		t.Errorf("rules %v", role.Rules)
	}
	c.must(t, http.MethodPost, pathOf("v1 ServiceAccount"), corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}})
	own := c.tokenFor(t, release)
	if code, _ := c.send(t, own, http.MethodGet, pathOf("v1 Secret"), nil); code != http.StatusForbidden {
		t.Errorf("the server may read secrets: %d", code)
	}
	dir := t.TempDir()
	config := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {address: off}\nsessions: {workspace_root: %s/w}\nauthentication: {kubernetes: {token_review: true, api_server: '%s', ca: %s, token_file: %s/token}}\n", dir, c.url, c.ca, dir)
	for name, text := range map[string]string{"c.yaml": config, "token": own} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	serve := exec.Command(path, "serve", "--config", filepath.Join(dir, "c.yaml"))
	serve.Dir, serve.Stderr, serve.Env = dir, log, append(os.Environ(), "XDG_STATE_HOME="+dir)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer serve.Wait()
	defer serve.Process.Signal(syscall.SIGTERM)
	address := ""
	for limit := time.Now().Add(time.Minute); address == ""; time.Sleep(20 * time.Millisecond) {
		for line := range strings.Lines(tail(log.Name())) {
			var serving struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &serving) == nil && serving.Msg == "serving" {
				address = serving.Address
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("it does not serve: %s", tail(log.Name()))
		}
	}
	for _, test := range []struct{ name, token, want string }{
		{"a token for toolserver", c.tokenFor(t, "agent", "toolserver"), "you are system:serviceaccount:" + namespace + ":agent"},
		{"a token for somebody else", c.tokenFor(t, "agent", "somebody"), "token"},
	} {
		out, err := exec.Command(path, "version", "--address", address, "--token", test.token).CombinedOutput()
		if !strings.Contains(string(out), test.want) || (err == nil) != strings.HasPrefix(test.want, "you are") {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
	}
}
