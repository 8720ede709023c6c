// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube holds the chart of deploy/ against Kubernetes: what it renders, what it
// refuses, and, with make kube, what a real API server says to it.
package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

const (
	chartDir     = "../../deploy/chart/toolserver"
	manifestsDir = "../../deploy/manifests"
	namespace    = "toolserver"
	release      = "toolserver"
)

// A sandboxTemplate is what the chart uses of the type of kubernetes-sigs/agent-sandbox,
// extensions.agents.x-k8s.io/v1beta1; its module is not to be had everywhere.
type sandboxTemplate struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		PodTemplate struct {
			Metadata struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec corev1.PodSpec `json:"spec"`
		} `json:"podTemplate"`
		Service       *bool `json:"service"`
		NetworkPolicy *struct {
			Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress"`
			Egress  []networkingv1.NetworkPolicyEgressRule  `json:"egress"`
		} `json:"networkPolicy"`
		NetworkPolicyManagement    string `json:"networkPolicyManagement"`
		EnvVarsInjectionPolicy     string `json:"envVarsInjectionPolicy"`
		VolumeClaimTemplatesPolicy string `json:"volumeClaimTemplatesPolicy"`
	} `json:"spec"`
}

type sandboxWarmPool struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas           *int32 `json:"replicas"`
		SandboxTemplateRef struct {
			Name string `json:"name"`
		} `json:"sandboxTemplateRef"`
		UpdateStrategy struct {
			Type string `json:"type"`
		} `json:"updateStrategy"`
	} `json:"spec"`
}

// kinds are the types of all objects that the chart may make.
var kinds = map[string]func() any{
	"v1 ConfigMap":                                       func() any { return new(corev1.ConfigMap) },
	"v1 Secret":                                          func() any { return new(corev1.Secret) },
	"v1 Service":                                         func() any { return new(corev1.Service) },
	"v1 ServiceAccount":                                  func() any { return new(corev1.ServiceAccount) },
	"apps/v1 Deployment":                                 func() any { return new(appsv1.Deployment) },
	"apps/v1 StatefulSet":                                func() any { return new(appsv1.StatefulSet) },
	"autoscaling/v2 HorizontalPodAutoscaler":             func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1 NetworkPolicy":                 func() any { return new(networkingv1.NetworkPolicy) },
	"policy/v1 PodDisruptionBudget":                      func() any { return new(policyv1.PodDisruptionBudget) },
	"rbac.authorization.k8s.io/v1 ClusterRole":           func() any { return new(rbacv1.ClusterRole) },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":    func() any { return new(rbacv1.ClusterRoleBinding) },
	"monitoring.coreos.com/v1 ServiceMonitor":            func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1 PodMonitor":                func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule":            func() any { return new(monitoring.PrometheusRule) },
	"cert-manager.io/v1 Certificate":                     func() any { return new(certmanager.Certificate) },
	"gateway.networking.k8s.io/v1 GRPCRoute":             func() any { return new(gateway.GRPCRoute) },
	"extensions.agents.x-k8s.io/v1beta1 SandboxTemplate": func() any { return new(sandboxTemplate) },
	"extensions.agents.x-k8s.io/v1beta1 SandboxWarmPool": func() any { return new(sandboxWarmPool) },
}

// An object is one of those that were rendered.
type object struct {
	kind string // with its API version
	name string
	text []byte
	any  // strictly decoded
}

// render returns what the chart makes of values, which are YAML.
func render(values string) ([]object, string, error) {
	given := make(map[string]any)
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		return nil, "", err
	}
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, "", err
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, "", err
	}
	var objects []object
	var text strings.Builder
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(files[file])))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", file, err)
			}
			if len(bytes.TrimSpace(withoutComments(document))) == 0 {
				continue
			}
			o, err := decode(document)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w\n%s", file, err, document)
			}
			objects = append(objects, o)
			fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", file, bytes.TrimSpace(document))
		}
	}
	return objects, text.String(), nil
}

// withoutComments returns the lines of a document that say something.
func withoutComments(document []byte) []byte {
	var kept [][]byte
	for line := range bytes.Lines(document) {
		if trimmed := bytes.TrimSpace(line); !bytes.HasPrefix(trimmed, []byte("#")) && !bytes.Equal(trimmed, []byte("---")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, nil)
}

// decode decodes an object into its type; what the type does not have is an error.
func decode(document []byte) (object, error) {
	var about struct {
		metav1.TypeMeta
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal(document, &about); err != nil {
		return object{}, err
	}
	kind := about.APIVersion + " " + about.Kind
	fresh, ok := kinds[kind]
	if !ok {
		return object{}, fmt.Errorf("an object of the unknown kind %q", kind)
	}
	typed := fresh()
	if err := yaml.UnmarshalStrict(document, typed, yaml.DisallowUnknownFields); err != nil {
		return object{}, fmt.Errorf("%s %s: %w", kind, about.Metadata.Name, err)
	}
	if about.Metadata.Name == "" {
		return object{}, fmt.Errorf("a %s without a name", kind)
	}
	return object{kind, about.Metadata.Name, document, typed}, nil
}

// podOf returns the pod of a workload.
func podOf(o object) (*metav1.ObjectMeta, *corev1.PodSpec) {
	switch w := o.any.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template.ObjectMeta, &w.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &w.Spec.Template.ObjectMeta, &w.Spec.Template.Spec
	case *sandboxTemplate:
		about := w.Spec.PodTemplate.Metadata
		return &metav1.ObjectMeta{Labels: about.Labels, Annotations: about.Annotations}, &w.Spec.PodTemplate.Spec
	}
	return nil, nil
}

const tokens = "authentication: {tokens: {existingSecret: t}}\n"

// cases are values, and the objects that come of them.
var cases = []struct {
	name, values string
	want         []string // kinds without their groups
	not          []string
}{
	{"the least", tokens,
		[]string{"Deployment", "Service", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"},
		[]string{"StatefulSet", "Secret", "HorizontalPodAutoscaler", "ClusterRole", "Certificate", "GRPCRoute", "ServiceMonitor"}},
	{"lines of tokens", "authentication: {tokens: {lines: ['sha256:" + strings.Repeat("ab", 32) + " roles=agent name=alice', '# more']}}\n",
		[]string{"Secret"}, nil},
	{"stateful", tokens + "workload: StatefulSet\nstorage: {storageClass: fast, whenDeleted: Delete}\n",
		[]string{"StatefulSet", "Service"}, []string{"Deployment"}},
	{"one pod for each session", tokens + "workload: SandboxTemplate\nsandbox: {runtimeClassName: gvisor, warmPool: 5}\nmetrics: {serviceMonitor: {enabled: true}}\n",
		[]string{"SandboxTemplate", "SandboxWarmPool", "PodMonitor"}, []string{"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor"}},
	{"sandboxes without policy", tokens + "workload: SandboxTemplate\nnetworkPolicy: {enabled: false}\n", []string{"SandboxTemplate"}, nil},
	{"certificates", "authentication: {certificates: {existingSecret: callers}}\n", nil, nil},
	{"certificates in a ConfigMap", "authentication: {certificates: {existingConfigMap: callers}}\n", nil, nil},
	{"service accounts", "authentication: {tokenReview: {enabled: true}}\n", []string{"ClusterRole", "ClusterRoleBinding"}, nil},
	{"service accounts of a known API server", "authentication: {tokenReview: {enabled: true}}\nnetworkPolicy: {apiServerCIDRs: [10.0.0.1/32], apiServerPort: 443}\n", []string{"ClusterRole"}, nil},
	{"an issuer", "authentication: {oidc: [{issuer: https://login.example.org, audiences: [toolserver]}], principals: [{group: sre, roles: [operator]}]}\n", nil, nil},
	{"in the configuration", "config: {authentication: {token_file: /mine}, sessions: {mode: plan}}\n", nil, nil},
	{"a policy", tokens + "policy: |\n  version: 1\n  rules: []\n", []string{"ConfigMap"}, nil},
	{"all of monitoring", tokens + "metrics: {serviceMonitor: {enabled: true, labels: {a: b}}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}\n",
		[]string{"ServiceMonitor", "PrometheusRule"}, nil},
	{"cert-manager", tokens + "tls: {certManager: {enabled: true, issuerRef: {name: ours}, dnsNames: [tools.example.org]}}\n", []string{"Certificate"}, nil},
	{"a route", tokens + "grpcRoute: {enabled: true, parentRefs: [{name: public, namespace: gateways}], hostnames: [tools.example.org]}\n", []string{"GRPCRoute"}, nil},
	{"scaled", tokens + "autoscaling: {enabled: true}\n", []string{"HorizontalPodAutoscaler"}, nil},
	{"scaled and stateful", tokens + "workload: StatefulSet\nautoscaling: {enabled: true, minReplicas: 1, maxReplicas: 3}\n", []string{"HorizontalPodAutoscaler", "StatefulSet"}, nil},
	{"in clear text", tokens + "tls: {enabled: false}\n", nil, nil},
	{"without extras", tokens + "networkPolicy: {enabled: false}\npodDisruptionBudget: {enabled: false}\naudit: {enabled: false}\nserviceAccount: {create: false}\nshutdown: {preStopSeconds: 0}\n",
		nil, []string{"NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"}},
	{"no egress", tokens + "networkPolicy: {dns: false}\n", []string{"NetworkPolicy"}, nil},
	{"egress and callers", tokens + "networkPolicy: {from: [{namespaceSelector: {}}], metricsFrom: [{podSelector: {}}], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}], ports: [{port: 443}]}]}\n", nil, nil},
	{"everything of pods", tokens + `image: {digest: "sha256:` + strings.Repeat("0", 64) + `", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
podLabels: {team: agents}
podAnnotations: {a: "1"}
env: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4317"}]
volumes: [{name: more, emptyDir: {}}]
volumeMounts: [{name: more, mountPath: /more}]
nodeSelector: {pool: agents}
tolerations: [{key: agents, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
`, nil, nil},
	{"long names", tokens + "fullnameOverride: a-name-that-is-much-longer-than-what-kubernetes-lets-a-service-have\n", nil, nil},
}

func TestChart(t *testing.T) {
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			objects, _, err := render(test.values)
			if err != nil {
				t.Fatal(err)
			}
			found, names := make(map[string]bool), make(map[string]bool)
			for _, o := range objects {
				_, kind, _ := strings.Cut(o.kind, " ")
				found[kind] = true
				if names[o.kind+o.name] {
					t.Errorf("two of %s %s", o.kind, o.name)
				}
				names[o.kind+o.name] = true
				if len(o.name) > 63 {
					t.Errorf("the name of %s %s is too long", o.kind, o.name)
				}
				checkPod(t, o)
			}
			for _, kind := range test.want {
				if !found[kind] {
					t.Errorf("no %s", kind)
				}
			}
			for _, kind := range test.not {
				if found[kind] {
					t.Errorf("a %s", kind)
				}
			}
			checkReferences(t, objects)
		})
	}
}

// checkPod holds the pod of a workload against Pod Security "restricted", and what the
// server needs to end in peace.
func checkPod(t *testing.T, o object) {
	t.Helper()
	about, pod := podOf(o)
	if pod == nil {
		return
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, about, pod) {
		if !result.Allowed {
			t.Errorf("Pod Security: %s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	container := pod.Containers[0]
	if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
		t.Errorf("the root can be written to")
	}
	if token := pod.AutomountServiceAccountToken; token == nil || *token {
		t.Errorf("commands find a token of the service account")
	}
	var sleep int64
	if container.Lifecycle != nil {
		sleep = container.Lifecycle.PreStop.Sleep.Seconds
	}
	if *pod.TerminationGracePeriodSeconds < sleep+120 {
		t.Errorf("a pod is killed after %d s", *pod.TerminationGracePeriodSeconds)
	}
	volumes := make(map[string]bool)
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
	}
	if stateful, ok := o.any.(*appsv1.StatefulSet); ok {
		for _, claim := range stateful.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = true
		}
	}
	for _, mount := range container.VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("there is no volume %s", mount.Name)
		}
		if mount.SubPath != "" {
			t.Errorf("changes of %s are not seen: it has a subPath", mount.MountPath)
		}
	}
}

// checkReferences sees that what objects name is there, and that selectors find the pods.
func checkReferences(t *testing.T, objects []object) {
	t.Helper()
	there := make(map[string]bool)
	var labels map[string]string
	for _, o := range objects {
		there[o.kind+" "+o.name] = true
		if about, pod := podOf(o); pod != nil {
			labels = about.Labels
		}
	}
	finds := func(what string, selector map[string]string) {
		t.Helper()
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("%s looks for %s=%s, pods have %q", what, key, value, labels[key])
			}
		}
	}
	for _, o := range objects {
		switch typed := o.any.(type) {
		case *corev1.Service:
			finds("Service "+o.name, typed.Spec.Selector)
		case *networkingv1.NetworkPolicy:
			finds("NetworkPolicy", typed.Spec.PodSelector.MatchLabels)
			if len(typed.Spec.PolicyTypes) != 2 {
				t.Errorf("NetworkPolicy has types %v", typed.Spec.PolicyTypes)
			}
		case *policyv1.PodDisruptionBudget:
			finds("PodDisruptionBudget", typed.Spec.Selector.MatchLabels)
		case *autoscalingv2.HorizontalPodAutoscaler:
			target := typed.Spec.ScaleTargetRef
			if !there[target.APIVersion+" "+target.Kind+" "+target.Name] {
				t.Errorf("nothing to scale: %v", target)
			}
		case *appsv1.StatefulSet:
			if !there["v1 Service "+typed.Spec.ServiceName] {
				t.Errorf("there is no Service %s", typed.Spec.ServiceName)
			}
		case *gateway.GRPCRoute:
			for _, rule := range typed.Spec.Rules {
				for _, to := range rule.BackendRefs {
					if !there["v1 Service "+string(to.Name)] {
						t.Errorf("there is no Service %s", to.Name)
					}
				}
			}
		case *monitoring.ServiceMonitor:
			matches := 0
			for _, other := range objects {
				if service, ok := other.any.(*corev1.Service); ok && isSubset(typed.Spec.Selector.MatchLabels, service.Labels) {
					matches++
				}
			}
			if matches != 1 {
				t.Errorf("ServiceMonitor finds %d Services", matches)
			}
		}
		if _, pod := podOf(o); pod != nil {
			for _, volume := range pod.Volumes {
				if volume.ConfigMap != nil && strings.HasPrefix(volume.ConfigMap.Name, release) && !there["v1 ConfigMap "+volume.ConfigMap.Name] {
					t.Errorf("there is no ConfigMap %s", volume.ConfigMap.Name)
				}
			}
		}
	}
}

func isSubset(small, large map[string]string) bool {
	for key, value := range small {
		if large[key] != value {
			return false
		}
	}
	return true
}

// TestHTTP: the face for MCP clients is a port of the pods, of both Services and of the network
// policy, where the configuration listens; without the value it is nowhere.
func TestHTTP(t *testing.T) {
	for values, want := range map[string]bool{tokens: false, tokens + "http: {enabled: true, port: 443}\n": true} {
		objects, text, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text, "listen: :8668"); got != want {
			t.Errorf("the configuration listens: %v, want %v", got, want)
		}
		for _, o := range objects {
			at := int32(0)
			switch w := o.any.(type) {
			case *corev1.Service:
				for _, port := range w.Spec.Ports {
					if port.Name == "http" && port.TargetPort.StrVal == "http" {
						at = port.Port
					}
				}
				if headless := w.Spec.ClusterIP == "None"; want && at != 443 && !(headless && at == 8668) {
					t.Errorf("%s has the port %d", o.name, at)
				}
			case *networkingv1.NetworkPolicy:
				for _, port := range w.Spec.Ingress[0].Ports {
					if port.Port.IntVal == 8668 {
						at = 8668
					}
				}
			case *appsv1.Deployment:
				for _, port := range w.Spec.Template.Spec.Containers[0].Ports {
					if port.Name == "http" {
						at = port.ContainerPort
					}
				}
			default:
				continue
			}
			if (at != 0) != want {
				t.Errorf("%s %s has the port: %v, want %v", o.kind, o.name, at != 0, want)
			}
		}
	}
}

// TestSharedState: with a cluster there are three replicas that reach it and each other, and
// without one nothing of it is there.
func TestSharedState(t *testing.T) {
	const shared = "state: {url: 'tls://nats:4222', credentialsSecret: nats-user, tlsSecret: nats-tls, clientCertificate: true, to: [{podSelector: {}}]}\n"
	for values, want := range map[string]bool{tokens: false, tokens + shared: true} {
		objects, text, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"engine: cluster", "url: tls://nats:4222", "credentials: /etc/toolserver/state/user.creds", "key: /etc/toolserver/state-tls/tls.key", "$(POD_IP):8667"} {
			if strings.Contains(text, part) != want {
				t.Errorf("%q is there: %v, want %v", part, !want, want)
			}
		}
		for _, o := range objects {
			switch w := o.any.(type) {
			case *networkingv1.NetworkPolicy:
				ports := make(map[int32]int)
				for _, rule := range w.Spec.Ingress {
					for _, port := range rule.Ports {
						ports[port.Port.IntVal]++
					}
				}
				for _, rule := range w.Spec.Egress {
					for _, port := range rule.Ports {
						ports[port.Port.IntVal]++
					}
				}
				if (ports[8667] == 2 && ports[4222] == 1) != want {
					t.Errorf("open ports: %v", ports)
				}
			case *appsv1.Deployment:
				if n := *w.Spec.Replicas; (n == 3) != want || n < 2 {
					t.Errorf("%d replicas", n)
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct{ name, values, want string }{
		{"nobody authenticates", "", "choose at least one way"},
		{"a misspelled key", tokens + "replica: 3\n", "replica"},
		{"a misspelled key further below", tokens + "tls: {enable: true}\n", "enable"},
		{"another workload", tokens + "workload: DaemonSet\n", "workload"},
		{"a wrong type", tokens + "replicas: two\n", "replicas"},
		{"a token in clear text", "authentication: {tokens: {lines: [tsk_secret]}}\n", "lines"},
		{"tokens twice", "authentication: {tokens: {existingSecret: t, lines: ['# x']}}\n", "not both"},
		{"certificates twice", "authentication: {certificates: {existingSecret: t, existingConfigMap: u}}\n", "not both"},
		{"certificates without TLS", "authentication: {certificates: {existingSecret: t}}\ntls: {enabled: false}\n", "needs tls.enabled"},
		{"a certificate of nobody", tokens + "tls: {certManager: {enabled: true}}\n", "which issuer"},
		{"a certificate without TLS", tokens + "tls: {enabled: false, certManager: {enabled: true, issuerRef: {name: a}}}\n", "needs tls.enabled"},
		{"a route to nowhere", tokens + "grpcRoute: {enabled: true}\n", "which Gateway"},
		{"scaled sandboxes", tokens + "workload: SandboxTemplate\nautoscaling: {enabled: true}\n", "SandboxWarmPool"},
		{"scaled backwards", tokens + "autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 2}\n", "more than maxReplicas"},
		{"root", tokens + "userID: 0\n", "userID"},
		{"an issuer in clear text", "authentication: {oidc: [{issuer: 'http://login.example.org'}]}\n", "issuer"},
		{"a URL that is none", tokens + "state: {url: nats:4222}\n", "url"},
		{"credentials for nothing", tokens + "state: {credentialsSecret: s}\n", "no url"},
		{"a certificate from nowhere", tokens + "state: {url: 'tls://nats:4222', clientCertificate: true}\n", "needs state.tlsSecret"},
		{"sandboxes that share", tokens + "workload: SandboxTemplate\nstate: {url: 'tls://nats:4222'}\n", "none stands for another"},
		{"a digest that is none", tokens + "image: {digest: latest}\n", "digest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := render(test.values)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestLint(t *testing.T) {
	for _, test := range cases {
		given := make(map[string]any)
		if err := yaml.Unmarshal([]byte(test.values), &given); err != nil {
			t.Fatal(err)
		}
		result := lint.RunAll(chartDir, given, namespace)
		for _, message := range result.Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s: %s", test.name, message.Error())
			}
		}
	}
}

// TestManifests holds the plain manifests against the chart. UPDATE_GOLDEN=1 writes them,
// as make manifests does.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(manifestsDir, "values", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no values: %v", err)
	}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, text, err := render(string(values))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := filepath.Join(manifestsDir, filepath.Base(file))
		text = "# Made by make manifests from deploy/chart and values/" + filepath.Base(file) + ". Do not edit.\n" + text
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if committed, err := os.ReadFile(name); err != nil || string(committed) != text {
			t.Errorf("%s is not what the chart makes: run make manifests (%v)", name, err)
		}
	}
}

// server returns the path of the server, which is built once.
var server = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kube")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "toolserver")
	build := exec.Command("go", "build", "-o", path, "./cmd/toolserver")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// TestConfigurations has the server read every configuration that the chart makes.
func TestConfigurations(t *testing.T) {
	path, err := server()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(path)) })
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			objects, _, err := render(test.values)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				config, ok := o.any.(*corev1.ConfigMap)
				if !ok {
					continue
				}
				for name, check := range map[string][]string{"toolserver.yaml": {"config", "check"}, "policy.yaml": {"policy", "check"}} {
					text, ok := config.Data[name]
					if !ok {
						continue
					}
					file := filepath.Join(t.TempDir(), name)
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					out, err := exec.Command(path, append(check, file)...).CombinedOutput()
					if err != nil && !onlyMissing(string(out)) {
						t.Errorf("%v: %v\n%s\n%s", check, err, out, text)
					}
				}
			}
		})
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
