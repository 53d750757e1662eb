"""How the controllers are set up."""

from __future__ import annotations

import pytest

from trimtab.api.errors import InvalidError
from trimtab.ranking import victims
from trimtab_lab.workloads.options import STOCK


def test_both_gates_are_on_unless_switched_off() -> None:
    """The stock order is that of Kubernetes as shipped; a gate changes the one thing it is named after."""
    assert STOCK.order == victims.STOCK
    without_cost = STOCK.gated({"PodDeletionCost": False})
    without_scales = STOCK.gated({"LogarithmicScaleDown": False})
    assert without_cost.order == victims.Options(deletion_cost=False)
    assert without_scales.order == victims.Options(logarithmic=False)


def test_an_unknown_gate_is_named() -> None:
    """A misspelt gate must not pass for one that was switched."""
    with pytest.raises(
        InvalidError, match=r"featureGates\[PodCost\].*known ones are LogarithmicScaleDown, PodDeletionCost"
    ):
        STOCK.gated({"PodCost": True})
