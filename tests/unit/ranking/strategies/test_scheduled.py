"""Scheduled: the scheduler's scores of where pods are."""

from __future__ import annotations

from tests.unit.ranking.groups import aged, ranks, strategy, unranked, view_of
from trimtab.testing.builders import cluster

GROUP = cluster("z1: a").with_pods(*(aged(name, 1).on("a") for name in "pqr"), aged("pending", 1))


def test_the_worst_placed_ranks_highest() -> None:
    """The rank is what the score lacks to 100; a pod without a node could not be placed worse."""
    scores = {"p": 100.0, "q": 30.0, "r": 0.0}
    assert ranks(strategy("Scheduled"), view_of(GROUP, scores=scores)) == {"p": 0, "q": 70, "r": 100, "pending": 100}


def test_scores_beyond_the_scale_count_as_its_ends() -> None:
    """Ranks stay between 0 and 100."""
    found = ranks(strategy("Scheduled"), view_of(GROUP, scores={"p": 250.0, "q": -5.0, "r": 50.0}))
    assert found == {"p": 0, "q": 100, "r": 50, "pending": 100}


def test_a_pod_without_a_score_is_unranked() -> None:
    """Not knowing is not the same as badly placed."""
    assert unranked(ranks(strategy("Scheduled"), view_of(GROUP, scores={"p": 1.0}))) == {"q", "r"}
