"""Kept values: what is computed again, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot, kept
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.requests import Requests
from trimtab.testing.builders import node, pod

SIZE = 10


class Counting:
    """Computes the CPUs that are requested on each node, and counts its calls."""

    def __init__(self, view: Snapshot) -> None:
        self.view = view
        self.calls = 0

    def __call__(self, more: IntColumn | int) -> IntColumn:
        """The number of CPUs, of which a pod of the template requests one."""
        self.calls += 1
        return self.view.nodes.requested[:, 0] // 1000 + more


@pytest.fixture
def view() -> Snapshot:
    """Nodes without pods."""
    made = Snapshot()
    for number in range(SIZE):
        made.put(node(f"n{number}").build())
    return made


def requests(view: Snapshot, cpu: str = "1") -> Requests:
    """The requests of a template."""
    return view.requests(pod("web").requests(cpu=cpu).build())


def assign(view: Snapshot, name: str, at: int, cpu: str = "1") -> None:
    """Assume a pod on a node."""
    view.assume(pod(name).requests(cpu=cpu).build(), f"n{at}")


def counts(view: Snapshot, compute: Counting, cpu: str = "1") -> list[int]:
    """The kept values."""
    found: list[int] = view.nodes.kept("pods", requests(view, cpu), compute).tolist()
    return found


def test_pods_of_the_template_are_counted_without_computing(view: Snapshot) -> None:
    """The second pod needs a level for all nodes; the pods after it find their values there."""
    compute = Counting(view)
    counts(view, compute)
    for number in range(SIZE):
        assign(view, f"web-{number}", number)
        assert counts(view, compute) == [1] * (number + 1) + [0] * (SIZE - number - 1)
    assert compute.calls == 2


def test_several_pods_at_once_and_several_on_a_node(view: Snapshot) -> None:
    """A level is computed for nodes that have reached different ones."""
    compute = Counting(view)
    counts(view, compute)
    for number, at in enumerate((1, 1, 2, 5, 1)):
        assign(view, f"web-{number}", at)
    assert counts(view, compute) == [0, 3, 1, 0, 0, 1, 0, 0, 0, 0]
    assign(view, "last", 2)
    assert counts(view, compute) == [0, 3, 2, 0, 0, 1, 0, 0, 0, 0]
    assert compute.calls == 4


@pytest.mark.parametrize("change", ["another pod", "a pod of before is deleted", "a node"])
def test_everything_is_computed_again_after_other_changes(view: Snapshot, change: str) -> None:
    """Whether the nodes had pods of the template since, or not."""
    assign(view, "before", 5)
    compute = Counting(view)
    counts(view, compute)
    for name, at in (("web", 5), ("web-1", 1), ("web-2", 1)):
        assign(view, name, at)
    counts(view, compute)
    before = compute.calls
    match change:
        case "another pod":
            assign(view, "other", 5, cpu="2")
        case "a node":
            view.put(node("n5", disk="ssd").build())
        case _:
            view.drop(Pod, "default", "before")
            view.drop(Pod, "default", "web")
    assert counts(view, compute)[5] == {"another pod": 4, "a node": 2}.get(change, 0)
    assert compute.calls == before + 1


def test_a_pod_that_leaves_again_takes_a_level_back(view: Snapshot) -> None:
    """Both directions are known states."""
    compute = Counting(view)
    counts(view, compute)
    assign(view, "web", 4)
    assert counts(view, compute)[4] == 1
    view.drop(Pod, "default", "web")
    assert counts(view, compute)[4] == 0
    assert compute.calls == 2


def test_the_number_of_levels_is_limited(view: Snapshot) -> None:
    """They begin again with a node that gets more pods of the template than that."""
    compute = Counting(view)
    for number in range(kept.MAX_LEVELS + 1):
        assert counts(view, compute)[6] == number
        assign(view, f"web-{number}", 6)
    assert compute.calls == kept.MAX_LEVELS + 1
    view.drop(Pod, "default", f"web-{kept.MAX_LEVELS}")
    assign(view, "other-node", 3)
    assert counts(view, compute)[3] == 1
    assert compute.calls == kept.MAX_LEVELS + 2


def test_everything_is_computed_again_where_changes_are_forgotten(
    view: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of changes is limited."""
    monkeypatch.setattr(kept, "MAX_CHANGES", 4)
    compute = Counting(view)
    counts(view, compute)
    for number in range(SIZE):
        assign(view, f"web-{number}", number)
    assert counts(view, compute) == [1] * SIZE
    assert compute.calls == 2


def test_values_of_a_decision_do_not_change_later(view: Snapshot) -> None:
    """Decisions keep the arrays; nothing may write to them."""
    compute = Counting(view)
    before = view.nodes.kept("pods", requests(view), compute)
    assign(view, "web", 1)
    after = view.nodes.kept("pods", requests(view), compute)
    assert (before[1], after[1]) == (0, 1)
    with pytest.raises(ValueError, match="read-only"):
        np.add(after, 1, out=after)


def test_new_nodes_are_included(view: Snapshot) -> None:
    """Also those that a pod names before they are observed."""
    compute = Counting(view)
    counts(view, compute)
    view.put(node("new").build())
    assert counts(view, compute) == [0] * (SIZE + 1)
    view.assume(pod("early").requests(cpu="1").build(), "unseen")
    assert counts(view, compute) == [0] * (SIZE + 1) + [1]


def test_the_least_recently_used_values_are_dropped(view: Snapshot) -> None:
    """Values of a template that was used again stay."""
    compute = Counting(view)
    for number in range(24):
        counts(view, compute, f"{number}m")
    counts(view, compute, "0m")
    counts(view, compute, "100m")
    assert compute.calls == 25
    counts(view, compute, "0m")
    assert compute.calls == 25
    counts(view, compute, "1m")
    assert compute.calls == 26
