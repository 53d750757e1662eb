"""Cleanups: what Trimtab wrote to other objects, found by listing the cluster, and reverted.

Each cleanup may be run at any time and repeated, needs no running Trimtab, and keeps what others have written since.
Their order matters: reverting a plan's cost restores the previous one, which may be a policy's or a subset's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from trimtab.api.annotations import NAMESPACE_LABEL
from trimtab.api.core import Namespace
from trimtab.api.pods import Pod
from trimtab.install.installations import Scope
from trimtab.kube import unreadable
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, IncompleteSweep, NotFound
from trimtab.scaledown import cost_writer
from trimtab.scaledown.continuous import sweeps as continuous
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.pod_annotator import PodAnnotator

Cleanup = Callable[..., Awaitable[int]]
"""Reverts something in all namespaces, or in those that `includes` names; the number of changed objects.

Raises IncompleteSweep, after all objects have been tried, if some could not be changed.
"""

_ATTEMPTS = 5


def everywhere(_: str) -> bool:
    """The scope of a cleanup that includes all namespaces."""
    return True


async def subsets(client: Client, *, includes: Scope = everywhere) -> int:
    """Remove the annotations and costs of subsets. Pods stay where they are."""
    count, failed = 0, dict[str, str]()
    annotator = PodAnnotator(client, Metrics())
    for _ in range(_ATTEMPTS):
        pods = [pod for pod in await _pods(client, includes, failed) if f"pod {pod.key}" not in failed]
        changes = [(pod, costs.revert_change(pod)) for pod in pods]
        if not any(change for _, change in changes):
            break
        try:
            count += len(await annotator.write(changes, reason="sweep"))
        except IncompleteSweep as error:
            count += error.count
            failed.update(error.failed)
    else:
        failed["some pods of subsets"] = f"gave up after {_ATTEMPTS} conflicting updates; run this again"
    if failed:
        raise IncompleteSweep(failed, count=count)
    return count


async def _pods(client: Client, includes: Scope, failed: dict[str, str]) -> list[Pod]:
    """The pods that are not terminating; those that cannot be read go into `failed`."""
    found: list[Pod] = []
    async for page in client.pages(Pod):
        failed |= unreadable.sweep_failures("pod", page.rejected, includes)
        found += [pod for pod in page.items if not pod.terminating and includes(pod.metadata.namespace)]
    return found


async def namespace_labels(client: Client, *, includes: Scope = everywhere) -> int:
    """Remove the label of namespaces with a UnitedTopology."""
    labelled = await client.list(Namespace, label_selector=NAMESPACE_LABEL)
    names = [each.metadata.name for each in labelled.items if includes(each.metadata.name)]
    failed: dict[str, str] = {}
    for name in names:
        try:
            await client.patch(Namespace, name, {"metadata": {"labels": {NAMESPACE_LABEL: None}}})
        except NotFound:
            continue
        except ApiError as error:
            failed[f"namespace {name}"] = str(error)
    count = len(names) - len(failed)
    failed |= unreadable.sweep_failures("namespace", labelled.rejected, includes)
    if failed:
        raise IncompleteSweep(failed, count=count)
    return count


CLEANUPS: Mapping[str, Cleanup] = {
    "costs of scale-downs": cost_writer.sweep,
    "costs kept current by policies": continuous.sweep,
    "annotations and costs of subsets": subsets,
    "labels of namespaces": namespace_labels,
}
"""By what they revert, in order."""


def cleanups_in(scope: Scope) -> dict[str, Cleanup]:
    """The cleanups of the namespaces in a scope."""
    return {what: partial(cleanup, includes=scope) for what, cleanup in CLEANUPS.items()}
