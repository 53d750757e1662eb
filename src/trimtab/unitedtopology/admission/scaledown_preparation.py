"""Costs for the target size of a scale-down, written before the workload shrinks.

A percentage of 9 pods is more than of 3. The controller that shrinks a workload in one step uses the costs that exist
then; with those of the old size, all pods would be Guaranteed, and the later subsets would be emptied before the first.
So the component that holds the scale request calls this first: the bands for the target size are written, observed by
our own watch, and given a settle time to reach other watches.

Such a cost has an annotation with its size and expiry (`trimtab.dev/aimed-size`). If the request does not take effect,
the controller finds the annotation expired, and restores the costs for the current size. There is no other state: any
process may hold the request, and any may end at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from trimtab.api.annotations import AIMED_SIZE
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of
from trimtab.ranking.costs import Band
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.levels import Levels
from trimtab.unitedtopology.pod_annotator import PodAnnotator
from trimtab.unitedtopology.view import View

SETTLE = 0.3
"""Seconds for the watches of other controllers to deliver the costs."""
VALID_SECONDS = 15
"""How long a held request may still take effect."""


class ScaleDownPreparation:
    """Writes costs before a scale-down."""

    def __init__(
        self, view: View, levels: Levels, annotator: PodAnnotator, clock: Clock, *, settle: float = SETTLE
    ) -> None:
        self._view = view
        self._levels = levels
        self._annotator = annotator
        self._clock = clock
        self._settle = settle

    async def prepare(self, kind: str, namespace: str, name: str, replicas: int) -> int:
        """Write the costs of a workload's pods for this size, and return how many were written.

        Returns when our own watch has delivered them; the caller limits the time. Raises ApiError or ConfigError if
        they cannot be written.
        """
        if replicas <= 0:
            return 0
        await self._levels.wait_validated(kind, namespace, name)
        await self._levels.match_pods(kind, namespace, name)
        changes = _interleaved(self._changes(kind, namespace, name, replicas))
        if not changes:
            return 0
        written = await self._annotator.write(changes, reason="scale-down")
        seen = [self._view.pods.wait_seen(key_of(pod), pod.metadata.resource_version) for pod in written]
        await asyncio.gather(*seen)
        await self._clock.sleep(self._settle)
        return len(written)

    def _changes(self, kind: str, namespace: str, name: str, replicas: int) -> Iterator[tuple[Band, Pod, Change]]:
        bands = self._levels(kind, namespace, name, replicas=replicas)
        until = self._clock.now() // SECOND + VALID_SECONDS
        for key, band in (bands or {}).items():
            pod = self._view.pods.get(Key(key))
            change = {} if pod is None else costs.target_size_change(pod.metadata.annotations, band)
            if pod is not None and change:
                yield band, pod, change | {AIMED_SIZE: costs.target_size_text(replicas, until)}


def _interleaved(changes: Iterable[tuple[Band, Pod, Change]]) -> list[tuple[Pod, Change]]:
    """Pods to delete before pods to keep, and of every subset the same share: if time runs out, the costs written by
    then have the same effect on a smaller scale."""
    groups: dict[Band, list[tuple[Pod, Change]]] = {}
    for band, pod, change in changes:
        groups.setdefault(band, []).append((pod, change))
    ordered = [
        (band.centre >= 0, (index + 1) / len(group), band.centre, entry)
        for band, group in groups.items()
        for index, entry in enumerate(group)
    ]
    return [entry for *_, entry in sorted(ordered, key=lambda each: each[:3])]
