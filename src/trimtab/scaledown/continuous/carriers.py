"""Where costs that are kept current are written: an annotation of each pod, or one object for the whole group.

| carrier | where | who goes first | who reads it |
|---|---|---|---|
| `Annotation` | `controller.kubernetes.io/pod-deletion-cost` | the lower | every built-in controller, CloneSets |
| `AlphaAnnotation` | `scheduling.alpha.kubernetes.io/cost` | the higher | Trimtab's CloneSets, with `CloneSetPodCost` |
| `PodGroupCost` | a PodGroupCost of the group | the higher | Trimtab's CloneSets, with `CloneSetPodCost` |

**Whose cost is it?** In an annotation, a mark beside the cost says that a policy wrote it, what it wrote, and what
stood there before. A cost is ours while it is exactly that; whoever changes it has made it theirs, and then only our
mark goes. What a subset wrote is Trimtab's own, and its band is kept to; what a scale-down that is under way wrote is
left until it is over. A PodGroupCost is ours if it bears our annotation.

**Taking back** needs nobody's memory: marks are found on pods, objects by their annotation. There is no finalizer: what
is not taken back because nobody is there to do so hurts nobody, and `sweep` finds it.

All patches hold for the version of the object that was looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from trimtab.api import codec
from trimtab.api.annotations import (
    ALPHA_COST,
    DELETION_COST,
    POLICY_COST,
    RANKED_AMONG,
    SCALE_PLAN,
    SUBSET_COST,
    PolicyCostAnnotation,
    fingerprint,
    policy_cost_annotation,
)
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.api.scaledown import API_VERSION, GROUP_COST_KIND, PodGroupCost
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, ApiError, ConfigError, Conflict, NotFound
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Resource
from trimtab.ranking.costs import Band, Carrier
from trimtab.scaledown.metrics import Metrics

ANNOTATIONS: Mapping[Carrier, str] = {Carrier.ANNOTATION: DELETION_COST, Carrier.ALPHA_ANNOTATION: ALPHA_COST}
OWN_ANNOTATIONS = frozenset({POLICY_COST, RANKED_AMONG, DELETION_COST, ALPHA_COST})
"""What is written here: a change in nothing else is no news."""

AT_ONCE = 8
"""How many pods are written to at a time."""
_ATTEMPTS = 3


class Author(enum.Enum):
    """Whose the cost of a pod is, under one carrier."""

    NOBODY = "nobody"
    POLICY = "policy"
    SUBSET = "subset"
    PLAN = "plan"
    OTHERS = "others"


def mark_of(pod: Pod) -> PolicyCostAnnotation | None:
    """The policy that wrote the cost of a pod, if there is one that can be read."""
    return policy_cost_annotation(pod.metadata.annotations)


def own_cost(pod: Pod) -> int | None:
    """The cost that a policy wrote, if it stands there as written."""
    mark = mark_of(pod)
    if mark is None or mark.carrier not in list(Carrier):
        return None
    name = ANNOTATIONS.get(Carrier(mark.carrier), "")
    return mark.cost if pod.metadata.annotations.get(name) == str(mark.cost) else None


def author(pod: Pod, carrier: Carrier) -> Author:
    """Who gave a pod the cost that it has."""
    annotations = pod.metadata.annotations
    if SCALE_PLAN in annotations:
        return Author.PLAN
    text = annotations.get(ANNOTATIONS[carrier])
    if text is None:
        return Author.NOBODY
    mark = mark_of(pod)
    if mark is not None and mark.carrier == carrier and own_cost(pod) is not None:
        return Author.POLICY
    ours = carrier is Carrier.ANNOTATION and annotations.get(SUBSET_COST) == text
    return Author.SUBSET if ours else Author.OTHERS


def cost_of(number: int, carrier: Carrier, band: Band) -> int:
    """A number that rises with rank, as this carrier counts, inside of a band."""
    return -carrier.sign * band.place(-number)


def number_of(cost: int, carrier: Carrier, band: Band) -> int:
    """The number that a cost stands for; one from another band is too large to be any."""
    return band.centre + carrier.sign * cost


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pod is to cost."""

    pod: Pod
    policy: str
    carrier: Carrier
    cost: int
    among: str | None = None


def inscription(wanted: Cost) -> JSON | None:
    """The patch that gives a pod its cost; None where it has it already, or it is not ours to give."""
    pod, carrier = wanted.pod, wanted.carrier
    annotations = pod.metadata.annotations
    whose = author(pod, carrier)
    if whose in (Author.PLAN, Author.OTHERS):
        return None
    known = mark_of(pod)
    if whose is Author.POLICY and own_cost(pod) == wanted.cost and annotations.get(RANKED_AMONG) == wanted.among:
        return None
    before = known.before if known is not None and whose is Author.POLICY else annotations.get(ANNOTATIONS[carrier])
    mark = PolicyCostAnnotation(policy=wanted.policy, carrier=carrier.value, cost=wanted.cost, before=before)
    change: dict[str, str | None] = {
        ANNOTATIONS[carrier]: str(wanted.cost),
        POLICY_COST: codec.encode(mark).decode(),
    }
    if annotations.get(RANKED_AMONG) != wanted.among:
        change[RANKED_AMONG] = wanted.among
    return _patch(pod, change)


def erasure(pod: Pod) -> JSON | None:
    """The patch that puts a pod back as it was before; None where nothing of ours is on it."""
    annotations = pod.metadata.annotations
    if POLICY_COST not in annotations and RANKED_AMONG not in annotations:
        return None
    change: dict[str, str | None] = {name: None for name in (POLICY_COST, RANKED_AMONG) if name in annotations}
    mark = mark_of(pod)
    if mark is not None and own_cost(pod) is not None:
        change[ANNOTATIONS[Carrier(mark.carrier)]] = mark.before
    return _patch(pod, change)


def _patch(pod: Pod, change: Mapping[str, str | None]) -> JSON:
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": dict(change)}}


@dataclass(slots=True)
class Report:
    """What came of writing."""

    written: int = 0
    taken_back: int = 0
    theirs: list[str] = field(default_factory=list)
    """Pods whose cost is somebody else's."""
    failed: dict[str, str] = field(default_factory=dict)


class PodCosts:
    """Costs in annotations: written a few at a time, and no faster than the limit allows."""

    def __init__(self, client: Client, limit: TokenBucket, *, metrics: Metrics | None = None) -> None:
        self._client = client
        self._limit = limit
        self._metrics = metrics or Metrics()

    async def write(self, costs: Iterable[Cost], report: Report) -> None:
        """Give pods these costs, where they have not got them already."""
        wanted = list(costs)
        report.theirs += [cost.pod.key for cost in wanted if author(cost.pod, cost.carrier) is Author.OTHERS]
        changes = [(cost.pod, functools.partial(_inscribed, cost)) for cost in wanted]
        count = await self._settle_all(changes, report)
        report.written += count
        self._metrics.costs_written(count)

    async def take_back(self, pods: Iterable[Pod], report: Report, *, reason: str) -> None:
        """Put these pods back as they were."""
        count = await self._settle_all([(pod, erasure) for pod in pods], report)
        report.taken_back += count
        self._metrics.costs_taken_back(count, reason)

    async def _settle_all(self, changes: Iterable[tuple[Pod, Change]], report: Report) -> int:
        waiting = iter([(pod, change) for pod, change in changes if change(pod) is not None])

        async def some() -> int:
            return sum([await self._settle(pod, change, report) for pod, change in waiting])

        return sum(await asyncio.gather(*(some() for _ in range(AT_ONCE))))

    async def _settle(self, pod: Pod, change: Change, report: Report) -> bool:
        """Whether the pod was changed. One that has changed meanwhile is read again, and asked whether it still needs
        to be; one that is gone needs nothing."""
        for _ in range(_ATTEMPTS):
            patch = change(pod)
            if patch is None or pod.terminating:
                return False
            await self._limit.wait()
            metadata = pod.metadata
            try:
                await self._client.patch(Pod, metadata.name, patch, namespace=metadata.namespace)
            except Conflict:
                fresh = await self._read(pod)
                if fresh is None:
                    return False
                pod = fresh
            except NotFound:
                return False
            except (ApiError, ConfigError) as error:
                report.failed[pod.key] = str(error)
                return False
            else:
                return True
        report.failed[pod.key] = "it changes faster than it can be written to"
        return False

    async def _read(self, pod: Pod) -> Pod | None:
        metadata = pod.metadata
        try:
            fresh = await self._client.get(Pod, metadata.name, namespace=metadata.namespace)
        except NotFound:
            return None
        return fresh if fresh.metadata.uid == metadata.uid else None


Change = Callable[[Pod], "JSON | None"]
"""The patch that a pod needs; None where it needs none."""


def _inscribed(cost: Cost, pod: Pod) -> JSON | None:
    return inscription(replace(cost, pod=pod))


# PodGroupCost.


@dataclass(frozen=True, slots=True)
class Holder:
    """The workload whose pods a group is."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def group_name(self) -> str:
        """The name of its PodGroupCost: workloads of two kinds may have one name."""
        name = f"{self.kind.lower()}-{self.name}"
        return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 17]}-{fingerprint([name])}"


def is_ours(costs: PodGroupCost) -> bool:
    """Whether a policy wrote it."""
    return POLICY_COST in costs.metadata.annotations


def group_object(holder: Holder, policy: str, costs: Mapping[str, int]) -> JSON:
    """A PodGroupCost with all costs of a group; it goes when its workload does."""
    owner = {"apiVersion": holder.api_version, "kind": holder.kind, "name": holder.name}
    return {
        "apiVersion": API_VERSION,
        "kind": GROUP_COST_KIND,
        "metadata": {
            "name": holder.group_name,
            "namespace": holder.namespace,
            "annotations": {POLICY_COST: policy},
            "labels": {"app.kubernetes.io/managed-by": "trimtab"},
            "ownerReferences": [{**owner, "uid": holder.uid, "controller": False, "blockOwnerDeletion": False}],
        },
        "spec": {"owner": owner, "costs": dict(costs)},
    }


def group_patch(known: PodGroupCost, holder: Holder, policy: str, costs: Mapping[str, int]) -> JSON | None:
    """The one patch that makes a PodGroupCost say this; None where it does."""
    wanted = group_object(holder, policy, costs)
    owned = any(owner.uid == holder.uid for owner in known.metadata.owner_references)
    same = known.spec.costs == costs and known.metadata.annotations.get(POLICY_COST) == policy
    if same and owned and (known.spec.owner.kind, known.spec.owner.name) == (holder.kind, holder.name):
        return None
    gone = {name: None for name in known.spec.costs if name not in costs}
    metadata = {**wanted["metadata"], "resourceVersion": known.metadata.resource_version}
    return {"metadata": metadata, "spec": {**wanted["spec"], "costs": {**gone, **costs}}}


class GroupCosts:
    """Costs in PodGroupCosts: one write a group."""

    def __init__(self, client: Client, limit: TokenBucket, *, metrics: Metrics | None = None) -> None:
        self._client = client
        self._limit = limit
        self._metrics = metrics or Metrics()

    async def write(
        self, holder: Holder, policy: str, costs: Mapping[str, int], known: PodGroupCost | None, report: Report
    ) -> None:
        """Have a group's PodGroupCost say this. Raises Conflict where it has changed meanwhile: come back then."""
        if known is not None and not is_ours(known):
            report.theirs.append(holder.group_name)
            return
        patch = None if known is None else group_patch(known, holder, policy, costs)
        if known is not None and patch is None:
            return
        await self._limit.wait()
        try:
            if patch is None:
                await self._client.create(_GROUPS, group_object(holder, policy, costs), namespace=holder.namespace)
            else:
                await self._client.patch(_GROUPS, holder.group_name, patch, namespace=holder.namespace)
        except Conflict:
            raise
        except AlreadyExists as error:
            raise Conflict(f"{holder.group_name} was made by somebody else just now") from error
        except (ApiError, ConfigError) as error:
            report.failed[holder.group_name] = str(error)
            return
        report.written += 1
        self._metrics.costs_written(1)

    async def take_back(self, known: PodGroupCost, report: Report, *, reason: str) -> None:
        """Delete a PodGroupCost that a policy wrote."""
        if not is_ours(known):
            return
        metadata = known.metadata
        await self._limit.wait()
        try:
            await self._client.delete(_GROUPS, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except NotFound:
            return
        except (ApiError, ConfigError) as error:
            report.failed[metadata.name] = str(error)
            return
        report.taken_back += 1
        self._metrics.costs_taken_back(1, reason)


_GROUPS = Resource.of(PodGroupCost).raw
_LONGEST = 253


async def sweep(client: Client, *, namespace: str = "") -> int:
    """Take back every cost that a policy keeps current, in all namespaces or in one; how many there were.

    For uninstalling: it looks at the cluster alone, needs no running Trimtab, and may be run again.
    """
    limit = TokenBucket(1000.0, 1000, client.clock)
    report = Report()
    pods, groups = PodCosts(client, limit), GroupCosts(client, limit)
    async for page in client.pages(Pod, namespace=namespace):
        await pods.take_back(page.items, report, reason="sweep")
    with contextlib.suppress(NotFound):  # a cluster may not know the kind
        for known in (await client.list(PodGroupCost, namespace=namespace)).items:
            await groups.take_back(known, report, reason="sweep")
    if report.failed:
        key, reason = next(iter(report.failed.items()))
        raise ApiError(f"{len(report.failed)} objects still have costs of ours, {key} among them: {reason}")
    return report.taken_back
