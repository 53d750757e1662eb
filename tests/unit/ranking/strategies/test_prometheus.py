"""Prometheus: from what a query returned, which is handed in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.ranking.groups import aged, ranks, strategy, unranked, view_of
from trimtab.api.errors import InvalidError
from trimtab.ranking.strategies import STRATEGIES, Signal, View
from trimtab.ranking.strategies.signals import signal_of
from trimtab.testing.builders import ClusterBuilder, cluster

QUERY = 'jobs{namespace="$namespace"}'
GROUP = cluster("z1: a").with_pods(*(aged(name, 1).on("a") for name in ("idle", "busy", "busier")))


def seen(group: ClusterBuilder, **values: float) -> View:
    """The view of a group of whose pods the query returned these values."""
    reported = {f"default/{name}": value for name, value in values.items()}
    return replace(view_of(group), signals={Signal("Prometheus", QUERY): reported})


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({}, {"idle": 0, "busy": -3, "busier": -4.5}, id="the lowest first"),
        pytest.param({"order": "HighestFirst"}, {"idle": 0, "busy": 3, "busier": 4.5}, id="the highest first"),
        pytest.param({"unit": 0.5}, {"idle": 0, "busy": -6, "busier": -9}, id="in halves"),
    ],
)
def test_values_rank(args: dict[str, Any], want: dict[str, float]) -> None:
    """In the policy's unit."""
    found = ranks(strategy("Prometheus", query=QUERY, **args), seen(GROUP, idle=0.0, busy=3.0, busier=4.5))
    assert found == want


def test_a_pod_without_a_value_is_unranked() -> None:
    """Not knowing is not the same as idle; and what another query returned is of no use."""
    assert unranked(ranks(strategy("Prometheus", query=QUERY), seen(GROUP, idle=0.0))) == {"busy", "busier"}
    other = strategy("Prometheus", query=QUERY, periodSeconds=60)
    assert unranked(ranks(other, seen(GROUP, idle=0.0))) == {"idle", "busy", "busier"}


def test_a_pod_without_a_node_goes_first() -> None:
    """It has nothing to lose."""
    group = cluster("z1: a").with_pods(aged("waiting", 1), aged("idle", 1).on("a"))
    found = ranks(strategy("Prometheus", query=QUERY), seen(group, idle=-5e11))
    assert found["waiting"] > found["idle"]


@pytest.mark.parametrize(
    ("args", "path", "words"),
    [
        pytest.param({"query": "up"}, "args.query", "up is not restricted to the namespace", id="all namespaces"),
        pytest.param({"query": ""}, "args.query", "is empty", id="no query"),
        pytest.param({"url": "http://x"}, "args.url", "is not a setting of Prometheus", id="an address"),
        pytest.param({"token": "x"}, "args.token", "is not a setting of Prometheus", id="a token"),
        pytest.param({"periodSeconds": 60, "maxAgeSeconds": 30}, "args.maxAgeSeconds", "at least 60", id="gaps"),
    ],
)
def test_a_policy_cannot_ask_for_everything(args: dict[str, Any], path: str, words: str) -> None:
    """Nor anywhere but at the configured address."""
    with pytest.raises(InvalidError, match=words) as error:
        STRATEGIES["Prometheus"](args)
    assert error.value.path == path


def test_values_may_last_just_until_the_next_are_asked_for() -> None:
    """And no shorter: pods would be unranked in between."""
    found = signal_of(strategy("Prometheus", periodSeconds=60, maxAgeSeconds=60))
    assert found is not None
    assert (found.period_seconds, found.max_age_seconds) == (60, 60)


def test_only_a_signal_is_one() -> None:
    """A strategy of a user's may have an attribute of that name."""
    assert signal_of(strategy("Prometheus")) is not None
    assert signal_of(strategy("Youngest")) is None
    assert signal_of(type("Odd", (), {"signal": "x"})()) is None
