"""Default constraints that admission added to pods."""

from __future__ import annotations

import pytest

from trimtab.api.annotations import DEFAULT_CONSTRAINTS
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.ranking.defaulted import admitted_constraints
from trimtab.testing.builders import PodBuilder, pod

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z"


def defaulted(name: str, key: str, *, created: str = OLD, uid: str = "u") -> PodBuilder:
    """A running pod to which admission added a constraint on this key, for pods of its own revision."""
    made = pod(name).on("n").ready().created(created).uid(uid).annotations({DEFAULT_CONSTRAINTS: "true"})
    return made.spread(key, max_skew=3, selector={"revision": name}, matchLabelKeys=["revision"])


def test_the_constraints_are_taken_without_their_selectors() -> None:
    """Those name the pods of one revision; a workload counts all its own."""
    (found,) = admitted_constraints([defaulted("p", ZONE).build()])
    assert (found.topology_key, found.max_skew) == (ZONE, 3)
    assert (found.label_selector, found.match_label_keys) == (None, ())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(defaulted("p", HOSTNAME), defaulted("q", ZONE, created=NEW, uid="a"), id="the younger"),
        pytest.param(defaulted("p", HOSTNAME, uid="a"), defaulted("q", ZONE, uid="b"), id="of one moment by UID"),
        pytest.param(
            defaulted("p", ZONE), defaulted("q", HOSTNAME, created=NEW).phase("Failed"), id="not one that has ended"
        ),
        pytest.param(
            defaulted("p", ZONE), defaulted("q", HOSTNAME, created=NEW).terminating(), id="not one that is terminating"
        ),
    ],
)
def test_the_last_active_pod_decides(first: PodBuilder, second: PodBuilder) -> None:
    """In whatever order they come: the next pod will have the same constraints."""
    for pods in ((first.build(), second.build()), (second.build(), first.build())):
        assert [each.topology_key for each in admitted_constraints(pods)] == [ZONE]


def test_constraints_of_the_template_are_no_default_constraints() -> None:
    """A pod has the annotation where admission added them."""
    stated = pod("p").on("n").ready().spread(ZONE)
    assert admitted_constraints([stated.build()]) == ()
    assert admitted_constraints([]) == ()
