"""Operations on nodes: fail, recover, cordon, uncordon, drain.

Each only changes objects, so it may come from any process: the simulation reacts to it. A drain does what `kubectl
drain --ignore-daemonsets --delete-emptydir-data --force` does: it cordons, requests the eviction of each pod, retries
while a disruption budget refuses, and waits until the pods are gone. As with kubectl, finished pods go and those of
DaemonSets stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, Forbidden, NotFound, TooManyRequests
from trimtab_lab.nodes.simulatednodes import FAILED
from trimtab_lab.nodes.views import NODE_WRITES

RETRY_SECONDS = 5.0
"""Seconds before a drain retries an eviction that a budget has refused."""
POLL_SECONDS = 1.0
_CONCURRENCY = 16

MIRROR = "kubernetes.io/config.mirror"

log = logging.getLogger(__name__)


async def fail(client: Client, names: Iterable[str]) -> dict[str, str]:
    """Make these nodes fail: no heartbeats, and their pods are not touched. Returns the resource versions by name."""
    return await _patch_all(client, names, {"metadata": {"annotations": {FAILED: "true"}}})


async def recover(client: Client, names: Iterable[str]) -> dict[str, str]:
    """Let these nodes recover."""
    return await _patch_all(client, names, {"metadata": {"annotations": {FAILED: None}}})


async def cordon(client: Client, names: Iterable[str]) -> dict[str, str]:
    """Mark these nodes as unschedulable."""
    return await _patch_all(client, names, {"spec": {"unschedulable": True}})


async def uncordon(client: Client, names: Iterable[str]) -> dict[str, str]:
    """Mark these nodes as schedulable."""
    return await _patch_all(client, names, {"spec": {"unschedulable": None}})


async def drain(client: Client, names: Iterable[str], *, grace_period_seconds: int | None = None) -> None:
    """Cordon these nodes and evict their pods; returns when they are gone. Limit it with `clocks.within`."""
    names = list(names)
    await cordon(client, names)
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def evict(pod: Pod) -> None:
        async with slots:
            await _evict(client, pod, grace_period_seconds)

    pods = [pod for name in names for pod in await _pods_of(client, name)]
    await asyncio.gather(*(evict(pod) for pod in pods))
    await asyncio.gather(*(_wait_gone(client, pod) for pod in pods))


async def _pods_of(client: Client, node: str) -> list[Pod]:
    """The pods of a node that a drain removes."""
    page = await client.list(Pod, field_selector=f"spec.nodeName={node}")
    return [pod for pod in page.items if pod.spec.node_name == node and not _is_skipped(pod)]


def _is_skipped(pod: Pod) -> bool:
    """Whether a drain skips a pod: a DaemonSet would recreate it, and a mirror pod only shows a static one."""
    owner = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet" and not pod.finished)


async def _evict(client: Client, pod: Pod, grace: int | None) -> None:
    metadata = pod.metadata
    while True:
        try:
            await client.evict(
                metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_period_seconds=grace
            )
        except TooManyRequests as error:
            wait = max(error.retry_after or 0.0, RETRY_SECONDS)
            log.info("%s: %s; retrying in %g s", pod.key, error.message, wait)
            await client.clock.sleep(wait)
        except (NotFound, Conflict):
            return
        except Forbidden as error:
            if not error.is_namespace_terminating:
                raise
            return  # it is deleted with its namespace
        else:
            return


async def _wait_gone(client: Client, pod: Pod) -> None:
    metadata = pod.metadata
    while True:
        try:
            held = await client.get(Pod, metadata.name, namespace=metadata.namespace)
        except NotFound:
            return
        if held.metadata.uid != metadata.uid:
            return
        await client.clock.sleep(POLL_SECONDS)


async def _patch_all(client: Client, names: Iterable[str], patch: JSON) -> dict[str, str]:
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def patch_one(name: str) -> tuple[str, str]:
        async with slots:
            answer = await client.patch(NODE_WRITES, name, patch)
        return name, answer.metadata.resource_version

    return dict(await asyncio.gather(*(patch_one(name) for name in names)))
