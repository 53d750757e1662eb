"""What strategies see: a group of pods, and what was found out about them elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.ranking.groups import NOW, aged
from trimtab.api.pods import Pod
from trimtab.ranking.strategies import StrategyError, View
from trimtab.testing.builders import cluster


def test_a_pod_that_is_gone_cannot_be_looked_at() -> None:
    """Its row may soon be that of another pod: rows hold until the next event."""
    snapshot = cluster("z1: a").with_pods(aged("p", 1).on("a"), aged("q", 1).on("a")).snapshot()
    rows = np.array([snapshot.pods.rows.index[f"default/{name}"] for name in "pq"], dtype=np.int64)
    view = View(snapshot, rows, NOW)
    assert [pod.metadata.name for pod in view.pods(rows)] == ["p", "q"]
    snapshot.drop(Pod, "default", "p")
    with pytest.raises(LookupError, match="the snapshot has changed"):
        view.pods(rows)


def test_rows_may_be_of_any_whole_numbers() -> None:
    """As users of the library have them."""
    snapshot = cluster("z1: a").with_pods(aged("p", 1).on("a"), aged("q", 1).on("a")).snapshot()
    view = View(snapshot, [1, 0], NOW)  # type: ignore[arg-type]
    assert [pod.metadata.name for pod in view.pods(view.rows)] == ["q", "p"]


def test_without_a_scheduler_no_pod_has_a_score() -> None:
    """Which is not the same as a score of 0."""
    snapshot = cluster("z1: a").with_pods(aged("p", 1).on("a")).snapshot()
    view = View(snapshot, np.array([0]), NOW)
    assert np.isnan(view.scores(snapshot, view.rows)).tolist() == [True]


def test_a_strategy_that_does_not_work_is_named() -> None:
    """With what it did wrong."""
    error = StrategyError("Mine", "failed")
    assert (error.name, error.reason, str(error)) == ("Mine", "failed", 'strategy "Mine" failed')
