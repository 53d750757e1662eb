"""Which rows are computed again, and how many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.dashboard.serving import SETTINGS
from tests.unit.inspection.clusters import three_zones
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.dashboard import overview_cache
from trimtab.dashboard.decisions import KEPT, DecisionLog
from trimtab.dashboard.overview_cache import OverviewCache, StaleWorkloads
from trimtab.dashboard.rights import EVERYTHING
from trimtab.dashboard.rows import Places
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import SECOND


def many(count: int) -> Cluster:
    """Deployments of two pods each."""
    builder = three_zones()
    for number in range(count):
        builder.deployment(f"w{number}", ["a1", "b1"])
    return builder.build()


def finish(steps: Iterator[None]) -> int:
    """Take every step; how many pauses there were."""
    return sum(1 for _ in steps)


def test_a_pod_makes_its_workload_stale() -> None:
    """Its ReplicaSet and the Deployment above; nothing else."""
    cluster = many(3)
    stale = StaleWorkloads(lambda namespace, name: cluster.find(ReplicaSet, namespace, name))
    assert stale.take() == (True, [])
    assert stale.note(None, cluster.all(Pod)[0]) is True
    assert stale.take() == (False, ["default/ReplicaSet/w0-1", "default/Deployment/w0"])
    assert stale.take() == (False, [])


def test_stale_overviews_are_computed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until none is missing; workloads that are gone go at once."""
    monkeypatch.setattr(overview_cache, "AT_ONCE", 2)
    cache, cluster = OverviewCache(SETTINGS), many(5)
    sizes = []
    for everything in (True, False, False, False):
        finish(cache.update(lambda: cluster, everything, []))
        sizes.append((len(cache.overviews), cache.is_behind))
    assert sizes == [(2, True), (4, True), (5, False), (5, False)]
    finish(cache.update(lambda: many(1), False, []))
    assert list(cache.overviews) == ["default/Deployment/w0"]


def test_a_large_workload_is_ranked_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it changes all the time; a small one at each change."""
    ranked: list[str] = []
    monkeypatch.setattr(overview_cache, "RANKED_AT_ONCE", 3)
    monkeypatch.setattr(overview_cache, "RANKED_AGAIN", 4)

    def rank(_: Cluster, workload: Workload, __: Settings) -> Places:
        ranked.append(workload.metadata.name)
        return {}

    monkeypatch.setattr(overview_cache, "_ranked", rank)
    cluster = three_zones().deployment("small", ["a1"]).deployment("large", ["a1", "b1", "c1", "a2"]).build()
    cache = OverviewCache(SETTINGS)
    for _ in range(8):
        finish(cache.update(lambda: cluster, True, []))
        for name in ("small", "large"):
            finish(cache.rank(lambda: cluster, f"default/Deployment/{name}", []))
    assert (ranked.count("small"), ranked.count("large")) == (8, 2)


def test_orders_are_computed_again_as_pods_grow_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any change, after a while."""
    ranked: list[int] = []

    def rank(cluster: Cluster, _: Workload, __: Settings) -> Places:
        ranked.append(cluster.time)
        return {}

    monkeypatch.setattr(overview_cache, "_ranked", rank)
    cache, cluster = OverviewCache(SETTINGS), many(1)
    for seconds in (0, 5, 11, 12, 30):
        later = replace(cluster, time=seconds * SECOND)
        finish(cache.update(lambda: later, False, []))  # noqa: B023 - it is called at once
        finish(cache.rank(lambda: later, "default/Deployment/w0", []))  # noqa: B023 - as above
    assert ranked == [0, 11 * SECOND, 30 * SECOND]


def test_the_log_keeps_the_last_decisions_of_each_sort() -> None:
    """Many placements do not push scale-downs out."""
    log = DecisionLog(lambda: 0)
    pods = many(1).all(Pod)
    for _ in range(2 * KEPT):
        log.note(None, pods[0])
    assert len(log.rows(many(1), EVERYTHING)) == KEPT


def test_scale_downs_of_policies_are_listed() -> None:
    """Those from before the dashboard was started; the table has the last one of each workload."""
    recent: list[Any] = [
        {"time": f"2026-03-01T11:0{minute}:00Z", "workload": "Deployment/w0", "from": 9, "to": minute, "left": "1/1/1"}
        for minute in (2, 1)
    ]
    tree = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "status": {"recent": recent}}
    cluster = three_zones().deployment("w0", ["a1"]).put(codec.convert(tree, ScaleDownPolicy)).build()
    last = DecisionLog().last_scale_downs(cluster, EVERYTHING)
    assert last["default", "Deployment/w0"].sentence.startswith("9 → 2: ")
    assert "left 1/1/1" in last["default", "Deployment/w0"].sentence
