"""Validation of large UnitedTopologies, outside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from trimtab.api import codec, unitedtopology
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners

_LARGE = 16_384
"""Bytes of a spec from which on validating it takes long."""


async def validate_large(
    topology: UnitedTopology, *, allowed_fields: Collection[str] = (), owners: ReplicaSetOwners = DEPLOYMENTS
) -> None:
    """Validate a UnitedTopology in another thread if it is large; then the result is known.

    A thousand subsets with patches of a KiB take a second, in which the event loop could do nothing else.
    """
    if len(codec.encode(topology.spec)) > _LARGE:
        problems = unitedtopology.problems(topology, allowed_fields=allowed_fields, owners=owners)
        await asyncio.to_thread(list, problems)
