{{- define "toolserver.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Leaves room for "-headless", "-dashboard" and the number of a replica. */ -}}
{{- define "toolserver.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "toolserver.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "toolserver.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "toolserver.selector" -}}
app.kubernetes.io/name: {{ include "toolserver.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolserver.labels" -}}
{{ include "toolserver.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "toolserver.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "toolserver.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "toolserver.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default (printf "%s-tools" .Chart.AppVersion) .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "toolserver.tlsSecret" -}}
{{- default (printf "%s-tls" (include "toolserver.fullname" .)) .Values.tls.existingSecret -}}
{{- end -}}

{{- define "toolserver.tokensSecret" -}}
{{- $t := .Values.authentication.tokens -}}
{{- if $t.existingSecret -}}{{ $t.existingSecret }}{{- else if $t.lines -}}{{ include "toolserver.fullname" . }}-tokens{{- end -}}
{{- end -}}

{{- define "toolserver.callerCAs" -}}
{{- $c := .Values.authentication.certificates -}}
{{- if or $c.existingSecret $c.existingConfigMap -}}yes{{- end -}}
{{- end -}}

{{- /* Whether the pods keep a token of their service account. */ -}}
{{- define "toolserver.tokenReview" -}}
{{- if .Values.authentication.tokenReview.enabled -}}yes{{- end -}}
{{- end -}}

{{- /* What has to be so before anything is made. */ -}}
{{- define "toolserver.check" -}}
{{- $a := .Values.authentication -}}
{{- $own := dig "authentication" dict .Values.config -}}
{{- if not (or (include "toolserver.tokensSecret" .) (include "toolserver.callerCAs" .) $a.tokenReview.enabled $a.oidc $own) -}}
{{- fail "authentication: choose at least one way: tokens, certificates, tokenReview or oidc. A server that anybody may call does not listen on the network." -}}
{{- end -}}
{{- if and (include "toolserver.callerCAs" .) (not .Values.tls.enabled) -}}
{{- fail "authentication.certificates needs tls.enabled: without it there are no certificates of callers." -}}
{{- end -}}
{{- if and $a.certificates.existingSecret $a.certificates.existingConfigMap -}}
{{- fail "authentication.certificates: set existingSecret or existingConfigMap, not both." -}}
{{- end -}}
{{- if and $a.tokens.existingSecret $a.tokens.lines -}}
{{- fail "authentication.tokens: set existingSecret or lines, not both." -}}
{{- end -}}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name: which issuer makes the certificate?" -}}
{{- end -}}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.enabled) -}}
{{- fail "tls.certManager.enabled needs tls.enabled." -}}
{{- end -}}
{{- if and .Values.grpcRoute.enabled (not .Values.grpcRoute.parentRefs) -}}
{{- fail "grpcRoute.parentRefs: which Gateway does the route belong to?" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (eq .Values.workload "SandboxTemplate") -}}
{{- fail "autoscaling: there is a pod for each session; scale the SandboxWarmPool instead." -}}
{{- end -}}
{{- if and (not .Values.state.url) (or .Values.state.credentialsSecret .Values.state.tlsSecret) -}}
{{- fail "state: it has a Secret and no url: name the servers of the cluster, or leave both out." -}}
{{- end -}}
{{- if and .Values.state.clientCertificate (not .Values.state.tlsSecret) -}}
{{- fail "state.clientCertificate needs state.tlsSecret, which has it." -}}
{{- end -}}
{{- if and .Values.state.url (eq .Values.workload "SandboxTemplate") -}}
{{- fail "state.url: with a pod for each session none stands for another: leave it out." -}}
{{- end -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- fail "autoscaling: minReplicas is more than maxReplicas." -}}
{{- end -}}
{{- end -}}

{{- /* How many pods there are; 0 is a number, too. */ -}}
{{- define "toolserver.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}{{- ternary 3 2 (ne .Values.state.url "") -}}{{- else -}}{{- int .Values.replicas -}}{{- end -}}
{{- end -}}

{{- /* The configuration: what the chart sets, and over it what the values say. */ -}}
{{- define "toolserver.config" -}}
{{- $state := "/var/lib/toolserver" -}}
{{- $c := dict
  "listen" ":8665"
  "admin" (dict "address" ":8666")
  "sessions" (dict "workspace_root" (printf "%s/workspaces" $state))
  "stop_file" (printf "%s/stops.json" $state)
  "artifacts" (dict "dir" (printf "%s/artifacts" $state))
  "sandbox" (dict "caches" (dict "dir" (printf "%s/caches" $state)))
  "wire" (dict "max_connection_age" .Values.connections.maxAge "max_connection_grace" .Values.connections.maxAgeGrace)
  "shutdown_grace" (printf "%ds" (int .Values.shutdown.graceSeconds))
-}}
{{- if .Values.policy -}}{{- $_ := set $c "policy" (dict "file" "/etc/toolserver/policy/policy.yaml") -}}{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $c "tls" (dict "certificate" "/etc/toolserver/tls/tls.crt" "key" "/etc/toolserver/tls/tls.key") -}}
{{- end -}}
{{- if .Values.http.enabled -}}{{- $_ := set $c "http" (dict "listen" ":8668") -}}{{- end -}}
{{- if .Values.audit.enabled -}}
{{- $_ := set $c "audit" (dict "file" (printf "%s/audit.jsonl" $state) "stdout" .Values.audit.stdout "max_bytes" .Values.audit.maxBytes "keep" (int .Values.audit.keep)) -}}
{{- end -}}
{{- with .Values.state -}}
{{- if .url -}}
{{- $cluster := dict "engine" "cluster" "url" .url "replicas" (int .replicas) "prefix" .prefix -}}
{{- if .credentialsSecret -}}{{- $_ := set $cluster "credentials" "/etc/toolserver/state/user.creds" -}}{{- end -}}
{{- if .tlsSecret -}}
{{- $files := dict "ca" "/etc/toolserver/state-tls/ca.crt" -}}
{{- if .clientCertificate -}}{{- $_ := merge $files (dict "certificate" "/etc/toolserver/state-tls/tls.crt" "key" "/etc/toolserver/state-tls/tls.key") -}}{{- end -}}
{{- $_ := set $cluster "tls" $files -}}
{{- end -}}
{{- $_ := set $c "state" $cluster -}}
{{- $_ := set $c "replica" (dict "listen" ":8667") -}}
{{- end -}}
{{- end -}}
{{- $a := dict -}}
{{- if include "toolserver.tokensSecret" . -}}{{- $_ := set $a "token_file" "/etc/toolserver/tokens/tokens" -}}{{- end -}}
{{- if include "toolserver.callerCAs" . -}}{{- $_ := set $a "certificates" (dict "ca" "/etc/toolserver/callers/ca.crt") -}}{{- end -}}
{{- if .Values.authentication.tokenReview.enabled -}}
{{- $_ := set $a "kubernetes" (dict "token_review" true "audiences" .Values.authentication.tokenReview.audiences "token_file" "/var/run/secrets/toolserver/token" "ca" "/var/run/secrets/toolserver/ca.crt") -}}
{{- end -}}
{{- with .Values.authentication.oidc -}}{{- $_ := set $a "oidc" . -}}{{- end -}}
{{- with .Values.authentication.principals -}}{{- $_ := set $a "principals" . -}}{{- end -}}
{{- if $a -}}{{- $_ := set $c "authentication" $a -}}{{- end -}}
{{- toYaml (mergeOverwrite $c (deepCopy .Values.config)) -}}
{{- end -}}

{{- /* The pod: the same in all three workloads. */ -}}
{{- define "toolserver.pod" -}}
metadata:
  labels:
    {{- include "toolserver.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A new configuration is read at start: it makes new pods. A policy does not.
    checksum/config: {{ include "toolserver.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "toolserver.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Before it, preStop; after it, what streams have left to send.
  terminationGracePeriodSeconds: {{ add .Values.shutdown.preStopSeconds .Values.shutdown.graceSeconds 20 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if and .Values.sandbox.runtimeClassName (eq .Values.workload "SandboxTemplate") }}
  runtimeClassName: {{ .Values.sandbox.runtimeClassName }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: {{ .Values.userID }}
    runAsGroup: {{ .Values.userID }}
    fsGroup: {{ .Values.userID }}
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
  - name: toolserver
    image: {{ include "toolserver.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [serve, --config, /etc/toolserver/config/toolserver.yaml]
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    ports:
    - name: grpc
      containerPort: 8665
    - name: admin
      containerPort: 8666
    {{- if .Values.state.url }}
    - name: replicas
      containerPort: 8667
    {{- end }}
    {{- if .Values.http.enabled }}
    - name: http
      containerPort: 8668
    {{- end }}
    env:
    - name: HOME
      value: /var/lib/toolserver
    - name: XDG_STATE_HOME
      value: /var/lib/toolserver/state
    {{- if .Values.state.url }}
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - name: TOOLSERVER_REPLICA_ADVERTISE
      value: "$(POD_IP):8667"
    {{- end }}
    {{- with .Values.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- /* The probes of gRPC speak no TLS; the admin port tells the same. */}}
    startupProbe:
      {{- include "toolserver.probe" (list . "livez") | nindent 6 }}
      periodSeconds: 1
      failureThreshold: 60
    livenessProbe:
      {{- include "toolserver.probe" (list . "livez") | nindent 6 }}
      periodSeconds: 10
      failureThreshold: 6
    readinessProbe:
      {{- include "toolserver.probe" (list . "readyz") | nindent 6 }}
      periodSeconds: 2
      failureThreshold: 2
    {{- if gt (int .Values.shutdown.preStopSeconds) 0 }}
    lifecycle:
      preStop:
        # The kubelet does it: there is no shell.
        sleep:
          seconds: {{ .Values.shutdown.preStopSeconds }}
    {{- end }}
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
    volumeMounts:
    - {name: config, mountPath: /etc/toolserver/config, readOnly: true}
    {{- if .Values.policy }}
    # The directory and not the file, or changes would not be seen.
    - {name: policy, mountPath: /etc/toolserver/policy, readOnly: true}
    {{- end }}
    {{- if .Values.tls.enabled }}
    - {name: tls, mountPath: /etc/toolserver/tls, readOnly: true}
    {{- end }}
    {{- if include "toolserver.tokensSecret" . }}
    - {name: tokens, mountPath: /etc/toolserver/tokens, readOnly: true}
    {{- end }}
    {{- if include "toolserver.callerCAs" . }}
    - {name: callers, mountPath: /etc/toolserver/callers, readOnly: true}
    {{- end }}
    {{- if include "toolserver.tokenReview" . }}
    - {name: api, mountPath: /var/run/secrets/toolserver, readOnly: true}
    {{- end }}
    {{- if and .Values.state.url .Values.state.credentialsSecret }}
    - {name: state, mountPath: /etc/toolserver/state, readOnly: true}
    {{- end }}
    {{- if and .Values.state.url .Values.state.tlsSecret }}
    - {name: state-tls, mountPath: /etc/toolserver/state-tls, readOnly: true}
    {{- end }}
    - {name: data, mountPath: /var/lib/toolserver}
    - {name: tmp, mountPath: /tmp}
    {{- with .Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
  - name: config
    configMap:
      name: {{ include "toolserver.fullname" . }}
  {{- if .Values.policy }}
  - name: policy
    configMap:
      name: {{ include "toolserver.fullname" . }}-policy
  {{- end }}
  {{- if .Values.tls.enabled }}
  - name: tls
    secret:
      secretName: {{ include "toolserver.tlsSecret" . }}
      defaultMode: 0440
  {{- end }}
  {{- if include "toolserver.tokensSecret" . }}
  - name: tokens
    secret:
      secretName: {{ include "toolserver.tokensSecret" . }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.authentication.certificates.existingSecret }}
  - name: callers
    secret:
      secretName: {{ . }}
      items: [{key: ca.crt, path: ca.crt}]
  {{- end }}
  {{- with .Values.authentication.certificates.existingConfigMap }}
  - name: callers
    configMap:
      name: {{ . }}
      items: [{key: ca.crt, path: ca.crt}]
  {{- end }}
  {{- if include "toolserver.tokenReview" . }}
  # Not where programs look for one by themselves.
  - name: api
    projected:
      defaultMode: 0440
      sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
  {{- end }}
  {{- if and .Values.state.url .Values.state.credentialsSecret }}
  - name: state
    secret:
      secretName: {{ .Values.state.credentialsSecret }}
      defaultMode: 0440
      items: [{key: user.creds, path: user.creds}]
  {{- end }}
  {{- if and .Values.state.url .Values.state.tlsSecret }}
  - name: state-tls
    secret:
      secretName: {{ .Values.state.tlsSecret }}
      defaultMode: 0440
  {{- end }}
  {{- if ne .Values.workload "StatefulSet" }}
  - name: data
    emptyDir:
      sizeLimit: {{ .Values.storage.size }}
  {{- end }}
  - name: tmp
    emptyDir:
      sizeLimit: {{ .Values.storage.tmp }}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if ne .Values.workload "SandboxTemplate" }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "toolserver.selector" . | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* A probe: by gRPC where the port is in clear text, by the admin port elsewhere. */ -}}
{{- define "toolserver.probe" -}}
{{- $root := index . 0 -}}
{{- if and (not $root.Values.tls.enabled) (eq (index . 1) "readyz") -}}
grpc:
  port: 8665
{{- else -}}
httpGet:
  path: /{{ index . 1 }}
  port: admin
{{- end -}}
{{- end -}}
