"""The dashboard: every metric, label and bucket that it names is one that Trimtab has."""

from __future__ import annotations

import re

from prometheus_client import Histogram

from tools import grafana, metrics

NAME = re.compile(r"\b(?:trimtab|scheduler)_[a-z_]+\b")
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SELECTOR = re.compile(rf"({NAME.pattern})\{{(.*?)\}}")
LABEL = re.compile(r"(\w+)=")
BY = re.compile(r"by \((.*?)\)")
ADDED = {"le", "instance"}
"""Labels that a histogram's buckets, or Prometheus, add."""

QUERIES = [query for _, panels in grafana.ROWS for panel in panels for query, _ in panel.queries]


def series() -> dict[str, set[str]]:
    """The labels of all our time series, by name."""
    found: dict[str, set[str]] = {}
    for metric in metrics.registered().metrics:
        (family,) = metric.describe()
        labels = {*metrics.label_names(metric), *ADDED}
        found |= {f"{family.name}{suffix}": labels for suffix in SUFFIXES[family.type]}
    return found


def test_every_metric_that_is_shown_exists() -> None:
    """The panel of a metric that no longer exists would be empty."""
    named = {name for query in QUERIES for name in NAME.findall(query)}
    assert named
    assert named - series().keys() == set()


def test_every_label_that_is_shown_exists() -> None:
    """A selector of a label that does not exist finds nothing, and a sum by it is one line for all."""
    known = series()
    wanted: set[tuple[str, str]] = set()
    for query in QUERIES:
        names = NAME.findall(query)
        wanted |= {(name, label) for by in BY.findall(query) for label in by.split(", ") for name in names}
        wanted |= {(name, label) for name, labels in SELECTOR.findall(query) for label in LABEL.findall(labels)}
    assert len(wanted) > 20
    assert {(name, label) for name, label in wanted if label not in known[name]} == set()


def test_the_bucket_of_level_scale_downs_exists() -> None:
    """The share of scale-downs with a skew of at most 1 is read from it."""
    registry = metrics.registered()
    histograms = [each for each in registry.metrics if isinstance(each, Histogram)]
    (skew,) = [each for each in histograms for family in each.describe() if family.name == "trimtab_scaledown_skew"]
    skew.labels(*metrics.label_names(skew)).observe(1)
    shown = {bound for query in QUERIES for bound in re.findall(r'le="(.*?)"', query)}
    assert shown == {"1.0"}
    for bound in shown:
        assert registry.get_sample_value("trimtab_scaledown_skew_bucket", _with_bound(skew, bound)) == 1


def _with_bound(histogram: Histogram, bound: str) -> dict[str, str]:
    """The labels of a bucket in a histogram whose labels have their own names as values."""
    return {name: name for name in metrics.label_names(histogram)} | {"le": bound}


def test_every_variable_that_a_query_uses_is_offered() -> None:
    """Variables that begin with two underscores are Grafana's own."""
    offered = {each["name"] for each in grafana.dashboard()["templating"]["list"]}
    used = set(re.findall(r"\$([a-z]\w*)", " ".join(QUERIES)))
    assert used == {"topology_key"}
    assert used <= offered


def test_the_file_is_current() -> None:
    """`make generate` writes it."""
    assert grafana.TARGET.read_text() == grafana.text()
