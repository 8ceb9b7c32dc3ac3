{{- /* Labels of a component's pods. Takes the root context and the component. */}}
{{- define "diskmesh.podLabels" -}}
app.kubernetes.io/name: diskmesh
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* Labels of a component's objects. Takes the root context and the component. */}}
{{- define "diskmesh.labels" -}}
{{ include "diskmesh.podLabels" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
{{- end }}

{{- define "diskmesh.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ ternary (printf ":%s" (.tag | default $.Chart.AppVersion)) (printf "@%s" .digest) (empty .digest) }}
{{- end }}
{{- end }}

{{- /* A config file of the chart, as JSON, with the values' keys in place of its own. Takes the root context, file and keys. */}}
{{- define "diskmesh.config" -}}
{{ mergeOverwrite ((index . 0).Files.Get (printf "config/%s.yaml" (index . 1)) | fromYaml) (index . 2) | toJson }}
{{- end }}

{{- /* Security context of a pod whose processes are not root. The group may read the pod's secrets. */}}
{{- define "diskmesh.unprivilegedPod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "diskmesh.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- /* Spreads a component's pods over nodes. Takes the root context and the component. */}}
{{- define "diskmesh.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "diskmesh.podLabels" . | nindent 6 }}
{{- end }}

{{- /* HTTP probes, because gRPC requires a certificate, which the kubelet lacks. Takes the root context, `health` of the config, and the query. */}}
{{- define "diskmesh.probes" -}}
{{- $root := index . 0 }}
{{- $listen := (index . 1).listen }}
{{- $to := dict "port" $listen.port }}
{{- if ne ($listen.host | default "127.0.0.1") "0.0.0.0" }}{{ $to = merge (dict "host" "127.0.0.1") $to }}{{ end -}}
readinessProbe: {{- toYaml (merge (dict "httpGet" (merge (dict "path" (printf "/readyz%s" (index . 2))) $to)) $root.Values.probes.readiness) | nindent 2 }}
livenessProbe: {{- toYaml (merge (dict "httpGet" (merge (dict "path" "/healthz") $to)) $root.Values.probes.liveness) | nindent 2 }}
{{- end }}
