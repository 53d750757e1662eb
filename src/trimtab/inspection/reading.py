"""Reads a cluster with list rights alone.

A kind that may not be listed in the whole cluster is listed in the namespace asked about. What is forbidden there too
becomes a `Gap`: the rest is shown, and the gap says what is missing. A kind that is not installed is no gap, unless a
configuration names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from trimtab.api.workloads import CustomWorkload
from trimtab.inspection.cluster import KINDS, Cluster, Gap, KindInfo, info_of
from trimtab.inspection.contents import trimmed
from trimtab.kube.client import Client
from trimtab.kube.errors import Forbidden, Gone, NotFound
from trimtab.kube.resources import Resource

PAGE = 2000
_RESTARTS = 3
Progress = Callable[[str, int], None]
"""Called with the plural of a kind and how many of its objects have been read."""

ALL = tuple(each.model for each in KINDS)


async def read(
    client: Client,
    *,
    namespace: str,
    kinds: Iterable[type[Any]] = ALL,
    origin: str = "",
    progress: Progress | None = None,
) -> Cluster:
    """The cluster as it is now. Raises the errors of `kube` where the cluster cannot be reached."""
    infos = [info_of(kind) for kind in kinds]
    found = await asyncio.gather(*(_listed(client, info, namespace, progress or _silent) for info in infos))
    return Cluster(
        time=client.server_time.now(),
        objects={info.model: objects for info, (objects, _) in zip(infos, found, strict=True)},
        gaps=tuple(gap for _, gaps in found for gap in gaps),
        origin=origin,
        namespace=namespace,
    )


async def readable(
    client: Client, *, namespace: str, kinds: Iterable[type[Any]]
) -> tuple[str, list[type[Any]], tuple[Gap, ...]]:
    """The namespace to follow (empty for all), the kinds that may be listed there, and what is missing."""
    infos = [info_of(kind) for kind in kinds]
    answers = [await _probed(client, info, "") for info in infos]
    refused = {info.plural for info, answer in zip(infos, answers, strict=True) if isinstance(answer, Forbidden)}
    scope = namespace if "pods" in refused else ""
    found: list[type[Any]] = []
    gaps: list[Gap] = []
    for info, answer in zip(infos, answers, strict=True):
        is_scoped = bool(scope) and Resource.of(info.model).namespaced
        final = await _probed(client, info, scope) if is_scoped else answer
        if final is None:
            found.append(info.model)
        elif isinstance(final, NotFound):
            gaps += _absence(info)
        else:
            gaps.append(_gap(info, f"namespace {scope}" if is_scoped else "cluster", final, info.without))
        if is_scoped and info.plural == "pods" and final is None and isinstance(answer, Forbidden):
            gaps.append(_gap(info, "other namespaces", answer, f"only namespace {scope} is followed"))
    return scope, found, tuple(gaps)


async def _probed(client: Client, info: KindInfo, namespace: str) -> Forbidden | NotFound | None:
    """Why a kind cannot be listed; None where it can."""
    pages = client.pages(Resource.of(info.model), namespace=namespace, limit=1)
    try:
        async with aclosing(pages):
            await anext(pages)
    except (Forbidden, NotFound) as error:
        return error
    return None


async def _listed(
    client: Client, info: KindInfo, namespace: str, progress: Progress
) -> tuple[Sequence[Any], tuple[Gap, ...]]:
    """The objects of a kind: of the whole cluster, or of the namespace, and what is missing."""
    resource: Resource[Any] = Resource.of(info.model)
    try:
        return await _all(client, resource, "", progress), ()
    except NotFound:
        return (), _absence(info)
    except Forbidden as error:
        refused = error
    if not resource.namespaced or not namespace:
        return (), (_gap(info, "cluster", refused, info.without),)
    try:
        found = await _all(client, resource, namespace, progress)
    except NotFound:
        return (), ()
    except Forbidden as error:
        return (), (_gap(info, f"namespace {namespace}", error, info.without),)
    return found, (_gap(info, "other namespaces", refused, f"only those of namespace {namespace} are considered"),)


async def _all(client: Client, resource: Resource[Any], namespace: str, progress: Progress) -> list[Any]:
    for _ in range(_RESTARTS):
        try:
            return await _pages(client, resource, namespace, progress, PAGE)
        except Gone:
            continue
    return await _pages(client, resource, namespace, progress, 0)


async def _pages(client: Client, resource: Resource[Any], namespace: str, progress: Progress, limit: int) -> list[Any]:
    found: list[Any] = []
    pages = client.pages(resource, namespace=namespace, limit=limit)
    async with aclosing(pages):
        async for page in pages:
            found += map(trimmed, page.items)
            progress(resource.plural, len(found))
    return found


def _absence(info: KindInfo) -> tuple[Gap, ...]:
    """The gap of a kind that a configuration names and the cluster does not have."""
    if not issubclass(info.model, CustomWorkload):
        return ()
    reason = f"the cluster does not serve {info.model.named_as.api_version} {info.model.named_as.kind}"
    return (Gap(resource=info.plural, scope="cluster", reason=reason, effect=info.without),)


def _gap(info: KindInfo, scope: str, error: Forbidden, effect: str) -> Gap:
    reason = f"may not be listed ({error})"
    return Gap(resource=info.plural, scope=scope, reason=reason, effect=effect)


def _silent(_: str, __: int) -> None:
    """Progress that is not shown."""
