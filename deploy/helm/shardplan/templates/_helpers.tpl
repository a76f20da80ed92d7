{{- define "shardplan.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "shardplan.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "shardplan.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "shardplan.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "shardplan.selector" -}}
app.kubernetes.io/name: {{ include "shardplan.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shardplan.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "shardplan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The daemons and PostgreSQL differ by their component. */}}
{{- define "shardplan.daemon" -}}
{{ include "shardplan.selector" . }}
app.kubernetes.io/component: daemon
{{- end }}

{{- define "shardplan.postgresql" -}}
{{ include "shardplan.selector" . }}
app.kubernetes.io/component: postgresql
{{- end }}

{{/* "true" when the store is in PostgreSQL, so that several daemons can share it; else empty. */}}
{{- define "shardplan.shared" -}}
{{- if or .Values.postgresql.enabled .Values.store.connection -}}true{{- end -}}
{{- end }}

{{/* "true" when daemons share no folder: rows are in PostgreSQL, files in an object store. */}}
{{- define "shardplan.apart" -}}
{{- if and (include "shardplan.shared" .) (index .Values.options "blobs") -}}true{{- end -}}
{{- end }}

{{/* "true" when there is or may be more than one daemon. */}}
{{- define "shardplan.several" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) -}}true{{- end -}}
{{- end }}

{{- define "shardplan.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}:{{ $tag }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}

{{- define "shardplan.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "shardplan.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{/* The Secret with the file of tokens; empty when client certificates alone say who asks. */}}
{{- define "shardplan.tokens" -}}
{{- if .Values.auth.existingSecret -}}
{{ .Values.auth.existingSecret }}
{{- else if .Values.auth.principals -}}
{{ include "shardplan.fullname" . }}-tokens
{{- end -}}
{{- end }}

{{- define "shardplan.scheme" -}}
{{- if .Values.tls.secretName -}}https{{- else -}}http{{- end -}}
{{- end }}

{{- define "shardplan.storeConnection" -}}
{{- if .Values.postgresql.enabled -}}
host={{ include "shardplan.fullname" . }}-postgresql port=5432 dbname=shardplan user=shardplan
{{- else -}}
{{ .Values.store.connection }}
{{- end -}}
{{- end }}

{{- define "shardplan.storeSecret" -}}
{{- if .Values.postgresql.enabled -}}
{{ default (printf "%s-postgresql" (include "shardplan.fullname" .)) .Values.postgresql.existingSecret }}
{{- else -}}
{{ .Values.store.passwordSecret.name }}
{{- end -}}
{{- end }}

{{- define "shardplan.storeSecretKey" -}}
{{- if .Values.postgresql.enabled -}}password{{- else -}}{{ .Values.store.passwordSecret.key }}{{- end -}}
{{- end }}

{{- define "shardplan.claimSpec" -}}
accessModes:
  {{- if .Values.persistence.accessModes }}
  {{- toYaml .Values.persistence.accessModes | nindent 2 }}
  {{- else if and (include "shardplan.shared" .) (not (include "shardplan.apart" .)) }}
  - ReadWriteMany
  {{- else }}
  - ReadWriteOnce
  {{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
{{- end }}

{{/* What cannot work together, said before anything is made. */}}
{{- define "shardplan.check" -}}
{{- if and (include "shardplan.several" .) (not (include "shardplan.shared" .)) -}}
{{- fail "Several daemons need a store that they share: set postgresql.enabled or store.connection." -}}
{{- end -}}
{{- if and .Values.postgresql.enabled .Values.store.connection -}}
{{- fail "postgresql.enabled and store.connection are two stores: set one of them." -}}
{{- end -}}
{{- if and (include "shardplan.several" .) (not .Values.persistence.enabled) (not (include "shardplan.apart" .)) -}}
{{- fail "Several daemons need a folder that they share: leave persistence.enabled on, or set options.blobs." -}}
{{- end -}}
{{- if and .Values.tls.clientCA (not .Values.tls.secretName) -}}
{{- fail "tls.clientCA needs tls.secretName, the Secret with ca.crt." -}}
{{- end -}}
{{- if not (or (include "shardplan.tokens" .) .Values.tls.clientCA) -}}
{{- fail "Nobody could use it: set auth.principals (shardpland token makes entries), auth.existingSecret or tls.clientCA." -}}
{{- end -}}
{{- end }}
