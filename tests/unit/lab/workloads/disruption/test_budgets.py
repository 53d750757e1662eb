"""How many pods of a budget may be disrupted."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.times import parse_ns
from trimtab.kube import conditions
from trimtab.testing.builders import PodBuilder, pod
from trimtab_lab.workloads.disruption import budgets
from trimtab_lab.workloads.disruption.budgets import Owner, SelectedPods

NOON = parse_ns("2026-01-01T12:00:00Z")
JUST_NOW = "2026-01-01T11:59:00Z"
LONG_AGO = "2026-01-01T11:00:00Z"


def budget(status: dict[str, Any] | None = None, **spec: Any) -> PodDisruptionBudget:
    """A budget."""
    metadata = {"name": "web", "namespace": "default", "generation": 2, "resourceVersion": "9"}
    return codec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, PodDisruptionBudget)


def healthy(*names: str) -> list[PodBuilder]:
    """Ready pods."""
    return [pod(name).on("a").ready() for name in names]


def selected(*pods: PodBuilder, disrupted_pods: tuple[str, ...] = ()) -> SelectedPods:
    """A budget's pods."""
    built = [each.build() for each in pods]
    healthy = sum(each.ready and not each.terminating for each in built)
    return SelectedPods(len(built), healthy, tuple(each for each in built if each.metadata.name in disrupted_pods))


def numbers(status: Any) -> tuple[int, int, int, int]:
    """Expected, desired, healthy, allowed."""
    return status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed


WEB, API = Owner("web", 4), Owner("api", 3)
THREE = healthy("a", "b", "c")


@pytest.mark.parametrize(
    ("made", "pods", "owners", "want"),
    [
        pytest.param(budget(minAvailable=2), THREE, [], (3, 2, 3, 1), id="two must stay"),
        pytest.param(budget(minAvailable=5), THREE, [], (3, 5, 3, 0), id="more must stay than there are"),
        pytest.param(budget(minAvailable=0), [], [], (0, 0, 0, 0), id="without pods nothing is allowed"),
        pytest.param(budget(minAvailable="50%"), THREE, [WEB], (4, 2, 3, 1), id="half of what the owner wants"),
        pytest.param(budget(minAvailable="50%"), THREE, [API], (3, 2, 3, 1), id="half of three is two"),
        pytest.param(budget(maxUnavailable=1), THREE, [WEB], (4, 3, 3, 0), id="one is missing already"),
        pytest.param(budget(maxUnavailable="50%"), THREE, [API], (3, 1, 3, 2), id="unavailable is rounded up too"),
        pytest.param(budget(maxUnavailable=9), THREE, [API], (3, 0, 3, 3), id="all may go"),
        pytest.param(budget(maxUnavailable=1), THREE, [WEB, API, WEB], (7, 6, 3, 0), id="each owner counts once"),
        pytest.param(budget(maxUnavailable=1), THREE, [], (0, 0, 3, 0), id="pods of nobody are not expected"),
        pytest.param(budget(), THREE, [], (0, 0, 3, 0), id="a budget that says nothing allows nothing"),
        pytest.param(
            budget(minAvailable=1), [*THREE, pod("d"), *healthy("e")], [], (5, 1, 4, 3), id="a pod that is not ready"
        ),
        pytest.param(
            budget(minAvailable=1),
            [THREE[0], pod("d").on("a").ready().terminating()],
            [],
            (2, 1, 1, 0),
            id="one is going",
        ),
    ],
)
def test_disruptions_are_counted(
    made: PodDisruptionBudget, pods: list[PodBuilder], owners: list[Owner], want: tuple[int, int, int, int]
) -> None:
    """Expected, desired, healthy, allowed."""
    found = budgets.decide(made, selected(*pods), owners, NOON)
    assert numbers(found.status) == want
    said = conditions.find(found.status.conditions, "DisruptionAllowed")
    assert said is not None
    assert (said.status, said.reason) == (("True", "SufficientPods") if want[-1] else ("False", "InsufficientPods"))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"minAvailable": 1}, False),
        ({"minAvailable": "50%"}, True),
        ({"maxUnavailable": 1}, True),
        ({"maxUnavailable": "50%"}, True),
    ],
)
def test_owners_matter_where_a_whole_is_needed(spec: dict[str, Any], want: bool) -> None:
    """With a plain minAvailable the owners do not matter."""
    assert budgets.counts_owners(budget(**spec)) is want


def test_evicted_pods_are_waited_for() -> None:
    """An evicted pod counts as gone for two minutes; then it counts again, with an event."""
    disrupted_pods = {"gone": JUST_NOW, "a": JUST_NOW, "b": LONG_AGO, "going": JUST_NOW}
    going = pod("going").on("a").ready().terminating()
    pods = selected(*THREE, going, disrupted_pods=tuple(disrupted_pods))
    found = budgets.decide(budget({"disruptedPods": disrupted_pods}, minAvailable=1), pods, [], NOON)
    assert found.status.disrupted_pods == {"a": JUST_NOW}
    assert found.status.current_healthy == 2
    assert [each.metadata.name for each in found.not_deleted] == ["b"]
    assert found.recheck_in == 61.0


def test_pods_that_are_no_longer_disrupted_are_unset() -> None:
    """A merge patch removes only what it sets to null; and it is conditional on the version that was read."""
    made = budget({"disruptedPods": {"a": JUST_NOW, "gone": JUST_NOW}}, minAvailable=1)
    found = budgets.decide(made, selected(*THREE, disrupted_pods=("a",)), [], NOON)
    patch = budgets.status_patch(made, found.status)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "9"}
    assert patch["status"]["disruptedPods"] == {"a": JUST_NOW, "gone": None}
    assert patch["status"]["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "True",
            "reason": "SufficientPods",
            "message": "",
            "observedGeneration": 2,
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ]


def test_nothing_is_reported_twice() -> None:
    """Also not because time has passed."""
    made = budget(minAvailable=1)
    pods = selected(*THREE)
    patch = budgets.status_patch(made, budgets.decide(made, pods, [], NOON).status)
    assert patch is not None
    settled = budget(patch["status"], minAvailable=1)
    assert budgets.status_patch(settled, budgets.decide(settled, pods, [], NOON + 10**12).status) is None


def test_where_nothing_can_be_counted_nothing_is_allowed() -> None:
    """The numbers of before stay, for there are no better ones."""
    made = budget({"disruptionsAllowed": 3, "currentHealthy": 4, "observedGeneration": 1}, maxUnavailable=1)
    found = budgets.failed(made, "no such kind", NOON)
    assert (found.disruptions_allowed, found.current_healthy) == (0, 4)
    said = conditions.find(found.conditions, "DisruptionAllowed")
    assert said is not None
    assert (said.status, said.reason, said.message) == ("False", "SyncFailed", "no such kind")
