"""How many disruptions a PodDisruptionBudget allows: its status, kept up to date as pods come, go and become ready.

    allowed = healthy pods − pods that must be healthy, and never less than zero

A budget in percent, or one that says how many may be missing, needs to know how many pods there should be: the sum of
the replicas of the workloads that own the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from trimtab.api import codec, selectors, times
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.selectors import Selector
from trimtab.lab.apiserver import scale
from trimtab.lab.apiserver.chores import Chores
from trimtab.lab.apiserver.cluster import Cluster
from trimtab.lab.apiserver.storage import Entry, Event, Shelf, Tree, key_of

SHELF = "policy/poddisruptionbudgets"
_CONFIRMED_WITHIN = 120 * 10**9
"""Nanoseconds after which a pod that was evicted and still lives counts again."""


class Budgets:
    """Keeps the status of all budgets."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: Counter[str] = Counter()
        self._chores: Chores[str] = Chores(self._look_at)
        cluster.store.listen(self._heard)

    @property
    def idle(self) -> bool:
        """Whether every budget is up to date."""
        return self._chores.idle

    async def close(self) -> None:
        """Stop."""
        await self._chores.close()

    def _heard(self, shelf: Shelf, event: Event) -> None:
        namespace = event.entry.namespace
        if shelf.name == SHELF:
            self._counts[namespace] += {"ADDED": 1, "DELETED": -1}.get(event.type, 0)
        if not self._counts[namespace]:
            return
        if shelf.name in (SHELF, "/pods") or (event.type == "MODIFIED" and _replicas_changed(event)):
            self._chores.add(namespace)

    async def _look_at(self, namespace: str) -> None:
        shelf = self._cluster.store.shelf(SHELF)
        for entry in list(shelf.present(f"{namespace}/")):
            budget = entry.tree()
            self._update(budget)
            if budget != entry.tree():
                self._cluster.store.replace(shelf, entry, budget)

    def _update(self, budget: Tree) -> None:
        now = self._cluster.clock()
        namespace = budget["metadata"]["namespace"]
        selector = _selector(budget["spec"])
        pods = [e for e in self._cluster.store.shelf("/pods").present(f"{namespace}/") if selector.matches(e.labels)]
        status = budget["status"]
        disrupted = _still_disrupted(status.get("disruptedPods") or {}, pods, now)
        expected, desired = self._wanted(budget["spec"], pods)
        healthy = sum(1 for pod in pods if pod.name not in disrupted and not pod.deleting and _ready(pod.tree()))
        allowed = healthy - desired if expected > 0 else 0
        status |= {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": max(allowed, 0),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        status.pop("disruptedPods", None)
        if disrupted:
            status["disruptedPods"] = disrupted
        set_allowed_condition(budget, times.format_time(now))

    def _wanted(self, spec: Tree, pods: list[Entry]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        if "maxUnavailable" in spec:
            expected = self._expected(pods)
            return expected, max(expected - _part(spec["maxUnavailable"], expected), 0)
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._expected(pods)
        return expected, _part(least, expected)

    def _expected(self, pods: list[Entry]) -> int:
        """The replicas of all workloads that own these pods, each once."""
        replicas: dict[str, int] = {}
        for pod in pods:
            workload = self._workload(pod.namespace, _controller(pod.tree()))
            if workload is not None:
                uid, count = workload
                replicas[uid] = count
        return sum(replicas.values())

    def _workload(self, namespace: str, owner: Tree | None) -> tuple[str, int] | None:
        """The uid and the replicas of a pod's workload: its controller, or of a ReplicaSet the Deployment behind it."""
        if owner is None:
            return None
        kind = self._cluster.registry.named(owner.get("apiVersion", ""), owner.get("kind", ""))
        if kind is None or "scale" not in kind.subresources:
            return None
        entry = self._cluster.store.shelf(kind.shelf).entries.get(key_of(namespace, owner["name"]))
        if entry is None or entry.uid != owner["uid"]:
            return None
        tree = entry.tree()
        above = self._workload(namespace, _controller(tree)) if kind.kind == "ReplicaSet" else None
        return above or (entry.uid, scale.scale_of(kind, tree)["spec"].get("replicas", 0))


def set_allowed_condition(budget: Tree, now: str) -> None:
    """Say in a condition whether a disruption is allowed."""
    status = budget["status"]
    allowed = status["disruptionsAllowed"] > 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    before = [c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"]
    if before and before[0].get("status") == condition["status"]:
        condition["lastTransitionTime"] = before[0].get("lastTransitionTime", now)
    status["conditions"] = [*others, condition]


def _selector(spec: Tree) -> Selector:
    try:
        selector = spec.get("selector")
        return selectors.compile(None if selector is None else codec.convert(selector, LabelSelector))
    except InvalidError:
        return selectors.NOTHING


def _ready(pod: Tree) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _controller(tree: Tree) -> Tree | None:
    return next((o for o in tree["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def _part(value: Any, whole: int) -> int:
    """A number, or a percentage of a whole, rounded up."""
    return value if isinstance(value, int) else -(-int(str(value).rstrip("%")) * whole // 100)


def _still_disrupted(disrupted: dict[str, str], pods: Iterable[Entry], now: int) -> dict[str, str]:
    """The pods that were evicted a moment ago, and whose end the API server has not seen yet."""
    living = {pod.name for pod in pods if not pod.deleting}
    return {
        name: since
        for name, since in disrupted.items()
        if name in living and now - times.parse_ns(since) < _CONFIRMED_WITHIN
    }


def _replicas_changed(event: Event) -> bool:
    if event.previous is None or b'"replicas"' not in event.entry.data:
        return False
    spec, before = event.entry.tree().get("spec"), event.previous.tree().get("spec")
    return isinstance(spec, dict) and isinstance(before, dict) and spec.get("replicas") != before.get("replicas")
