"""How often nodes send heartbeats."""

from __future__ import annotations

import pytest

from trimtab_lab.nodes.settings import LAB, SETTINGS, Renewal, Settings, renewal


@pytest.mark.parametrize(
    ("nodes", "settings", "want"),
    [
        pytest.param(3, SETTINGS, Renewal(10, 300, 40), id="few nodes do as kubelets do"),
        pytest.param(500, LAB, Renewal(10, 300, 40), id="so do five hundred"),
        pytest.param(1000, LAB, Renewal(20, 300, 40), id="a thousand take turns"),
        pytest.param(5000, LAB, Renewal(100, 1250, 200), id="five thousand wait long, and their Leases last longer"),
        pytest.param(5000, SETTINGS, Renewal(25, 1250, 50), id="but not beside a controller manager"),
        pytest.param(5000, Settings(renew_seconds=2.0), Renewal(2, 1250, 40), id="unless somebody says otherwise"),
    ],
)
def test_many_nodes_renew_less_often(nodes: int, settings: Settings, want: Renewal) -> None:
    """The renewals of all nodes together stay bounded."""
    assert renewal(nodes, settings) == want
