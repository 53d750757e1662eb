"""Writes the Grafana dashboard to `deploy/grafana` from a table of panels.

A test checks that every metric and label that a panel names exists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "deploy" / "grafana" / "trimtab.json"

_COLUMNS = 3
_WIDTH, _HEIGHT = 24 // _COLUMNS, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: PromQL expressions, each with a legend."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    description: str = ""
    is_total: bool = False
    """Whether it shows one value for the whole time range of the dashboard, instead of a graph."""


def _rate(metric: str, *labels: str) -> str:
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({metric}[$__rate_interval]))"


def _quantile(share: float, metric: str, *labels: str) -> str:
    by = ", ".join(("le", *labels))
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket[$__rate_interval])))"


def _mean(metric: str, *labels: str) -> str:
    return f"{_rate(f'{metric}_sum', *labels)} / {_rate(f'{metric}_count', *labels)}"


_SKEW = "trimtab_scaledown_skew"
_STATES: Mapping[str, Mapping[str, str]] = {
    "observe": {
        "after": "what was",
        "planned": "what would have been with Trimtab",
        "stock": "the worst that might have been",
    },
    "enforce": {"after": "what was", "planned": "as planned", "stock": "what might have been without Trimtab"},
}
"""The legends of the states of a skew, by mode. Without Trimtab several results may be possible: stock is the worst."""


def _skews(series: str, mode: str, state: str, window: str, more: str = "") -> str:
    labels = f'mode="{mode}", state="{state}", topology_key="$topology_key"{more}'
    return f"sum (increase({_SKEW}_{series}{{{labels}}}[{window}]))"


def _share_of_level(mode: str, state: str) -> str:
    """The share of scale-downs with a skew of at most 1 in the time range of the dashboard."""
    level = _skews("bucket", mode, state, "$__range", more=', le="1.0"')
    return f"{level} / {_skews('count', mode, state, '$__range')}"


def _mean_skew(mode: str, state: str) -> str:
    """The mean skew over an hour: there may be minutes without a scale-down."""
    return f"{_skews('sum', mode, state, '1h')} / {_skews('count', mode, state, '1h')}"


def _comparisons() -> Iterator[Panel]:
    """What would have been beside what was: shares and means, each for both modes."""
    for mode, states in _STATES.items():
        yield Panel(
            f"Scale-downs with a skew of at most 1 (mode {mode})",
            [(_share_of_level(mode, state), legend) for state, legend in states.items()],
            unit="percentunit",
            description="Their share in the time range of the dashboard, for the chosen topology key.",
            is_total=True,
        )
    yield Panel(
        "Decreases by mode and result",
        [(_rate("trimtab_scaledown_results_total", "mode", "result"), "{{mode}}: {{result}}")],
        unit="ops",
        description="level: a skew of at most 1, or maxSkew; best: as level as possible; missed: less level than that.",
    )
    for mode, states in _STATES.items():
        yield Panel(
            f"Mean skew (mode {mode})",
            [(_mean_skew(mode, state), legend) for state, legend in {"before": "before", **states}.items()],
            description="Over an hour, for the chosen topology key.",
        )
    yield Panel(
        "Decreases less level than possible",
        [(_rate('trimtab_scaledown_results_total{result="missed"}', "mode", "cause"), "{{mode}}: {{cause}}")],
        unit="ops",
        description="By mode and cause. Those that were observed are what enforcing would have prevented.",
    )


ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Scale-downs",
        (
            Panel(
                "Requests held",
                [("sum (trimtab_scaledown_requests_held)", "held")],
                description="Scale-down requests that wait for their costs at this moment.",
            ),
            Panel(
                "How long requests are held",
                [
                    (_quantile(0.5, "trimtab_scaledown_held_seconds"), "p50"),
                    (_quantile(0.99, "trimtab_scaledown_held_seconds"), "p99"),
                ],
                unit="s",
            ),
            Panel(
                "Requests by outcome",
                [(_rate("trimtab_scaledown_requests_total", "outcome"), "{{outcome}}")],
                unit="ops",
            ),
            Panel(
                "Costs written and reverted",
                [
                    (_rate("trimtab_scaledown_costs_written_total"), "written"),
                    (_rate("trimtab_scaledown_costs_reverted_total", "reason"), "reverted: {{reason}}"),
                    (_rate("trimtab_scaledown_costs_not_reverted_total", "reason"), "not reverted: {{reason}}"),
                    (_rate("trimtab_scaledown_unprepared_requests_total", "reason"), "not prepared: {{reason}}"),
                ],
                unit="ops",
            ),
            Panel(
                "Pods deleted by decision",
                [(_rate("trimtab_scaledown_pods_deleted_total", "decision"), "{{decision}}")],
                unit="ops",
            ),
            Panel(
                "Misses",
                [(_rate("trimtab_scaledown_misses_total", "cause"), "{{cause}}")],
                unit="ops",
                description="Pods that were deleted although the plan kept them, by cause.",
            ),
            Panel(
                "Fallbacks",
                [(_rate("trimtab_scaledown_fallbacks_total", "reason"), "{{reason}}")],
                unit="ops",
                description="Scale-downs without a plan although a policy applies, by reason.",
            ),
            Panel(
                "Settle time and the oldest cost",
                [
                    ("max (trimtab_scaledown_settle_seconds)", "settle time"),
                    ("max (trimtab_scaledown_oldest_cost_seconds)", "oldest cost"),
                ],
                unit="s",
            ),
            Panel(
                "Pods by rank",
                [("max by (rank) (trimtab_scaledown_pods)", "{{rank}}")],
                description="Pods to which ScaleDownPolicies apply, by whether every strategy has a rank for them.",
            ),
            Panel(
                "PodGroupCosts that do not count",
                [("max(trimtab_scaledown_rival_costs)", "rivals")],
                description="Beside that of a ScaleDownPolicy, or several for one workload: see the events RivalCosts.",
            ),
            Panel(
                "Age of the samples and ranks",
                [
                    ("max by (source) (trimtab_scaledown_oldest_sample_seconds)", "{{source}}"),
                    ("max(trimtab_scaledown_oldest_ranks_seconds)", "costs kept current"),
                ],
                unit="s",
            ),
        ),
    ),
    ("What would have been beside what was", tuple(_comparisons())),
    (
        "Webhooks",
        (
            Panel(
                "Reviews by outcome",
                [(_rate("trimtab_webhook_reviews_total", "hook", "outcome"), "{{hook}} {{outcome}}")],
                unit="reqps",
                description="late, failed and busy reviews were admitted without a decision",
            ),
            Panel(
                "How long reviews take",
                [(_quantile(0.99, "trimtab_webhook_review_duration_seconds", "hook"), "{{hook}} p99")],
                unit="s",
            ),
            Panel("Reviews in flight", [("sum (trimtab_webhook_reviews_in_flight)", "in flight")]),
            Panel(
                "Ready processes and leaders",
                [
                    ("sum (trimtab_ready)", "ready"),
                    ("sum by (lease) (trimtab_leader)", "leaders: {{lease}}"),
                ],
                description="One leader for each lease; all processes ready.",
            ),
            Panel(
                "Certificate: time left",
                [("min (trimtab_webhook_certificate_expiry_timestamp_seconds) - time()", "until it expires")],
                unit="s",
                description="It is renewed when a third of its lifetime, about four months, is left.",
            ),
            Panel(
                "Webhook connections closed",
                [
                    (
                        'sum by (reason) (increase(trimtab_webhook_connections_closed_total{reason!="idle"}[1h]))',
                        "{{reason}}",
                    )
                ],
                description="In the last hour, by the limit that was exceeded; a few failed handshakes are usual.",
            ),
            Panel(
                "Clock offset",
                [("max by (instance) (trimtab_clock_offset_seconds)", "{{instance}}")],
                unit="s",
                description="How far the clock of each process is ahead of the API server's.",
            ),
            Panel(
                "Event loop lag",
                [
                    (_quantile(0.99, "trimtab_event_loop_lag_seconds", "instance"), "{{instance}}"),
                    (_quantile(0.99, "trimtab_event_loop_work_seconds", "instance"), "{{instance}}, by work"),
                ],
                unit="s",
                description="For how long a process could not do anything else, in one of a hundred measurements. What "
                "is not by work, it waited for a processor.",
            ),
            Panel(
                "Objects that cannot be read",
                [("sum by (kind) (increase(trimtab_unreadable_objects_total[1h]))", "{{kind}}")],
                description="Versions of objects that were skipped in the last hour; events on them say why.",
            ),
            Panel(
                "Events that were not written",
                [
                    (
                        "sum by (component, reason) (increase(trimtab_events_dropped_total[1h]))",
                        "{{component}}: {{reason}}",
                    )
                ],
                description="In the last hour; the process logs what each would have said.",
            ),
        ),
    ),
    (
        "CloneSets and UnitedTopologies",
        (
            Panel(
                "Pods of CloneSets",
                [
                    (_rate("trimtab_cloneset_pods_created_total"), "created"),
                    (_rate("trimtab_cloneset_pods_deleted_total", "step"), "deleted: {{step}}"),
                ],
                unit="ops",
            ),
            Panel(
                "Age of pods of CloneSets that were deleted because of their age",
                [(_quantile(0.95, "trimtab_cloneset_sorting_deletion_age_ratio"), "95 %")],
                description="As a multiple of the age of the youngest ready pod.",
            ),
            Panel(
                "Waits for ranks",
                [
                    (_rate("trimtab_cloneset_rank_waits_total"), "waits"),
                    (_rate("trimtab_cloneset_rank_fallbacks_total"), "ignored ranks"),
                ],
                unit="ops",
            ),
            Panel(
                "Status updates of reservations, by outcome",
                [
                    (_rate("trimtab_subset_status_writes_total", "outcome"), "{{outcome}}"),
                    (_rate("trimtab_subset_reservations_withdrawn_total"), "withdrawn"),
                    (_rate("trimtab_subset_reservations_refused_total", "reason"), "refused: {{reason}}"),
                ],
                unit="ops",
            ),
            Panel(
                "Adaptive: pods that were not simulated, by reason",
                [(_rate("trimtab_subset_simulations_skipped_total", "reason"), "{{reason}}")],
                unit="ops",
            ),
            Panel(
                "Default constraints at admission: new pods by result",
                [(_rate("trimtab_defaulting_pods_total", "result"), "{{result}}")],
                unit="ops",
            ),
            Panel(
                "Pods per status update",
                [(_mean("trimtab_subset_batch_pods"), "mean")],
                description="Concurrent admissions share one update of the status.",
            ),
            Panel(
                "Pods moved to another subset",
                [
                    (_rate("trimtab_unitedtopology_pods_rescheduled_total"), "moved"),
                    (_rate("trimtab_unitedtopology_pods_returned_total"), "returned"),
                ],
                unit="ops",
            ),
            Panel(
                "Statuses of UnitedTopologies",
                [
                    (_rate("trimtab_unitedtopology_status_writes_total"), "written"),
                    (_rate("trimtab_unitedtopology_status_conflicts_total"), "conflicts"),
                    (_rate("trimtab_unitedtopology_reservations_expired_total"), "reservations expired"),
                ],
                unit="ops",
            ),
        ),
    ),
    (
        "Scheduler",
        (
            Panel("Pending pods", [("sum by (queue) (scheduler_pending_pods)", "{{queue}}")]),
            Panel(
                "Attempts by result", [(_rate("scheduler_schedule_attempts_total", "result"), "{{result}}")], unit="ops"
            ),
            Panel(
                "Scheduling SLI",
                [(_quantile(0.99, "scheduler_pod_scheduling_sli_duration_seconds"), "p99")],
                unit="s",
            ),
        ),
    ),
)
"""The dashboard, row by row."""


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_DATASOURCE = {"name": "datasource", "type": "datasource", "query": "prometheus"}
_TOPOLOGY_KEY = {
    "name": "topology_key",
    "label": "topology key",
    "type": "query",
    "datasource": _SOURCE,
    "query": {"query": f"label_values({_SKEW}_count, topology_key)", "refId": "topology_key"},
    "refresh": 2,
    "sort": 2,
}
"""A choice of the keys that scale-downs have; sorted so that zones come before regions and hosts."""


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "uid": "trimtab",
        "title": "Trimtab",
        "tags": ["trimtab", "kubernetes"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_DATASOURCE, _TOPOLOGY_KEY]},
        "panels": list(_panels()),
    }


def text() -> str:
    """The dashboard as JSON text."""
    return json.dumps(dashboard(), indent=2) + "\n"


def main() -> None:
    """Write the file."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text(), encoding="utf-8")


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": title, "gridPos": {"h": 1, "w": 24, "x": 0, "y": top}}
        top += 1
        for at, panel in enumerate(panels):
            number += 1
            row, column = divmod(at, _COLUMNS)
            yield _panel(panel, number, {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": top + row * _HEIGHT})
        top += -(-len(panels) // _COLUMNS) * _HEIGHT


def _panel(panel: Panel, number: int, position: dict[str, int]) -> dict[str, Any]:
    kind = {"type": "stat", "options": {"textMode": "value_and_name"}} if panel.is_total else {"type": "timeseries"}
    once = {"instant": True, "range": False} if panel.is_total else {}
    return {
        "id": number,
        **kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expression, "legendFormat": legend, **once}
            for at, (expression, legend) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    main()
