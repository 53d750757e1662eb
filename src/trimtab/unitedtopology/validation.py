"""Validation of large UnitedTopologies, outside the event loop.

What waits for the result calls `validate_large`. What cannot wait, the levels of pods in a scale-down, uses
`BackgroundValidation`: it validates each large generation as soon as that is seen, and until then it does not apply. A
request to scale down waits for that (`scaledown_preparation`), within its budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from trimtab.api import codec, unitedtopology
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.caches import Cache

_LARGE = 16_384
"""Bytes of a spec from which on validating it takes long."""

log = logging.getLogger(__name__)


async def validate_large(
    topology: UnitedTopology, *, allowed_fields: Collection[str] = (), owners: ReplicaSetOwners = DEPLOYMENTS
) -> None:
    """Validate a UnitedTopology in another thread if it is large; then the result is known.

    A thousand subsets with patches of a KiB take a second, in which the event loop could do nothing else.
    """
    if is_large(topology):
        problems = unitedtopology.problems(topology, allowed_fields=allowed_fields, owners=owners)
        await asyncio.to_thread(list, problems)


def is_large(topology: UnitedTopology) -> bool:
    """Whether validating a UnitedTopology may take long."""
    return len(codec.encode(topology.spec)) > _LARGE


class BackgroundValidation:
    """Validates the large UnitedTopologies of a cache when they appear, and when their spec changes."""

    def __init__(
        self,
        topologies: Cache[UnitedTopology],
        *,
        allowed_fields: Collection[str] = (),
        owners: ReplicaSetOwners = DEPLOYMENTS,
    ) -> None:
        self._allowed_fields = allowed_fields
        self._owners = owners
        self._running: dict[tuple[str, int], asyncio.Future[None]] = {}
        """By UID and generation."""
        topologies.subscribe(added=self._seen, updated=self._changed)

    def is_running(self, topology: UnitedTopology) -> bool:
        """Whether a UnitedTopology is being validated: to ask for the result would compute it at once."""
        return _generation(topology) in self._running

    async def wait(self, topology: UnitedTopology) -> None:
        """Wait until a UnitedTopology has been validated, if it is being validated."""
        running = self._running.get(_generation(topology))
        if running is not None:
            await asyncio.wait((running,))

    def _changed(self, old: UnitedTopology, new: UnitedTopology) -> None:
        if _generation(old) != _generation(new):
            self._seen(new)

    def _seen(self, topology: UnitedTopology) -> None:
        if is_large(topology):
            task = asyncio.ensure_future(self._validate(topology))
            self._running[_generation(topology)] = task

    async def _validate(self, topology: UnitedTopology) -> None:
        metadata = topology.metadata
        log.info(
            "UnitedTopology %s/%s is large: its subsets count in scale-downs once it is validated",
            metadata.namespace,
            metadata.name,
        )
        try:
            await validate_large(topology, allowed_fields=self._allowed_fields, owners=self._owners)
        finally:
            self._running.pop(_generation(topology), None)


def _generation(topology: UnitedTopology) -> tuple[str, int]:
    return topology.metadata.uid, topology.metadata.generation
