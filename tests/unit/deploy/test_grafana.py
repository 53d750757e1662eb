"""The dashboard: every metric that it names is one that Trimtab has."""

from __future__ import annotations

import re

from tools import grafana, metrics

NAME = re.compile(r"\b(?:trimtab|scheduler)_[a-z_]+\b")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def series() -> set[str]:
    """The names of all our time series."""
    registry = metrics.registered()
    return {f"{family.name}{suffix}" for family in registry.collect() for suffix in SUFFIXES[family.type]}


def test_every_metric_that_is_shown_exists() -> None:
    """The panel of a metric that no longer exists would be empty."""
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
