"""Costs for the size that a workload is about to have: what is written, in which order, what never stops a request."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.unitedtopology.clusters import TopologyCluster, subset
from trimtab.api.annotations import AIMED_SIZE, DELETION_COST
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import Level
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import IncompleteSweep, Unreachable
from trimtab.ranking.costs import Band
from trimtab.testing.builders import pod
from trimtab.unitedtopology.admission.scaledown_preparation import SETTLE, _interleaved

THIRDS = (subset("a", "z1", "34%"), subset("b", "z2", "33%"), subset("c", "z3", "33%"))


async def divided(cluster: TopologyCluster, each: int) -> None:
    """A Deployment with so many pods in each of three zones, in thirds."""
    cluster.room = each
    await cluster.deploy(3 * each)
    await cluster.create_topology(*THIRDS)


async def prepare(cluster: TopologyCluster, size: int) -> int:
    """Prepare for a size; how many costs were written."""
    task = asyncio.ensure_future(cluster.preparation.prepare("Deployment", "default", "web", size))
    while not task.done():
        await cluster.clock.advance(0.1)
    return task.result()


async def test_only_changed_costs_are_written(cluster: TopologyCluster) -> None:
    """Of nine pods in thirds, bound for six, one of each third; a second time nothing. For one pod, all but that."""
    await divided(cluster, 3)
    assert await prepare(cluster, 6) == 3
    assert await prepare(cluster, 6) == 0
    assert await prepare(cluster, 1) == 5


async def test_the_annotation_has_size_and_expiry(cluster: TopologyCluster) -> None:
    """Fifteen seconds from now."""
    await divided(cluster, 2)
    now = cluster.clock.now() // 1_000_000_000
    await prepare(cluster, 3)
    notes = {pod.metadata.annotations.get(AIMED_SIZE) for pod in await cluster.pods()}
    assert notes == {None, f"3@{now + 15}"}


async def test_the_watches_of_other_controllers_get_time_to_show_the_costs(cluster: TopologyCluster) -> None:
    """The controller that deletes pods has a watch of its own."""
    await divided(cluster, 2)
    started = cluster.clock.monotonic()
    await prepare(cluster, 3)
    assert cluster.clock.monotonic() - started >= SETTLE * SECOND


async def test_costs_are_written_when_a_large_united_topology_has_been_validated(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it is not known whether its subsets count."""
    await divided(cluster, 2)
    asked: list[tuple[str, ...]] = []

    async def wait_validated(*workload: str) -> None:
        asked.append(workload)
        await cluster.clock.sleep(0.5)
        assert not any(AIMED_SIZE in pod.metadata.annotations for pod in await cluster.pods())

    monkeypatch.setattr(cluster.controller.levels, "wait_validated", wait_validated)
    assert await prepare(cluster, 3) == 3
    assert asked == [("Deployment", "default", "web")]


async def test_pods_are_matched_in_steps_before_costs_are_computed(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs are computed without a pause."""
    await divided(cluster, 2)
    asked: list[tuple[str, ...]] = []

    async def match_pods(*workload: str) -> None:
        asked.append(workload)
        await cluster.clock.sleep(0.5)
        assert not any(AIMED_SIZE in pod.metadata.annotations for pod in await cluster.pods())

    monkeypatch.setattr(cluster.controller.levels, "match_pods", match_pods)
    assert await prepare(cluster, 3) == 3
    assert asked == [("Deployment", "default", "web")]


async def test_for_size_zero_nothing_is_written(cluster: TopologyCluster) -> None:
    """Pods that are all deleted need no order."""
    await divided(cluster, 2)
    assert await prepare(cluster, 0) == 0


async def test_every_prefix_has_the_same_effect_on_a_smaller_scale(cluster: TopologyCluster) -> None:
    """Costs are written to all thirds alike, whenever time runs out."""
    await divided(cluster, 4)
    cluster.controller_wire.requests.clear()
    await prepare(cluster, 3)
    names = {pod.metadata.name: pod.spec.node_name[:2] for pod in await cluster.pods()}
    patches = [request.path for request in cluster.controller_wire.requests if request.method == "PATCH"]
    zones = [names[path.rpartition("/")[2]] for path in patches if "/pods/" in path][:9]
    assert [sorted(zones[at : at + 3]) for at in (0, 3, 6)] == [["z1", "z2", "z3"]] * 3


async def test_a_foreign_cost_is_left_alone(cluster: TopologyCluster) -> None:
    """It counts as theirs at every size."""
    await divided(cluster, 2)
    first = (await cluster.pods())[0]
    await cluster.patch(Pod, first.metadata.name, {"metadata": {"annotations": {DELETION_COST: "5"}}})
    await prepare(cluster, 3)
    assert (await cluster.get(Pod, first.metadata.name)).metadata.annotations[DELETION_COST] == "5"


async def test_a_failed_write_is_raised(cluster: TopologyCluster) -> None:
    """What holds the request reports it, and goes on with the costs as they are."""
    await divided(cluster, 2)
    cluster.controller_wire.refuse = lambda request: (
        Unreachable("away", sent=False) if request.method == "PATCH" else None
    )
    with pytest.raises(IncompleteSweep, match="away"):
        await prepare(cluster, 3)


async def test_a_workload_without_a_united_topology_is_not_delayed(cluster: TopologyCluster) -> None:
    """There is nothing to prepare."""
    await cluster.deploy(3)
    assert await prepare(cluster, 1) == 0


SUBSETS = 3
BANDS = [Band(level, subset, SUBSETS) for level in Level for subset in range(SUBSETS)]


@given(st.lists(st.integers(min_value=0, max_value=5), min_size=len(BANDS), max_size=len(BANDS)))
def test_costs_are_written_to_equal_shares_of_all_bands(sizes: list[int]) -> None:
    """Pods to delete come first. Whenever time runs out, no band is ahead of another by more than one of its pods."""
    total = dict(zip(BANDS, sizes, strict=True))
    changes = [(band, pod(f"p{at}-{number}").build()) for at, band in enumerate(BANDS) for number in range(sizes[at])]
    bands = {each.metadata.name: band for band, each in changes}
    order = [bands[each.metadata.name] for each, _ in _interleaved((band, each, {}) for band, each in changes)]
    assert Counter(order) == {band: size for band, size in total.items() if size}
    is_kept = [band.level is not Level.REDUNDANT for band in order]
    assert is_kept == sorted(is_kept)
    for size in set(sizes) - {0}:
        equal = sorted((band for band in BANDS if total[band] == size), key=order.index)
        assert equal == sorted(equal, key=lambda band: band.centre), "the one that is emptied first comes first"
    for kept in (False, True):
        group = [band for band in total if total[band] and (band.level is not Level.REDUNDANT) is kept]
        written: Counter[Band] = Counter()
        for band in (each for each, is_in in zip(order, is_kept, strict=True) if is_in is kept):
            written[band] += 1
            assert all(written[band] / total[band] <= (written[other] + 1) / total[other] for other in group)
