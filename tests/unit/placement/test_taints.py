"""Taints and tolerations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import agrees, filtered, incoming_pods, sample_clusters, scored
from tests.unit.placement.plugin_twins import NEVER, PASSED, ScoresByNode, Verdicts
from tests.unit.placement.samples import SampleCluster
from trimtab.placement.taints import TaintToleration
from trimtab.testing.builders import PodBuilder, node, pod

TAINTED = (NEVER, ("node(s) had untolerated taint(s)",))

CLUSTER = SampleCluster(
    [
        node("free").build(),
        node("gpu").taint("gpu").build(),
        node("old").taint("old", value="v1", effect="NoExecute").taint("gpu").build(),
        node("shy").taint("shy", effect="PreferNoSchedule").build(),
        node("shyer").taint("shy", effect="PreferNoSchedule").taint("quiet", effect="PreferNoSchedule").build(),
    ],
    [],
)
OPEN = {"free": PASSED, "shy": PASSED, "shyer": PASSED}


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(pod("p"), {**OPEN, "gpu": TAINTED, "old": TAINTED}, id="taints that repel refuse a node"),
        pytest.param(
            pod("p").tolerates("gpu"), {**OPEN, "gpu": PASSED, "old": TAINTED}, id="all of them must be tolerated"
        ),
        pytest.param(
            pod("p").tolerates("gpu").tolerates("old", value="v2"),
            {**OPEN, "gpu": PASSED, "old": TAINTED},
            id="with the right value",
        ),
        pytest.param(pod("p").tolerates(), None, id="a toleration of everything passes all nodes"),
    ],
)
def test_no_schedule_taints(incoming: PodBuilder, want: Verdicts | None) -> None:
    """NoSchedule and NoExecute refuse; PreferNoSchedule does not."""
    assert filtered(TaintToleration(), incoming.build(), CLUSTER) == want


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(
            pod("p"),
            {"free": (0, 100), "gpu": (0, 100), "old": (0, 100), "shy": (1, 50), "shyer": (2, 0)},
            id="each taint makes a node less welcome",
        ),
        pytest.param(
            pod("p").tolerates("shy", effect="PreferNoSchedule"),
            {"free": (0, 100), "gpu": (0, 100), "old": (0, 100), "shy": (0, 100), "shyer": (1, 0)},
            id="a tolerated one does not",
        ),
        pytest.param(
            pod("p").tolerates("shy", effect="NoSchedule"),
            {"free": (0, 100), "gpu": (0, 100), "old": (0, 100), "shy": (1, 50), "shyer": (2, 0)},
            id="tolerating another effect does not help",
        ),
        pytest.param(
            pod("p").tolerates(),
            {n.metadata.name: (0, 100) for n in CLUSTER.nodes},
            id="nothing to choose between: all 100",
        ),
    ],
)
def test_prefer_no_schedule_taints(incoming: PodBuilder, want: ScoresByNode) -> None:
    """The node with the most unwelcome taints scores 0, one without any 100."""
    assert scored(TaintToleration(), incoming.build(), CLUSTER) == want


def test_only_feasible_nodes_set_the_scale() -> None:
    """The worst of those that could be chosen scores 0, whatever others are like."""
    feasible = [n for n in CLUSTER.nodes if n.metadata.name in ("free", "shy")]
    assert scored(TaintToleration(), pod("p").build(), CLUSTER, feasible) == {"free": (0, 100), "shy": (1, 0)}


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_taints_agree_with_their_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin agrees with its slow twin."""
    sample, _ = data.draw(sample_clusters())
    agrees(TaintToleration(), data.draw(incoming_pods("tolerations")), sample)
