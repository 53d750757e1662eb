"""Nodes divided by a label."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.api.nodes import DEPRECATED_ZONE, ZONE
from trimtab.placement.domains import domains
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import node


def view_of(*zones: str | None) -> Snapshot:
    """Nodes with these zones; None for a node without one."""
    view = Snapshot()
    for number, zone in enumerate(zones):
        labels = {} if zone is None else {ZONE: zone}
        view.put(node(f"n{number}").labels(labels).build())
    return view


def test_domains_are_numbered_from_one() -> None:
    """Slot 0 is for nodes that lack the label."""
    found = domains(view_of("z1", "z2", None, "z1").nodes, ZONE)
    assert found.slots.tolist() == [1, 2, 0, 1]
    assert found.present.tolist() == [True, True, False, True]
    assert found.rows.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("chosen", "sums", "sizes"),
    [
        pytest.param([True] * 4, [4, 9, 2], [1, 2, 1], id="all nodes"),
        pytest.param([True, False, False, True], [0, 9, 0], [0, 2, 0], id="some nodes"),
    ],
)
def test_amounts_are_summed_by_domain(chosen: list[bool], sums: list[int], sizes: list[int]) -> None:
    """Only over the given nodes."""
    found = domains(view_of("z1", "z2", None, "z1").nodes, ZONE)
    mask = np.array(chosen)
    assert found.sums(np.array([1, 2, 4, 8]), mask).tolist() == sums
    assert found.sizes(mask).tolist() == sizes


def test_a_missing_label_counts_as_an_empty_one_where_there_is_one() -> None:
    """A node whose zone is the empty text shares it with nodes that have none."""
    found = domains(view_of("z1", "", None).nodes, ZONE)
    everyone = np.array([True, True, True])
    assert found.sums(np.array([1, 2, 4]), everyone).tolist() == [0, 1, 6]
    assert found.sizes(everyone).tolist() == [0, 1, 2]
    assert found.sizes(np.array([False, False, True])).tolist() == [0, 0, 1]
    assert found.present.tolist() == [True, True, False]


def test_domains_are_recomputed_only_after_a_node_changed() -> None:
    """The same nodes give the same object; a changed one a new answer."""
    view = view_of("z1", "z2")
    first = domains(view.nodes, ZONE)
    assert domains(view.nodes, ZONE) is first
    view.put(node("n1", zone="z1").build())
    assert domains(view.nodes, ZONE).slots.tolist() == [1, 1]


def test_label_aliases() -> None:
    """The first of them that a node has is its domain."""
    view = Snapshot()
    view.put(node("new", zone="z1").build())
    view.put(node("old").labels({DEPRECATED_ZONE: "z1"}).build())
    view.put(node("both", zone="z2").labels({DEPRECATED_ZONE: "z1"}).build())
    view.put(node("none").build())
    assert domains(view.nodes, (ZONE, DEPRECATED_ZONE)).slots.tolist() == [1, 1, 2, 0]
