"""The patches of subsets, tried on the pods of their target.

1. By rule: the template of the target, as each subset shapes it, has no mistake for which an API server refuses pods.
2. By the API server: the template's own pod and then each shaped pod is created as a dry run, which stores nothing. If
   the first is accepted, what is refused of the others (an invalid field, a pod security standard, a PriorityClass that
   does not exist) is the subset's mistake; quotas aside. Where dry runs are not permitted, the rules have to do.

Both end after a time, because a subset may need a tenth of a second: what was not tried by then is a warning. Other
tasks run between two trials, and pods of large templates are shaped in another thread.

Without the target there is no template: then only what the patch itself shows is checked (`unitedtopology.problems`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from trimtab.admission.findings import Findings
from trimtab.api import codec
from trimtab.api.annotations import Reason, SubsetAnnotations
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
from trimtab.kube.threads import read_beside
from trimtab.subsets import shaping

_KINDS: Mapping[str, Resource[JSON]] = {
    "Deployment": Resource.of(Deployment).raw,
    "ReplicaSet": Resource.of(ReplicaSet).raw,
    "CloneSet": Resource.of(CloneSet).raw,
}
_SECONDS = 1.2
"""How long all trials of a UnitedTopology may take; the review has a budget of two seconds."""
_AT_ONCE = 8
_QUOTA = "exceeded quota"


async def try_patches(
    topology: UnitedTopology,
    client: Client,
    *,
    namespace: str,
    allowed_fields: Collection[str],
    owners: ReplicaSetOwners = DEPLOYMENTS,
) -> Findings:
    """What API servers would refuse about the pods of the subsets, with paths such as `spec.subsets[0].patch.spec`;
    and a warning if there was no time to try them all."""
    changed = {index: each for index, each in enumerate(topology.spec.subsets) if _has_changes(each)}
    template = await _pod_of_target(topology, client, namespace, owners) if changed else None
    if template is None:
        return Findings()
    trials = _Trials(topology, changed, template, client, namespace, allowed_fields)
    with contextlib.suppress(TimeoutError, ApiError, ConfigError):
        await within(client.clock, _SECONDS, trials.run())
    return trials.findings()


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


class _Trials:
    """The trials of one UnitedTopology, which may end at any time.

    A pod is shaped for each trial and not kept: a thousand pods of a large template take gigabytes.
    """

    def __init__(
        self,
        topology: UnitedTopology,
        changed: Mapping[int, Subset],
        template: JSON,
        client: Client,
        namespace: str,
        allowed_fields: Collection[str],
    ) -> None:
        """`changed` are the subsets that change pods, by their indexes."""
        self._topology = topology
        self._changed = changed
        self._template = template
        self._size = len(codec.encode(template))
        self._client = client
        self._namespace = namespace
        self._allowed_fields = allowed_fields
        self._turn = asyncio.Lock()
        self._problems: dict[int, InvalidError] = {}
        self._untried = dict(changed)
        """The subsets whose trials have not ended."""

    async def run(self) -> None:
        """Try all subsets by the rules, then by dry runs if the template's own pod is accepted."""
        for index in self._changed:
            try:
                await self._shaped(index)
            except InvalidError as error:
                self._problems[index] = error.under(f"spec.subsets[{index}]")
            del self._untried[index]
        if not self._problems:
            self._untried = dict(self._changed)
            await self._try_dry_runs()

    def findings(self) -> Findings:
        """What was found so far."""
        problems = [problem for _, problem in sorted(self._problems.items())]
        return Findings(problems, (self._warning(),) if self._untried else ())

    async def _try_dry_runs(self) -> None:
        waiting = iter(self._changed)
        try:
            if await _refusal(self._template, self._client, self._namespace) is None:
                await asyncio.gather(*(self._try_each(waiting) for _ in range(_AT_ONCE)))
        except (ApiError, ConfigError):
            list(waiting)  # what is being tried beside ends with that
        self._untried.clear()

    async def _try_each(self, waiting: Iterator[int]) -> None:
        for index in waiting:
            error = await _refusal(await self._shaped(index), self._client, self._namespace)
            if error is not None and _QUOTA not in error.message:
                reason = f"the API server would refuse its pods: {error.message}"
                self._problems[index] = InvalidError(f"spec.subsets[{index}]", reason)
            self._untried.pop(index, None)

    async def _shaped(self, index: int) -> JSON:
        """The template's pod as a subset shapes it: one at a time, and a large one in another thread."""
        subset = self._changed[index]
        size = self._size + (len(subset.patch.text) if subset.patch is not None else 0)
        annotations = SubsetAnnotations(self._topology.metadata.name, subset.name, "dry-run")
        shape = partial(shaping.shape, self._template, subset, annotations, allowed_fields=self._allowed_fields)
        async with self._turn:
            await asyncio.sleep(0)
            return await read_beside(size, shape)

    def _warning(self) -> str:
        first = next(iter(self._untried.values())).name
        reference = self._topology.spec.target_ref
        return (
            f"{len(self._untried)} subsets (such as {first}) could not be tried on a pod of {reference.kind} "
            f"{reference.name} within {_SECONDS:g} s; a pod to which the patch of its subset does not apply is "
            f"admitted without a subset (event {Reason.PATCH_FAILED})"
        )


async def _refusal(pod: JSON, client: Client, namespace: str) -> ApiError | None:
    """Why the API server would refuse a pod; None where it would not. Raises what says nothing about the pod."""
    try:
        await client.create(Pod, pod, namespace=namespace, dry_run=True)
    except (Invalid, BadRequest, Forbidden) as error:
        return error
    return None
