{{- /* The values of this chart, as flags and as texts for the templates. */}}

{{- define "trimtab.flags" -}}
{{- if has .Release.Namespace (list "default" "kube-system" "kube-public" "kube-node-lease") }}
{{- fail (printf "Trimtab needs a namespace of its own, and %s is one that every cluster has: add --namespace trimtab-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- $gates := .Values.configuration.featureGates | default dict }}
{{- $certificates := .Values.certificates }}
{{- $issuer := $certificates.issuer | default dict }}
{{- $delivery := dig "delivery" "" (.Values.configuration.defaultConstraints | default dict) }}
{{- dict
  "scheduler" .Values.components.scheduler
  "webhooks" .Values.components.webhooks
  "controllers" .Values.components.controllers
  "namespaced" (not (empty .Values.namespaces))
  "kubeSystem" (has "kube-system" .Values.namespaces)
  "ownNamespace" (has .Release.Namespace .Values.namespaces)
  "denyCostChanges" .Values.denyCostChanges
  "groupCostEdits" .Values.groupCostEdits
  "knowsCallers" (not (empty .Values.apiServerCidrs))
  "cloneSets" (eq (include "trimtab.cloneSets" .) "true")
  "podWebhook" (dig "PodWebhook" true $gates)
  "defaultsAtAdmission" (and (eq $delivery "Admission") (dig "EvenPodsSpread" true $gates))
  "managedCertificates" (eq $certificates.source "Managed")
  "certManager" (eq $certificates.source "CertManager")
  "selfSigned" (and (eq $certificates.source "CertManager") (empty $issuer))
  "caBundle" (not (empty $certificates.caBundle))
  | toJson }}
{{- end }}

{{- /* Whether the CloneSets of the cluster are Trimtab's: a definition of OpenKruise is left as it is. */}}
{{- define "trimtab.cloneSets" -}}
{{- if eq (toString .Values.cloneSets) "auto" }}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "clonesets.apps.kruise.io" }}
{{- $metadata := dig "metadata" dict ($found | default dict) }}
{{- $ours := eq (dig "labels" "app.kubernetes.io/managed-by" "" $metadata) "trimtab" }}
{{- $generated := hasKey (dig "annotations" dict $metadata) "controller-gen.kubebuilder.io/version" }}
{{- or (empty $found) (and $ours (not $generated)) }}
{{- else }}
{{- .Values.cloneSets }}
{{- end }}
{{- end }}

{{- /* What the names of cluster-scoped objects end with: the installation, unless it is in the usual namespace. */}}
{{- define "trimtab.suffix" -}}
{{- if ne .Release.Namespace "trimtab-system" }}.{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "trimtab.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The configuration that the processes read. Every object, as JSON with sorted keys. */}}
{{- define "trimtab.configuration" -}}
{{- $tree := deepCopy .Values.configuration }}
{{- $_ := set $tree "apiVersion" "trimtab.dev/v1alpha1" }}
{{- $_ := set $tree "kind" "TrimtabConfiguration" }}
{{- $_ := set $tree "namespace" .Release.Namespace }}
{{- if .Values.namespaces }}
{{- $_ := set $tree "namespaces" .Values.namespaces }}
{{- end }}
{{- $certificates := dict "source" .Values.certificates.source }}
{{- range $name := list "certificateFile" "keyFile" "issuer" }}
{{- with get $.Values.certificates $name }}
{{- $_ := set $certificates $name . }}
{{- end }}
{{- end }}
{{- $webhooks := dict "registeredAs" (printf "trimtab%s" (include "trimtab.suffix" .)) "host" "0.0.0.0" "port" 9443 "certificates" $certificates }}
{{- $_ := set $tree "webhooks" (merge $webhooks ($tree.webhooks | default dict)) }}
{{- $_ := set $tree "serving" (dict "host" "0.0.0.0" "port" 10269) }}
{{- $policies := dig "scaleDown" "defaultPolicies" list $tree }}
{{- if and .Values.mode $policies }}
{{- range $policy := $policies }}
{{- $_ := set $policy "mode" (title $.Values.mode) }}
{{- end }}
{{- end }}
{{- toPrettyJson $tree }}
{{- end }}

{{- define "trimtab.digest" -}}
{{- printf "%s\n" (include "trimtab.configuration" .) | sha256sum | trunc 16 }}
{{- end }}

{{- /* How long API servers wait for the webhook of scale-downs: its budget, and a second more. */}}
{{- define "trimtab.timeout" -}}
{{- $budget := dig "scaleDown" "budgetSeconds" 2 .Values.configuration | float64 }}
{{- if lt $budget 1.0 }}1{{ else }}{{ add1 (ceil $budget | int) }}{{ end }}
{{- end }}

{{- define "trimtab.lease" -}}
{{- dig "scheduler" "leaderElection" "resourceName" "trimtab-scheduler" .Values.configuration }}
{{- end }}

{{- define "trimtab.costWriters" -}}
{{- range $name := dig "scaleDown" "costWriters" list .Values.configuration }}, {{ $name | quote }}{{ end }}
{{- end }}

{{- define "trimtab.callers" -}}
{{- $callers := list }}
{{- range $cidr := .Values.apiServerCidrs }}
{{- $callers = append $callers (dict "ipBlock" (dict "cidr" $cidr)) }}
{{- end }}
{{- toJson $callers }}
{{- end }}
