"""The dashboard: every metric that it names is one that Trimtab has."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry

from tools import grafana
from trimtab.admission.metrics import Metrics as WebhookMetrics
from trimtab.cloneset.metrics import Metrics as CloneSetMetrics
from trimtab.scaledown.metrics import Metrics as ScaleDownMetrics
from trimtab.scheduler.metrics import Metrics as SchedulerMetrics
from trimtab.unitedtopology.metrics import AdmissionMetrics as SubsetMetrics
from trimtab.unitedtopology.metrics import Metrics as UnitedTopologyMetrics

NAME = re.compile(r"\b(?:trimtab|scheduler)_[a-z_]+\b")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def series() -> set[str]:
    """The names under which all our metrics are scraped."""
    registry = CollectorRegistry()
    for metrics in (
        CloneSetMetrics,
        ScaleDownMetrics,
        UnitedTopologyMetrics,
        SchedulerMetrics,
        WebhookMetrics,
        SubsetMetrics,
    ):
        metrics(registry)
    return {f"{family.name}{suffix}" for family in registry.collect() for suffix in SUFFIXES[family.type]}


def test_every_metric_that_is_shown_exists() -> None:
    """A panel of a metric that is gone would be empty, and nobody would know why."""
    named = {
        name
        for _, panels in grafana.ROWS
        for panel in panels
        for query, _ in panel.queries
        for name in NAME.findall(query)
    }
    assert named
    assert named - series() == set()


def test_the_file_is_current() -> None:
    """`make generate` writes it."""
    assert grafana.TARGET.read_text() == grafana.text()
