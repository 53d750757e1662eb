"""The pods of a workload, counted."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from trimtab.api import selectors, times
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod
from trimtab.kube import ownership
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, pod, uid_for
from trimtab_lab.workloads.replicaset import podcounts

NOON = times.parse_ns("2026-01-01T12:00:00Z")
OWNER = ObjectMeta(name="web", namespace="default", uid=uid_for("ReplicaSet/web"))
WEB = selectors.parse("app=web")
TEMPLATE = selectors.parse("app=web,tier=front")


def view(*pods: PodBuilder) -> Snapshot:
    """These pods."""
    made = Snapshot()
    for each in pods:
        made.put(each.build())
    return made


def mine(name: str = "p") -> PodBuilder:
    """A pod of the workload."""
    return pod(name).on("a").labels(app="web").owned_by("web")


def ready(name: str = "p", since: str | None = "2026-01-01T11:59:00Z") -> PodBuilder:
    """A pod that has been ready for a minute by default."""
    return mine(name).ready(since)


def counts_of(patience: int, *pods: PodBuilder) -> podcounts.PodCounts:
    """What there is at noon."""
    table = view(*pods).pods
    return podcounts.count(table, podcounts.owned_rows(table, OWNER, WEB), TEMPLATE, patience, NOON)


@pytest.mark.parametrize(
    ("candidate", "patience", "want"),
    [
        pytest.param(ready(), 0, True, id="ready is enough where no patience is asked for"),
        pytest.param(ready(), 60, True, id="ready for exactly as long as asked"),
        pytest.param(ready(), 61, False, id="not ready for long enough"),
        pytest.param(ready(since=None), 0, True, id="ready since nobody knows when"),
        pytest.param(ready(since=None), 1, False, id="nobody knows since when, and it matters"),
        pytest.param(mine().not_ready("2026-01-01T11:00:00Z"), 0, False, id="not ready"),
        pytest.param(mine(), 0, False, id="nobody has said that it is ready"),
        pytest.param(ready().terminating(), 0, False, id="on its way out"),
        pytest.param(ready().phase("Failed"), 0, False, id="it has failed"),
    ],
)
def test_a_pod_is_available(candidate: PodBuilder, patience: int, want: bool) -> None:
    """Ready, and for long enough."""
    assert counts_of(patience, candidate).available == want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], None, id="no pods"),
        pytest.param([ready(since="2026-01-01T11:00:00Z")], None, id="all are available already"),
        pytest.param([ready()], 30.0, id="one becomes available in half a minute"),
        pytest.param([ready(), ready("q", "2026-01-01T11:58:45Z")], 15.0, id="the next of two"),
        pytest.param([ready(since=None)], None, id="nobody knows since when"),
        pytest.param([ready().terminating()], None, id="one that is going does not become anything"),
    ],
)
def test_the_next_pod_becomes_available(pods: list[PodBuilder], want: float | None) -> None:
    """A pod becomes available by the passing of time alone."""
    assert counts_of(90, *pods).next_available == want


def test_all_numbers() -> None:
    """Each pod is counted where it belongs, and others' pods nowhere."""
    found = counts_of(
        90,
        ready("available", "2026-01-01T11:00:00Z").labels(tier="front"),
        ready("ready"),
        pod("pending").labels(app="web", tier="front", more="yes").owned_by("web"),
        mine("going").terminating(),
        mine("ended").terminating().phase("Succeeded"),
        mine("failed").phase("Failed"),
        mine("other").owned_by("other"),
        pod("orphan").labels(app="web"),
        mine("relabelled").labels(app="debug"),
    )
    assert found == podcounts.PodCounts(
        active=3, ready=2, available=1, fully_labeled=2, terminating=1, next_available=30.0
    )


def names(pods: list[Pod]) -> set[str]:
    """Of these pods."""
    return {each.metadata.name for each in pods}


def test_what_is_not_where_it_belongs_is_found() -> None:
    """Matching pods without an owner, and owned ones that do not match; in its namespace, and active."""
    table = view(
        mine("in-place"),
        mine("stray").labels(app="debug"),
        pod("orphan").labels(app="web"),
        pod("unrelated").labels(app="debug"),
        mine("finished-stray").labels(app="debug").phase("Succeeded"),
        pod("going-orphan").labels(app="web").terminating(),
        pod("far-orphan", namespace="elsewhere").labels(app="web"),
        mine("others").owned_by("other"),
    ).pods
    assert names(podcounts.claim_candidates(table, OWNER, WEB)) == {"stray", "orphan"}


def test_what_was_just_adopted_counts() -> None:
    """The informer has not shown it yet; one that was replaced meanwhile does not count."""
    orphan, gone = pod("orphan").labels(app="web"), pod("gone").labels(app="web").uid("before")
    table = view(mine("in-place"), orphan, pod("gone").labels(app="web")).pods
    rows = podcounts.owned_rows(table, OWNER, WEB, (orphan.build(), gone.build()))
    assert {table.rows.names[row] for row in rows.tolist()} == {"default/in-place", "default/orphan"}


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_the_columns_agree_with_the_objects(seed: int) -> None:
    """For any pods in any order of events: the scans agree with the table of claims."""
    rng = random.Random(seed)
    snapshot = Snapshot()
    pods: dict[str, Pod] = {}
    for step in range(30):
        made = pod(f"p{rng.randrange(12)}").labels(app=rng.choice(("web", "debug"))).uid(f"u{step}")
        for change in rng.sample((PodBuilder.terminating, PodBuilder.ready), rng.randrange(3)):
            change(made)
        made = made.phase(rng.choice(("Pending", "Running", "Failed")))
        owner = rng.choice((None, "web", "other"))
        built = (made.owned_by(owner) if owner else made).build()
        if rng.random() < 0.2:
            snapshot.drop(Pod, "default", built.metadata.name)
            pods.pop(built.key, None)
        else:
            snapshot.put(built)
            pods[built.key] = built
    expected = ownership.claims(OWNER, WEB, [each for each in pods.values() if each.active])
    claim_candidates = podcounts.claim_candidates(snapshot.pods, OWNER, WEB)
    found = ownership.claims(OWNER, WEB, claim_candidates)
    assert names(list(found.adopted)) == names(list(expected.adopted))
    assert names(list(found.released)) == names(list(expected.released))
    rows = podcounts.owned_rows(snapshot.pods, OWNER, WEB)
    counts = podcounts.count(snapshot.pods, rows, WEB, 0, NOON)
    assert counts.active == counts.fully_labeled == len(expected.owned)
    assert counts.ready == sum(each.ready for each in expected.owned)
