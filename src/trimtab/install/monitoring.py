"""PodMonitor and PrometheusRule for clusters with the Prometheus operator: `trimtab install --monitoring`.

`ALERTS` is the table. Every alert has an entry in `docs/runbook.md`; a test compares both, and checks that every metric
and label of an expression exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trimtab.api.documents import JSON
from trimtab.install.options import NAME, Options

API_VERSION = "monitoring.coreos.com/v1"
RUNBOOK = "docs/runbook.md"

_UNDECIDED = 'outcome=~"late|failed|busy|not-ready"'
_DAY = 86400


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: when it fires, and what it means."""

    name: str
    expression: str
    lasting: str
    """For how long the expression must hold."""
    severity: str
    summary: str
    description: str

    @property
    def runbook(self) -> str:
        """Where the runbook explains it."""
        return f"{RUNBOOK}#{self.name.lower()}"

    def rule(self) -> JSON:
        """The alert as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.description, "runbook": self.runbook},
        }


ALERTS: tuple[Alert, ...] = (
    Alert(
        "TrimtabScaleDownMissed",
        'sum by (cause) (increase(trimtab_scaledown_results_total{mode="enforce", result="missed"}[30m])) > 0',
        "0m",
        "warning",
        "A scale-down ended less level than was possible.",
        "Cause: {{ $labels.cause }}. The event ScaleDownMissed on the workload has both skews.",
    ),
    Alert(
        "TrimtabReviewsLate",
        f"sum by (hook) (rate(trimtab_webhook_reviews_total{{{_UNDECIDED}}}[10m]))"
        " / sum by (hook) (rate(trimtab_webhook_reviews_total[10m])) > 0.01",
        "10m",
        "warning",
        "More than 1 % of the admission reviews were admitted without a decision.",
        "Webhook {{ $labels.hook }}: {{ $value | humanizePercentage }} were late, failed or not accepted.",
    ),
    Alert(
        "TrimtabFallbacks",
        "sum by (reason) (increase(trimtab_scaledown_fallbacks_total[30m])) > 0",
        "15m",
        "warning",
        "Scale-downs are admitted without a plan although a policy applies.",
        "Reason: {{ $labels.reason }}. The controller's own order decides which pods are deleted.",
    ),
    Alert(
        "TrimtabCertificateExpiring",
        f"min(trimtab_webhook_certificate_expiry_timestamp_seconds) - time() < {30 * _DAY}",
        "1h",
        "critical",
        "The certificate of the webhooks expires within 30 days, or there is none.",
        "It should have been renewed long ago. When it has expired, API servers no longer call the webhooks.",
    ),
    Alert(
        "TrimtabNoLeader",
        "max by (lease) (trimtab_leader) == 0",
        "2m",
        "critical",
        "No process holds the lease {{ $labels.lease }}.",
        "Nothing of this component is reconciled, scheduled or renewed.",
    ),
    Alert(
        "TrimtabNotReady",
        "trimtab_ready == 0",
        "5m",
        "critical",
        "A process of Trimtab is not ready.",
        "{{ $labels.pod }}: /readyz?verbose on its port 10269 says what is missing.",
    ),
    Alert(
        "TrimtabAbsent",
        "absent(trimtab_ready)",
        "10m",
        "critical",
        "No process of Trimtab is scraped.",
        "Everything works as Kubernetes alone does it: workloads that shrink are not kept level.",
    ),
    Alert(
        "TrimtabEventLoopBlocked",
        "sum by (pod) (rate(trimtab_event_loop_lag_seconds_count[5m]))"
        ' - sum by (pod) (rate(trimtab_event_loop_lag_seconds_bucket{le="1.0"}[5m])) > 0',
        "10m",
        "warning",
        "The event loop of a process was blocked for more than a second, again and again.",
        "{{ $labels.pod }}: every request and watch of the process waited as long.",
    ),
    Alert(
        "TrimtabObjectsSkipped",
        "sum by (kind) (increase(trimtab_unreadable_objects_total[1h])) > 0",
        "0m",
        "warning",
        "Objects cannot be read, and are skipped.",
        "Kind: {{ $labels.kind }}. Events with the reason Unreadable are on the objects.",
    ),
)


def groups() -> list[JSON]:
    """The alerts as a rule file has them."""
    return [{"name": NAME, "rules": [alert.rule() for alert in ALERTS]}]


def manifests(options: Options) -> Iterator[JSON]:
    """The objects, if the installation has them."""
    if not options.monitoring:
        return
    metadata = {"namespace": options.namespace, "name": NAME, "labels": options.labels()}
    selector = {"matchLabels": {"app.kubernetes.io/name": NAME}}
    endpoints = [{"port": "serving", "path": "/metrics", "interval": "30s"}]
    yield {
        "apiVersion": API_VERSION,
        "kind": "PodMonitor",
        "metadata": metadata,
        "spec": {"selector": selector, "podMetricsEndpoints": endpoints},
    }
    yield {"apiVersion": API_VERSION, "kind": "PrometheusRule", "metadata": metadata, "spec": {"groups": groups()}}
