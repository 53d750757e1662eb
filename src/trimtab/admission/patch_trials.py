"""The patches of subsets, tried on the pods of their target.

1. By rule: the template of the target, as each subset shapes it, has no mistake for which an API server refuses pods.
2. By the API server: the template's own pod and then each shaped pod is created as a dry run, which stores nothing. If
   the first is accepted, what is refused of the others (an invalid field, a pod security standard, a PriorityClass that
   does not exist) is the subset's mistake; quotas aside. Where dry runs are not permitted, or take too long, the rules
   have to do.

Without the target there is no template: then only what the patch itself shows is checked (`unitedtopology.problems`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import Subset, UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import ApiError, BadRequest, ConfigError, Forbidden, Invalid
from trimtab.kube.resources import Resource
from trimtab.subsets import shaping

_KINDS: Mapping[str, Resource[JSON]] = {
    "Deployment": Resource.of(Deployment).raw,
    "ReplicaSet": Resource.of(ReplicaSet).raw,
    "CloneSet": Resource.of(CloneSet).raw,
}
_SECONDS = 1.2
"""How long all dry runs of a UnitedTopology may take; the review has a budget of two seconds."""
_AT_ONCE = 8
_QUOTA = "exceeded quota"


async def patch_problems(
    topology: UnitedTopology,
    client: Client,
    *,
    namespace: str,
    allowed_fields: Collection[str],
    owners: ReplicaSetOwners = DEPLOYMENTS,
) -> Sequence[InvalidError]:
    """What API servers would refuse about the pods of the subsets, with paths such as `spec.subsets[0].patch.spec`."""
    if not any(map(_has_changes, topology.spec.subsets)):
        return []
    template = await _pod_of_target(topology, client, namespace, owners)
    if template is None:
        return []
    shaped: dict[int, JSON] = {}
    problems: list[InvalidError] = []
    for index, subset in enumerate(topology.spec.subsets):
        if not _has_changes(subset):
            continue
        annotations = SubsetAnnotations(topology.metadata.name, subset.name, "dry-run")
        try:
            shaped[index] = shaping.shape(template, subset, annotations, allowed_fields=allowed_fields)
        except InvalidError as error:
            problems.append(error.under(f"spec.subsets[{index}]"))
    return problems or await _dry_runs(template, shaped, client, namespace)


def _has_changes(subset: Subset) -> bool:
    return subset.patch is not None or bool(subset.tolerations) or subset.node_selector_term is not None


async def _pod_of_target(
    topology: UnitedTopology, client: Client, namespace: str, owners: ReplicaSetOwners
) -> JSON | None:
    """A pod as the target's controller creates it; None where there is no such workload, or it has no template."""
    reference = topology.spec.target_ref
    custom = owners.by_kind.get(reference.kind)
    kind = _KINDS.get(reference.kind) if custom is None else Resource.of(custom).raw
    if kind is None:
        return None
    try:
        workload = await client.get(kind, reference.name, namespace=namespace)
    except ApiError:
        return None
    template = (workload.get("spec") or {}).get("template") or {}
    if not template:
        return None
    metadata = template.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    generated = {"generateName": f"{reference.name}-", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **generated}, "spec": template.get("spec") or {}}


async def _dry_runs(template: JSON, shaped: dict[int, JSON], client: Client, namespace: str) -> Sequence[InvalidError]:
    """What the API server refuses of the shaped pods, if it does not refuse the template's own."""
    refused: dict[int, ApiError] = {}
    waiting = iter(shaped.items())

    async def attempt() -> None:
        for index, pod in waiting:
            error = await _refusal(pod, client, namespace)
            if error is not None and _QUOTA not in error.message:
                refused[index] = error

    async def attempt_all() -> None:
        if shaped and await _refusal(template, client, namespace) is None:
            await asyncio.gather(*(attempt() for _ in range(_AT_ONCE)))

    with contextlib.suppress(TimeoutError, ApiError, ConfigError):
        await within(client.clock, _SECONDS, attempt_all())
    return [
        InvalidError(f"spec.subsets[{index}]", f"the API server would refuse its pods: {error.message}")
        for index, error in sorted(refused.items())
    ]


async def _refusal(pod: JSON, client: Client, namespace: str) -> ApiError | None:
    """Why the API server would refuse a pod; None where it would not. Raises what says nothing about the pod."""
    try:
        await client.create(Pod, pod, namespace=namespace, dry_run=True)
    except (Invalid, BadRequest, Forbidden) as error:
        return error
    return None
