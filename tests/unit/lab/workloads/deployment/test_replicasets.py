"""The ReplicaSets of a Deployment, and its limits."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.unit.lab.workloads.objects import deployment, replicaset
from trimtab_lab.workloads.deployment.replicasets import Limits, classify, limits_of


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "want"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge is rounded up, unavailable down"),
        pytest.param(10, 3, 2, (3, 2), id="plain numbers"),
        pytest.param(2, "0%", "1%", (0, 1), id="where both come to nothing, one may be unavailable"),
        pytest.param(1, "1%", "25%", (1, 0), id="a surge of one will do"),
        pytest.param(3, 0, 5, (0, 3), id="no more can be unavailable than there are"),
        pytest.param(0, "25%", "25%", (0, 0), id="nothing of nothing"),
        pytest.param(0, 1, 1, (1, 0), id="a plain surge stays, with nothing wanted"),
    ],
)
def test_limits_are_worked_out(replicas: int, surge: int | str, unavailable: int | str, want: tuple[int, int]) -> None:
    """As Kubernetes rounds."""
    found = limits_of(deployment(replicas, surge=surge, unavailable=unavailable))
    assert (found.surge, found.unavailable) == want


def test_recreating_has_no_leeway() -> None:
    """Nothing above, nothing below: the strategy does not look at it anyway."""
    assert limits_of(deployment(3, strategy="Recreate")) == Limits(3, 0, 0)


@given(
    st.integers(0, 1000),
    st.integers(0, 50) | st.integers(0, 150).map("{}%".format),
    st.integers(0, 50) | st.integers(0, 100).map("{}%".format),
)
@settings(deadline=None)
def test_something_can_always_move(replicas: int, surge: int | str, unavailable: int | str) -> None:
    """Whatever is written, a Deployment with pods may either make one more or take one away."""
    found = limits_of(deployment(replicas, surge=surge, unavailable=unavailable))
    assert 0 <= found.min_available <= found.desired <= found.max_pods
    assert found.min_available < found.max_pods or replicas == 0


def test_the_new_replicaset_has_the_template() -> None:
    """All others are old, from the oldest to the youngest; of two with the template the older one is new."""
    sets = [
        replicaset("d", 1, image="app:2", created="2026-01-04T00:00:00Z"),
        replicaset("c", 1, image="app:1", created="2026-01-03T00:00:00Z"),
        replicaset("b", 1, image="app:2", created="2026-01-02T00:00:00Z"),
        replicaset("a", 1, image="app:0", created="2026-01-03T00:00:00Z"),
    ]
    owned = classify(deployment(image="app:2"), sets)
    assert owned.new is not None
    assert owned.new.metadata.name == "b"
    assert [each.metadata.name for each in owned.old] == ["a", "c", "d"]


def test_the_replicasets_are_resized() -> None:
    """The sizes that are being set are what is counted on."""
    owned = classify(deployment(), [replicaset("new", 1), replicaset("old", 3, image="app:0")])
    after = owned.with_sizes([(owned.old[0], 2)])
    assert [each.spec.replicas for each in after.all] == [2, 1]
    assert after.new is owned.new
