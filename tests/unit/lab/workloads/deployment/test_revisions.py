"""Revisions: their numbers, annotations and history limit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment, replicaset
from trimtab.api.apps import ReplicaSet
from trimtab_lab.workloads.deployment import revisions
from trimtab_lab.workloads.deployment.replicasets import Limits
from trimtab_lab.workloads.deployment.revisions import HISTORY, REVISION


@pytest.mark.parametrize(
    ("old", "want"),
    [
        pytest.param([], 1, id="the first"),
        pytest.param([1, 5, 3], 6, id="one more than the highest"),
        pytest.param([None], 1, id="one that never was a revision"),
        pytest.param(["x", 2], 3, id="one that says nonsense is passed over"),
    ],
)
def test_revisions_are_counted(old: list[Any], want: int) -> None:
    """The new ReplicaSet has the highest number."""
    sets = [replicaset(f"s{n}", 0, revision=revision) for n, revision in enumerate(old)]
    assert revisions.next_revision(sets) == want


@pytest.mark.parametrize(
    ("given", "has", "revision", "want"),
    [
        pytest.param({}, {}, 1, {REVISION: "1"}, id="a new one gets its revision"),
        pytest.param({"team": "a"}, {"team": "a", REVISION: "1"}, 1, {}, id="everything is as it should be"),
        pytest.param({"team": "b"}, {"team": "a", REVISION: "1"}, 1, {"team": "b"}, id="an annotation has changed"),
        pytest.param({}, {"team": "a", REVISION: "1"}, 1, {}, id="what the Deployment has dropped stays"),
        pytest.param({}, {REVISION: "7"}, 3, {}, id="a revision never goes back"),
        pytest.param({}, {REVISION: "x"}, 3, {}, id="somebody wrote nonsense: it stays"),
        pytest.param(
            {}, {REVISION: "1"}, 3, {REVISION: "3", HISTORY: "1"}, id="rolled back to: the old number is history"
        ),
        pytest.param(
            {}, {REVISION: "3", HISTORY: "1"}, 5, {REVISION: "5", HISTORY: "1,3"}, id="rolled back to once more"
        ),
        pytest.param(
            {"kubectl.kubernetes.io/last-applied-configuration": "{}", REVISION: "4"},
            {REVISION: "1"},
            1,
            {},
            id="some annotations are the Deployment's own",
        ),
    ],
)
def test_the_new_replicaset_is_annotated(
    given: dict[str, str], has: dict[str, str], revision: int, want: dict[str, str]
) -> None:
    """Only what has to be written."""
    owner = deployment(metadata={"annotations": given})
    assert revisions.new_annotations(owner, has, revision) == want


def test_a_history_does_not_grow_for_ever() -> None:
    """The first numbers make room for the last one."""
    history = ",".join(str(number) for number in range(100, 600))
    made = revisions.new_annotations(deployment(), {REVISION: "600", HISTORY: history}, 601)[HISTORY]
    assert len(made) <= 2000
    assert made.endswith(",598,599,600")
    assert made.startswith("101,")


def test_sizes_are_annotated() -> None:
    """Every ReplicaSet that is resized knows how large its Deployment is, and may become."""
    assert revisions.size_annotations(Limits(10, 3, 2)) == {
        "deployment.kubernetes.io/desired-replicas": "10",
        "deployment.kubernetes.io/max-replicas": "13",
    }


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "x", "2147483648", "9" * 5000])
def test_a_number_that_is_none_is_not_there(text: str) -> None:
    """Anybody may write annotations."""
    tampered = replicaset("web", 1, annotations={revisions.DESIRED_REPLICAS: text})
    assert revisions.annotated_number(tampered, revisions.DESIRED_REPLICAS) is None


def gone(name: str, revision: int | str, **more: Any) -> ReplicaSet:
    """An old ReplicaSet without pods."""
    return replicaset(name, 0, revision=revision, **more)


@pytest.mark.parametrize(
    ("limit", "old", "want"),
    [
        pytest.param(2, [gone("c", 3), gone("a", 1), gone("b", 2)], ["a"], id="the lowest revision goes"),
        pytest.param(0, [gone("a", 1), gone("b", 2)], ["a", "b"], id="no history at all"),
        pytest.param(5, [gone("a", 1)], [], id="there is room"),
        pytest.param(None, [gone("a", 1)], [], id="no limit"),
        pytest.param(2**31 - 1, [gone("a", 1)], [], id="a limit that stands for none"),
        pytest.param(0, [replicaset("a", 1, revision=1)], [], id="one that is to have pods stays"),
        pytest.param(0, [gone("a", 1, replicas=1)], [], id="one that has pods stays"),
        pytest.param(0, [gone("a", 1, generation=2)], [], id="one that was changed and has not reported stays"),
        pytest.param(0, [gone("a", 1, deletionTimestamp="2026-01-01T00:00:00Z")], [], id="one that is going already"),
        pytest.param(
            1,
            [gone("b", "x", created="2026-01-02T00:00:00Z"), gone("a", "y", created="2026-01-01T00:00:00Z")],
            ["a"],
            id="where revisions say nothing the older one goes",
        ),
    ],
)
def test_old_revisions_are_forgotten(limit: int | None, old: list[ReplicaSet], want: list[str]) -> None:
    """Beyond the history limit, lowest revisions first, and never one with pods."""
    found = revisions.expired(deployment(history=limit), old)
    assert [each.metadata.name for each in found] == want
