"""Metrics: the names, labels and buckets that kube-scheduler has."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from trimtab.scheduler.metrics import Metrics, Result


def exposed(metrics: Metrics) -> dict[str, float]:
    """What a scrape gives, without what the client library adds of its own."""
    lines = [line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")]
    pairs = (line.rpartition(" ") for line in lines)
    return {name: float(value) for name, _, value in pairs if "_created" not in name}


def buckets(found: dict[str, float], name: str) -> list[float]:
    """The bounds of a histogram's buckets."""
    bounds = {key.split('le="')[1].split('"')[0] for key in found if key.startswith(f"{name}_bucket")}
    return sorted(float(bound) for bound in bounds)


@pytest.mark.parametrize(
    ("name", "first", "last", "count"),
    [
        pytest.param("scheduler_scheduling_attempt_duration_seconds", 0.001, 16.384, 15, id="attempts"),
        pytest.param("scheduler_scheduling_algorithm_duration_seconds", 0.001, 16.384, 15, id="decisions"),
        pytest.param("scheduler_pod_scheduling_sli_duration_seconds", 0.01, 5242.88, 20, id="pods"),
        pytest.param("scheduler_pod_scheduling_attempts", 1, 16, 5, id="attempts a pod"),
        pytest.param("scheduler_framework_extension_point_duration_seconds", 0.0001, 0.2048, 12, id="binding"),
    ],
)
def test_buckets_are_kube_schedulers(name: str, first: float, last: float, count: int) -> None:
    """Quantiles over both schedulers are comparable only if the buckets are the same."""
    metrics = Metrics()
    metrics.count_attempt(Result.SCHEDULED, "trimtab", 0.1)
    metrics.observe_decision(0.1)
    metrics.count_scheduled(1, 0.1, flushed=False)
    metrics.observe_binding("Success", "trimtab", 0.1)
    *finite, infinite = buckets(exposed(metrics), name)
    assert [finite[0], finite[-1]] == pytest.approx([first, last])
    assert len(finite) == count
    assert infinite == float("inf")


def test_labels_are_those_of_kube_scheduler() -> None:
    """Each counter and gauge once, with its labels."""
    metrics = Metrics()
    metrics.count_attempt(Result.UNSCHEDULABLE, "trimtab", 0.1)
    metrics.count_incoming("active", "UnschedulablePodAdd")
    metrics.count_refused(frozenset(("NodeResourcesFit", "")), "trimtab", 1)
    metrics.count_scheduled(20, 3.0, flushed=True)
    metrics.watch_queue([("active", lambda: 7)])
    metrics.watch_known([("nodes", lambda: 3)])
    metrics.watch_bindings(lambda: 2)
    found = exposed(metrics)
    assert found['scheduler_schedule_attempts_total{profile="trimtab",result="unschedulable"}'] == 1
    assert found['scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"}'] == 1
    assert found['scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="trimtab"}'] == 1
    assert found['scheduler_pod_scheduling_sli_duration_seconds_count{attempts="15+"}'] == 1
    assert found["scheduler_pod_scheduled_after_flush_total"] == 1
    assert found['scheduler_pending_pods{queue="active"}'] == 7
    assert found['scheduler_cache_size{type="nodes"}'] == 3
    assert found['scheduler_goroutines{operation="binding"}'] == 2


def test_two_schedulers_in_one_process_do_not_collide() -> None:
    """Each has a registry of its own unless it is given one."""
    assert Metrics().registry is not Metrics().registry
