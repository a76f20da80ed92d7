{{/* The pod of a daemon: the same in a Deployment (PostgreSQL) and in a StatefulSet (SQLite). */}}
{{- define "shardplan.pod" -}}
metadata:
  labels:
    {{- include "shardplan.daemon" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- if .Values.auth.principals }}
    checksum/tokens: {{ toJson .Values.auth.principals | sha256sum }}
    {{- end }}
    kubectl.kubernetes.io/default-container: shardpland
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "shardplan.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  # The delay, the drain, and what ending takes: after that the kubelet kills what is left.
  terminationGracePeriodSeconds: {{ add .Values.shutdownDelaySeconds .Values.drainSeconds 15 }}
  containers:
    - name: shardpland
      image: {{ include "shardplan.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      env:
        {{- include "shardplan.env" . | nindent 8 }}
      ports:
        - name: http
          containerPort: 8080
        - name: admin
          containerPort: 9090
      startupProbe:
        httpGet: {path: /livez, port: admin}
        {{- toYaml .Values.probes.startup | nindent 8 }}
      livenessProbe:
        httpGet: {path: /livez, port: admin}
        {{- toYaml .Values.probes.liveness | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: admin}
        {{- toYaml .Values.probes.readiness | nindent 8 }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: data
          mountPath: /var/lib/shardplan
        {{- if include "shardplan.tokens" . }}
        - name: tokens
          mountPath: /etc/shardplan
          readOnly: true
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /run/tls
          readOnly: true
        {{- end }}
        {{- if include "shardplan.storeSecret" . }}
        - name: store
          mountPath: /run/store
          readOnly: true
        {{- end }}
  volumes:
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir:
        sizeLimit: {{ .Values.persistence.size }}
    {{- else if and (include "shardplan.apart" .) (not .Values.persistence.existingClaim) }}
    # Copies of what the object store has: each pod has its own, which goes with it.
    - name: data
      ephemeral:
        volumeClaimTemplate:
          spec:
            {{- include "shardplan.claimSpec" . | nindent 12 }}
    {{- else if or (include "shardplan.shared" .) .Values.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ default (printf "%s-data" (include "shardplan.fullname" .)) .Values.persistence.existingClaim }}
    {{- end }}
    {{- with include "shardplan.tokens" . }}
    - name: tokens
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items:
          - key: {{ ternary $.Values.auth.existingSecretKey "tokens.json" (ne $.Values.auth.existingSecret "") }}
            path: tokens.json
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with include "shardplan.storeSecret" . }}
    - name: store
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items:
          - key: {{ include "shardplan.storeSecretKey" $ }}
            path: password
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
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "shardplan.daemon" . | nindent 10 }}
    {{- end }}
{{- end }}

{{- define "shardplan.env" -}}
- name: SHARDPLAND_LISTEN
  value: 0.0.0.0:8080
- name: SHARDPLAND_ADMIN_LISTEN
  value: 0.0.0.0:9090
- name: SHARDPLAND_DATA
  value: /var/lib/shardplan
- name: SHARDPLAND_SHUTDOWN_DELAY
  value: {{ .Values.shutdownDelaySeconds | quote }}
- name: SHARDPLAND_DRAIN
  value: {{ .Values.drainSeconds | quote }}
- name: SHARDPLAND_TOKENS
  value: {{ ternary "/etc/shardplan/tokens.json" "" (ne (include "shardplan.tokens" .) "") | quote }}
{{- if .Values.tls.secretName }}
- name: SHARDPLAND_TLS_CERTIFICATE
  value: /run/tls/tls.crt
- name: SHARDPLAND_TLS_KEY
  value: /run/tls/tls.key
{{- if .Values.tls.clientCA }}
- name: SHARDPLAND_TLS_CLIENT_CA
  value: /run/tls/ca.crt
{{- end }}
{{- end }}
{{- if include "shardplan.shared" . }}
- name: SHARDPLAND_STORE
  value: {{ include "shardplan.storeConnection" . | quote }}
{{- if include "shardplan.storeSecret" . }}
- name: SHARDPLAND_STORE_PASSWORD_FILE
  value: /run/store/password
{{- end }}
{{- end }}
{{- range $name, $value := .Values.options }}
- name: SHARDPLAND_{{ $name | upper | replace "-" "_" }}
  value: {{ ternary ($value | int64) $value (kindIs "float64" $value) | toString | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
