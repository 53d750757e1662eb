"""Costs for the size that a workload is about to have, before it has it.

A percentage of 9 pods is more than of 3. The controller that shrinks a workload in one step looks at the costs as they
stand when it does so; were they those of the old size, all pods would be Guaranteed, and the later subsets would be
emptied for the first. So who holds the request to shrink asks here first: the bands of the size that is aimed at are
written, seen by our own watch, and given a moment to be seen by others.

Such a cost says what it was written for and until when that is to be believed (`trimtab.dev/aimed-size`). If the
request comes to nothing, the controller finds the note out of date, and puts the costs in line with the size that is.
Nothing else remembers it: any process may hold the request, and any may crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeVar

from trimtab.api.pods import Pod
from trimtab.controllers.unitedtopology import costs
from trimtab.controllers.unitedtopology.costs import Change
from trimtab.controllers.unitedtopology.levels import Levels
from trimtab.controllers.unitedtopology.metrics import Metrics
from trimtab.controllers.unitedtopology.pods import Scribe
from trimtab.controllers.unitedtopology.verdicts import verdict
from trimtab.controllers.unitedtopology.view import View
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, within
from trimtab.kube.errors import ApiError, ConfigError
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of

SETTLE = 0.3
"""Seconds that other controllers are given to see what was written."""
BELIEVED = 15
"""Seconds for which a request that is held may still take effect."""
BUDGET = 1.0
"""Seconds that a request is held here at most; who comes after needs some too."""

H = TypeVar("H")

log = logging.getLogger(__name__)


class Intent(Protocol):
    """Somebody wants a workload to shrink. Nothing in it has been checked."""

    @property
    def kind(self) -> str:
        """The workload's."""
        ...

    @property
    def namespace(self) -> str:
        """The workload's."""
        ...

    @property
    def name(self) -> str:
        """The workload's."""
        ...

    @property
    def uid(self) -> str:
        """The workload's."""
        ...

    @property
    def after(self) -> int:
        """The size that it is to have."""
        ...


class Foresight:
    """Writes costs ahead of a scale-down."""

    def __init__(self, view: View, levels: Levels, scribe: Scribe, clock: Clock, *, settle: float = SETTLE) -> None:
        self._view = view
        self._levels = levels
        self._scribe = scribe
        self._clock = clock
        self._settle = settle

    @classmethod
    def over(cls, client: Client, view: View, *, pod_webhook: bool = True, metrics: Metrics | None = None) -> Foresight:
        """With a view that somebody runs in this process, which need not be the one that leads."""
        levels = Levels(view, verdict=verdict(pod_webhook=pod_webhook))
        return cls(view, levels, Scribe(client, metrics or Metrics()), client.clock)

    def ahead_of(self, hold: Callable[[Intent], Awaitable[H]]) -> Callable[[Intent], Awaitable[H]]:
        """What holds a request here first, and then there: a policy's ranks are put into the bands that it finds.

        Whatever goes wrong here, the request goes on.
        """

        async def both(intent: Intent) -> H:
            if self._is_so(intent):
                work = self.prepare(intent.kind, intent.namespace, intent.name, intent.after)
                try:
                    await within(self._clock, BUDGET, work)
                except (TimeoutError, ApiError, ConfigError) as error:
                    log.warning("%s/%s: costs for %d: %s", intent.namespace, intent.name, intent.after, error)
            return await hold(intent)

        return both

    def _is_so(self, intent: Intent) -> bool:
        """Anyone who reaches the webhook can send it a review: it must fit what is known of the workload."""
        known = self._view.workload(intent.kind, intent.namespace, intent.name)
        if known is None or (intent.uid and known.metadata.uid != intent.uid):
            return False
        replicas = known.spec.replicas
        return intent.after < (1 if replicas is None else replicas)

    async def prepare(self, kind: str, namespace: str, name: str, replicas: int) -> int:
        """Have the costs of a workload's pods be those of this size; how many had to be written.

        Returns when they have been seen. It takes no longer than writing them does: whoever holds a request bounds it.
        """
        changes = list(self._changes(kind, namespace, name, replicas))
        if not changes:
            return 0
        written = await self._scribe.write(changes, reason="aimed")
        seen = [self._view.pods.seen(key_of(pod), pod.metadata.resource_version) for pod in written]
        await asyncio.gather(*seen)
        await self._clock.sleep(self._settle)
        return len(written)

    def _changes(self, kind: str, namespace: str, name: str, replicas: int) -> Iterator[tuple[Pod, Change]]:
        bands = self._levels(kind, namespace, name, replicas=replicas)
        until = self._clock.now() // SECOND + BELIEVED
        for key, band in (bands or {}).items():
            pod = self._view.pods.get(Key(key))
            change = {} if pod is None else costs.cost_change(pod.metadata.annotations, band)
            if pod is not None and change:
                yield pod, change | {costs.AIMED: f"{replicas}@{until}"}
