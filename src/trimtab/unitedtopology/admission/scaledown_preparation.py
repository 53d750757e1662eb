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
from collections.abc import Iterable, Iterator

from trimtab.api.annotations import AIMED_SIZE
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import ApiError, ConfigError
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of
from trimtab.ranking.costs import Band
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.levels import Levels
from trimtab.unitedtopology.pod_annotator import Scribe
from trimtab.unitedtopology.view import View

SETTLE = 0.3
"""Seconds that other controllers are given to see what was written."""
BELIEVED = 15
"""Seconds for which a request that is held may still take effect."""

log = logging.getLogger(__name__)


class Foresight:
    """Writes costs ahead of a scale-down."""

    def __init__(self, view: View, levels: Levels, scribe: Scribe, clock: Clock, *, settle: float = SETTLE) -> None:
        self._view = view
        self._levels = levels
        self._scribe = scribe
        self._clock = clock
        self._settle = settle

    async def prepare(self, kind: str, namespace: str, name: str, replicas: int) -> int:
        """Have the costs of a workload's pods be those of this size; how many were written.

        Returns when they have been seen; whoever holds a request bounds how long that may take. What cannot be written
        is left as it is: nobody is kept from scaling.
        """
        changes = _interleaved(self._changes(kind, namespace, name, replicas)) if replicas > 0 else []
        if not changes:
            return 0
        try:
            written = await self._scribe.write(changes, reason="aimed")
        except (ApiError, ConfigError) as error:
            log.warning("%s/%s: costs for %d pods could not be written: %s", namespace, name, replicas, error)
            return 0
        seen = [self._view.pods.wait_seen(key_of(pod), pod.metadata.resource_version) for pod in written]
        await asyncio.gather(*seen)
        await self._clock.sleep(self._settle)
        return len(written)

    def _changes(self, kind: str, namespace: str, name: str, replicas: int) -> Iterator[tuple[Band, Pod, Change]]:
        bands = self._levels(kind, namespace, name, replicas=replicas)
        until = self._clock.now() // SECOND + BELIEVED
        for key, band in (bands or {}).items():
            pod = self._view.pods.get(Key(key))
            change = {} if pod is None else costs.aimed_change(pod.metadata.annotations, band)
            if pod is not None and change:
                yield band, pod, change | {AIMED_SIZE: costs.noted(replicas, until)}


def _interleaved(changes: Iterable[tuple[Band, Pod, Change]]) -> list[tuple[Pod, Change]]:
    """Those who go before those who stay, and of every subset the same share: if time runs out, what was written by
    then is the plan on a smaller scale."""
    groups: dict[Band, list[tuple[Pod, Change]]] = {}
    for band, pod, change in changes:
        groups.setdefault(band, []).append((pod, change))
    placed = [
        (band.centre >= 0, (at + 1) / len(group), band.centre, entry)
        for band, group in groups.items()
        for at, entry in enumerate(group)
    ]
    return [entry for *_, entry in sorted(placed, key=lambda each: each[:3])]
