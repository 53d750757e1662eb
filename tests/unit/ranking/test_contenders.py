"""Pods that are put in order: the criteria that come before location and age, and UIDs between equals."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.ranking.crowds import make, rows_of, view_of
from trimtab.api.pods import Pod
from trimtab.ranking.contenders import ALL, Contenders, Criterion
from trimtab.ranking.keys import packed


def contenders_of(*pods: Pod) -> Contenders:
    """These pods, in a snapshot of their own."""
    view = view_of(pods)
    return Contenders(view.pods, rows_of(view, pods))


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Succeeded", "Odd", ""])
def test_every_phase_but_unknown_and_running_counts_as_pending(phase: str) -> None:
    """A finished pod and one in an unheard-of phase go before one whose phase is Unknown."""
    found = contenders_of(make("x", phase=phase), make("y", phase="Unknown"), make("z", phase="Running"))
    (level,) = (level for level in found.standing if level.criterion is Criterion.PHASE)
    assert level.keys(ALL).tolist() == [0, 1, 2]


def test_pods_with_different_keys_are_in_their_order_whatever_their_uids() -> None:
    """UIDs decide between equal keys only, with all bits of their first bytes."""
    found = contenders_of(make("x", uid="\uffee"), make("y", uid="a"), make("z", uid="b"))
    order, numbers = found.sort_by_uid(packed([np.array([0, 1, 0])]))
    assert order.tolist() == [2, 0, 1]
    assert numbers.tolist() == [0, 0, 1]
