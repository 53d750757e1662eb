"""Would a pod find a node? Asked by the webhook for each subset that an Adaptive UnitedTopology could put it in.

The placement core answers, on a snapshot of what runs. Pods that were admitted a moment ago run nowhere yet, and many
are admitted in one moment; so who was told yes is assumed on the node that was found until it is seen there, is seen to
wait for good, or half a minute has passed. Pods that other processes admitted are known by their marks once they are
seen, and are assumed in the same way when next somebody asks.

**A pod on its way out is taken for gone.** Who comes after it may have to wait until it is, for as long as it takes to
end; but a rollout finds the room that the old pods leave, and ends where a fresh start would.

**Yes in doubt.** What the core does not judge (volumes, devices), what cannot be read, and a cluster that has not been
seen yet: the pod takes the subset. If that was wrong, the controller moves it.

Preemption is no part of the answer: a subset has room if nobody has to leave for it.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import msgspec

from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.informers import Informer
from trimtab.placement.decisions import Outcome
from trimtab.placement.engine import place
from trimtab.placement.profiles import Profile, default_profile
from trimtab.snapshot import Snapshot
from trimtab.unitedtopology.view import View

PATIENCE = 30.0
"""Seconds for which a pod is assumed on the node that was found for it."""
_CATCH_UP = 20
"""How many pods that others admitted are assumed when somebody asks; who asks has no time for hundreds of them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Promise:
    """A pod that was told yes: under which name it is assumed, and until when."""

    namespace: str
    name: str
    until: int


class Simulation:
    """Answers whether a pod would find a node; for webhooks, which run in every process."""

    def __init__(
        self, view: View, clock: Clock, *, profile: Profile | None = None, rng: random.Random | None = None
    ) -> None:
        """It sees what the view sees: a process has no memory for two copies of all pods."""
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - breaks ties, guards nothing
        # Which node is best does not matter here, only whether there is one.
        self._profile = replace(profile or default_profile(), scores=())
        self.snapshot = Snapshot()
        self._promises: dict[str, _Promise] = {}
        self._waiting: dict[str, Pod] = {}
        nodes, namespaces, pods = view.nodes, view.namespaces, view.pods
        self._seen: tuple[Informer[Any], ...] = (nodes, namespaces, pods)
        nodes.subscribe(added=self.snapshot.put, updated=lambda _, new: self.snapshot.put(new), deleted=self._node_gone)
        namespaces.subscribe(
            added=self.snapshot.put, updated=lambda _, new: self.snapshot.put(new), deleted=self._namespace_gone
        )
        pods.subscribe(added=self.pod_seen, updated=lambda _, new: self.pod_seen(new), deleted=self.pod_gone)

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once."""
        return all(informer.synced for informer in self._seen)

    def __call__(self, pod: JSON, namespace: str) -> bool:
        """Whether there is a node for this pod, as its subset would shape it; then it is assumed there for a while."""
        if not self.synced:
            return True
        try:
            asked = _named(codec.convert(pod, Pod), namespace)
            mark = keys.subset_annotations(asked.metadata.annotations)
            reservation = mark.reservation if mark is not None else ""
            self._forget(reservation)
            self._catch_up()
            return self._find(asked, reservation)
        except InvalidError as error:
            log.debug("%s/%s is not judged: %s", namespace, pod.get("metadata", {}).get("generateName", ""), error)
            return True

    # What is assumed.

    def _find(self, pod: Pod, reservation: str) -> bool:
        decision = place(pod, self.snapshot, self._profile, self._rng)
        if decision.node is not None and reservation:
            name = f"~{reservation}"
            metadata = msgspec.structs.replace(pod.metadata, name=name)
            self.snapshot.assume(msgspec.structs.replace(pod, metadata=metadata), decision.node)
            until = self._clock.monotonic() + round(PATIENCE * SECOND)
            self._promises[reservation] = _Promise(pod.metadata.namespace, name, until)
        return decision.outcome is not Outcome.UNSCHEDULABLE

    def _catch_up(self) -> None:
        """Forget what was promised too long ago, and assume those that are seen to wait."""
        now = self._clock.monotonic()
        for reservation in [name for name, promise in self._promises.items() if promise.until <= now]:
            self._forget(reservation)
        for reservation in list(islice(self._waiting, _CATCH_UP)):
            pod = self._waiting.pop(reservation)
            if reservation not in self._promises:
                self._find(pod, reservation)

    def _forget(self, reservation: str) -> None:
        promise = self._promises.pop(reservation, None)
        if promise is not None:
            self.snapshot.drop(Pod, promise.namespace, promise.name)

    # What is seen.

    def pod_seen(self, pod: Pod) -> None:
        """A pod was added or changed."""
        mark = keys.subset_annotations(pod.metadata.annotations)
        reservation = mark.reservation if mark is not None else ""
        if not pod.active:
            self.pod_gone(pod)
        elif pod.spec.node_name:
            self._settle(reservation)
            self.snapshot.put(pod)
        elif not reservation:
            return
        elif _unschedulable(pod):
            self._settle(reservation)
        elif reservation not in self._promises:
            self._waiting[reservation] = pod

    def pod_gone(self, pod: Pod) -> None:
        """A pod was deleted."""
        mark = keys.subset_annotations(pod.metadata.annotations)
        self._settle(mark.reservation if mark is not None else "")
        self.snapshot.drop(Pod, pod.metadata.namespace, pod.metadata.name)

    def _settle(self, reservation: str) -> None:
        self._waiting.pop(reservation, None)
        self._forget(reservation)

    def _node_gone(self, node: Node) -> None:
        self.snapshot.drop(Node, "", node.metadata.name)

    def _namespace_gone(self, namespace: Namespace) -> None:
        self.snapshot.drop(Namespace, "", namespace.metadata.name)


def _named(pod: Pod, namespace: str) -> Pod:
    """The pod in its namespace: at admission its own document may leave that out."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=namespace))


def _unschedulable(pod: Pod) -> bool:
    condition = pod.status.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"
