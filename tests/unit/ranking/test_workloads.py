"""The pods of a workload, and those that count beside them."""

from __future__ import annotations

from trimtab.ranking.workloads import Workload, pod_keys
from trimtab.testing.builders import cluster, pod


def test_a_pod_that_is_gone_is_neither_a_pod_nor_a_relative() -> None:
    """The others stay, in their order."""
    pods = [pod(name).on("n").owned_by("web") for name in ("a", "b")]
    snapshot = cluster("z: n").with_pods(*pods, pod("c").on("n").owned_by("old")).snapshot()
    (new,) = {each.metadata.controller.uid for each in map(snapshot.pod, ("default/a", "default/b")) if each}  # type: ignore[union-attr]
    old = snapshot.pod("default/c")
    assert old is not None
    assert old.metadata.controller is not None
    workload = Workload.owned_by(snapshot, new, related=(new, old.metadata.controller.uid))
    assert pod_keys(snapshot, workload.related) == ("default/a", "default/b", "default/c")
    left = workload.without(int(workload.rows[0]))
    assert pod_keys(snapshot, left.rows) == ("default/b",)
    assert pod_keys(snapshot, left.related) == ("default/b", "default/c")
