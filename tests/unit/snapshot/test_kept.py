"""Kept values: what is computed again, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.snapshot import Snapshot, kept
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.kept import Selection
from trimtab.snapshot.requests import Requests
from trimtab.testing.builders import node, pod

SIZE = 10


class Counting:
    """Computes the number of pods on each node, and counts its calls for all nodes and for some."""

    def __init__(self, view: Snapshot) -> None:
        self.view = view
        self.of_all = 0
        self.of_some: list[int] = []

    def __call__(self, rows: Selection, more: IntColumn | int) -> IntColumn:
        """The number of pods."""
        if isinstance(rows, slice):
            self.of_all += 1
        else:
            self.of_some += rows.tolist()
        return self.view.nodes.pods[rows] + more


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
    assert (compute.of_all, compute.of_some) == (2, [])


def test_other_changes_are_computed_again_for_their_nodes(view: Snapshot) -> None:
    """A pod of another template, a deleted pod that was there before, and a changed node."""
    assign(view, "before", 5)
    compute = Counting(view)
    counts(view, compute)
    assign(view, "other", 3, cpu="2")
    assert counts(view, compute)[3] == 1
    view.drop(type(pod("before").build()), "default", "before")
    assert counts(view, compute)[5] == 0
    view.put(node("n7").build())
    counts(view, compute)
    assert (compute.of_all, compute.of_some) == (1, [3, 5, 7])


def test_a_pod_that_leaves_again_takes_a_level_back(view: Snapshot) -> None:
    """Both directions are known states."""
    compute = Counting(view)
    counts(view, compute)
    assign(view, "web", 4)
    assert counts(view, compute)[4] == 1
    view.drop(type(pod("web").build()), "default", "web")
    assert counts(view, compute)[4] == 0
    assert compute.of_some == []


def test_pods_of_several_templates_on_one_node(view: Snapshot) -> None:
    """The levels of a node that got a pod of another template count from there on."""
    compute = Counting(view)
    for number in range(1, 5):
        assign(view, f"web-{number}", 2)
        assert counts(view, compute)[2] == 2 * number - 1
        assign(view, f"other-{number}", 2, cpu="2")
        assert counts(view, compute)[2] == 2 * number


def test_the_number_of_levels_is_limited(view: Snapshot) -> None:
    """A node with more pods of the template than that is computed again."""
    compute = Counting(view)
    for number in range(20):
        assign(view, f"web-{number}", 6)
        assert counts(view, compute)[6] == number + 1
    assert compute.of_all == kept.MAX_LEVELS
    assert set(compute.of_some) == {6}


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
    assert (compute.of_all, compute.of_some) == (2, [])


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
    """The table may grow."""
    compute = Counting(view)
    counts(view, compute)
    view.put(node("new").build())
    assert counts(view, compute) == [0] * (SIZE + 1)


def test_the_least_recently_used_values_are_dropped(view: Snapshot) -> None:
    """Values of a template that was used again stay."""
    compute = Counting(view)
    for number in range(24):
        counts(view, compute, f"{number}m")
    counts(view, compute, "0m")
    counts(view, compute, "100m")
    assert compute.of_all == 25
    counts(view, compute, "0m")
    assert compute.of_all == 25
    counts(view, compute, "1m")
    assert compute.of_all == 26
