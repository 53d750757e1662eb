"""UnitedTopology (`apps.kruise.io/v1alpha1`): subsets for a workload that exists already.

**The status is the only truth** about which places are taken. Webhooks and controller decide from it and write it
under the condition that nobody has written since. It is wholly ours, so it is written as a whole (`status_tree`): every
list and every number, so that nothing of before is left.

**Revisions.** Pods of two templates do not take each other's places: `subsetStatuses` counts the pods of `revision`,
the one that the workload is going to, and `otherRevisions` those of the templates that are on their way out, or of one
that a webhook met before the controller did. A revision is named by the UID of the ReplicaSet that its pods belong to,
or by the hash that a CloneSet labels its pods with.

**Versions.** `countedVersion` says how far whoever counted had seen the pods. A count from an older view must not take
the place of one from a newer view: it would find places free that have been taken since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from trimtab.api import codec, nodeselectors, percent, selectors, times
from trimtab.api.cloneset import SPECIFIED_DELETE
from trimtab.api.documents import JSON, Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.patches import schema_for, strategic_merge
from trimtab.api.pods import Container, NodeSelector, NodeSelectorTerm, Pod, Toleration
from trimtab.api.quantities import parse

API_VERSION = "apps.kruise.io/v1alpha1"
KIND = "UnitedTopology"

TARGETS: Mapping[str, tuple[str, ...]] = {
    "apps/v1": ("Deployment", "ReplicaSet"),
    "apps.kruise.io/v1alpha1": ("CloneSet",),
}
"""Which workloads can have subsets, by API version."""


class Level(StrEnum):
    """What a pod is to its subset, in the order in which pods are deleted."""

    REDUNDANT = "Redundant"
    """Above the subset's maximum."""
    BEST_EFFORT = "BestEffort"
    """In a subset without a maximum."""
    GUARANTEED = "Guaranteed"
    """Within the subset's maximum."""


_MOST = 2**31 - 1
"""The largest number of pods that a workload's size can be written as."""
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_PATCHABLE = frozenset({"labels", "annotations", "finalizers"})
_POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod", "labels": {}, "annotations": {}},
    "spec": {
        "containers": [{"name": "main", "env": [], "ports": [], "volumeMounts": []}],
        "initContainers": [],
        "volumes": [],
        "tolerations": [],
    },
}
"""A pod to try patches on; its lists are there, so that merging into them is tried too."""


class TargetReference(Model):
    """The workload, in the same namespace."""

    api_version: Annotated[str, Meta(description="The workload's API version: apps/v1 or apps.kruise.io/v1alpha1.")]
    kind: Annotated[str, Meta(description="The workload's kind: Deployment, ReplicaSet or CloneSet.")]
    name: Annotated[str, Meta(description="The workload's name.", min_length=1)]


class Subset(Model):
    """One place for a workload's pods: where, how many at most, and what is different there."""

    name: Annotated[
        str,
        Meta(
            description="The subset's name, unique in this UnitedTopology.",
            min_length=1,
            max_length=63,
            pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        ),
    ]
    node_selector_term: Annotated[
        NodeSelectorTerm | None,
        Meta(description="Added to each required node selector term of the subset's pods."),
    ] = None
    tolerations: Annotated[
        tuple[Toleration, ...], Meta(description="Appended to the tolerations of the subset's pods.")
    ] = ()
    patch: Annotated[Document | None, Meta(description="A strategic merge patch for the subset's pods.")] = None
    max_replicas: Annotated[
        int | str | None,
        Meta(
            description="The most pods in this subset: a number, or a percentage of the workload. No limit if absent.",
            extra_json_schema={"minimum": 0, "maximum": _MOST, "pattern": "^(100|[0-9]{1,2})%$"},
        ),
    ] = None


class AdaptiveStrategy(Model):
    """How an adaptive schedule finds out that a subset has no room."""

    disable_simulation_schedule: Annotated[
        bool, Meta(description="Do not simulate scheduling when a pod is created.")
    ] = False
    reschedule_critical_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86400)] | None,
        Meta(description="A pod that could not be scheduled for so long is moved to the next subset."),
    ] = None


class ScheduleStrategy(Model):
    """Whether subsets are filled strictly in order, or with a look at the room there is."""

    type: Annotated[
        Literal["Fixed", "Adaptive"],
        Meta(description="Fixed fills the subsets in order; Adaptive skips those without enough resources."),
    ] = "Fixed"
    adaptive: Annotated[AdaptiveStrategy | None, Meta(description="Settings for Adaptive.")] = None


class UnitedTopologySpec(Model):
    """Which workload, which subsets, and how they are chosen."""

    target_ref: Annotated[TargetReference, Meta(description="The workload whose pods are divided.")]
    subsets: Annotated[
        tuple[Subset, ...],
        Meta(description="The subsets, in the order in which they are filled.", min_length=1, max_length=1000),
    ]
    schedule_strategy: Annotated[ScheduleStrategy, Meta(description="How a subset is chosen for a new pod.")] = (
        ScheduleStrategy()
    )


class SubsetStatus(Model):
    """How full a subset is with pods of one revision, and what is on its way."""

    name: Annotated[str, Meta(description="The subset's name.")]
    replicas: Annotated[int, Meta(description="How many pods are counted in the subset.")] = 0
    missing_replicas: Annotated[
        int, Meta(description="How many pods the subset still lacks; -1 where it has no maximum.")
    ] = 0
    creating: Annotated[
        Mapping[str, datetime],
        Meta(description="Pods that were given a place and are not counted yet, by reservation, and since when."),
    ] = {}
    deleting: Annotated[
        Mapping[str, datetime],
        Meta(description="Pods that are being deleted or evicted and are counted still, by name, and since when."),
    ] = {}
    missing_reschedule: Annotated[
        int, Meta(description="How many pods that found no room elsewhere should come here.")
    ] = 0


class RevisionStatus(Model):
    """The subsets as they are filled with pods of another revision than the newest."""

    revision: Annotated[str, Meta(description="The ReplicaSet's UID, or the CloneSet's revision hash.")]
    subset_statuses: Annotated[
        tuple[SubsetStatus, ...], Meta(description="The subsets, in the order of the spec.")
    ] = ()


class Shortage(Model):
    """A subset in which pods could not be scheduled, and is not tried for a while that grows each time."""

    name: Annotated[str, Meta(description="The subset's name.")]
    until: Annotated[datetime, Meta(description="When it is tried again.")]
    times: Annotated[int, Meta(description="How often in a row it was found full.")] = 0


class UnitedTopologyStatus(Model):
    """What has been handed out."""

    observed_generation: Annotated[int, Meta(description="The generation that this status is about.")] = 0
    replicas: Annotated[int, Meta(description="The workload's size, which percentages are taken of.")] = 0
    revision: Annotated[str, Meta(description="The revision that subsetStatuses is about: the newest.")] = ""
    subset_statuses: Annotated[
        tuple[SubsetStatus, ...], Meta(description="The subsets, in the order of the spec.")
    ] = ()
    other_revisions: Annotated[
        tuple[RevisionStatus, ...], Meta(description="The subsets as other revisions fill them, each for itself.")
    ] = ()
    shortages: Annotated[
        tuple[Shortage, ...], Meta(description="Subsets without room, which are not tried for a while.")
    ] = ()
    counted_version: Annotated[
        str, Meta(description="The latest version of a pod that was counted; no older view is counted again.")
    ] = ""
    conditions: Annotated[tuple[Condition, ...], Meta(description="What stands in the way, if anything.")] = ()


class UnitedTopology(Model, kw_only=True):
    """Divides the pods of an existing workload into subsets, each with its own place and limit."""

    metadata: ObjectMeta = ObjectMeta()
    spec: UnitedTopologySpec
    status: UnitedTopologyStatus = UnitedTopologyStatus()


def status_tree(status: UnitedTopologyStatus) -> JSON:
    """A status as it is written: every number and every list, so that a merge leaves nothing of before."""
    return {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "revision": status.revision,
        "subsetStatuses": [_subset_tree(subset) for subset in status.subset_statuses],
        "otherRevisions": [_revision_tree(revision) for revision in status.other_revisions],
        "shortages": [_shortage_tree(shortage) for shortage in status.shortages],
        "countedVersion": status.counted_version,
        "conditions": [codec.to_tree(condition) for condition in status.conditions],
    }


def _revision_tree(revision: RevisionStatus) -> JSON:
    subsets = [_subset_tree(subset) for subset in revision.subset_statuses]
    return {"revision": revision.revision, "subsetStatuses": subsets}


def _shortage_tree(shortage: Shortage) -> JSON:
    return {"name": shortage.name, "until": _time(shortage.until), "times": shortage.times}


def _subset_tree(subset: SubsetStatus) -> JSON:
    tree: JSON = {"name": subset.name, "replicas": subset.replicas, "missingReplicas": subset.missing_replicas}
    for name, entries in (("creating", subset.creating), ("deleting", subset.deleting)):
        if entries:
            tree[name] = {key: _time(moment) for key, moment in entries.items()}
    if subset.missing_reschedule:
        tree["missingReschedule"] = subset.missing_reschedule
    return tree


def _time(moment: datetime) -> str:
    return times.format_micro(times.to_ns(moment))


def problems(topology: UnitedTopology) -> Iterator[InvalidError]:
    """What makes a UnitedTopology unusable, although it is of the right shape."""
    yield from _target_problems(topology.spec.target_ref)
    seen: dict[str, int] = {}
    for index, subset in enumerate(topology.spec.subsets):
        path = f"spec.subsets[{index}]"
        first = seen.setdefault(subset.name, index)
        if first != index:
            yield InvalidError(
                f"{path}.name",
                f'"{subset.name}" is the name of spec.subsets[{first}] already; give each its own',
            )
        for problem in _subset_problems(subset):
            yield problem.under(path)
    strategy = topology.spec.schedule_strategy
    if strategy.adaptive is not None and strategy.type != "Adaptive":
        yield InvalidError("spec.scheduleStrategy.adaptive", "is for type Adaptive; leave it out, or write that type")


def _target_problems(target: TargetReference) -> Iterator[InvalidError]:
    kinds = TARGETS.get(target.api_version)
    if kinds is None:
        known = " or ".join(TARGETS)
        yield InvalidError("spec.targetRef.apiVersion", f'"{target.api_version}" is not supported; write {known}')
    elif target.kind not in kinds:
        yield InvalidError(
            "spec.targetRef.kind",
            f'"{target.kind}" of {target.api_version} cannot have subsets; write {" or ".join(kinds)}',
        )


def _subset_problems(subset: Subset) -> Iterator[InvalidError]:
    """What would keep the subset's pods from being made, or from ever running; paths start at the subset."""
    if subset.node_selector_term is not None:
        yield from _term_problems(subset.node_selector_term)
    for index, toleration in enumerate(subset.tolerations):
        for problem in _toleration_problems(toleration):
            yield problem.under(f"tolerations[{index}]")
    if subset.patch is not None:
        yield from _patch_problems(subset.patch)
    yield from _limit_problems(subset.max_replicas)


def _term_problems(term: NodeSelectorTerm) -> Iterator[InvalidError]:
    path = "nodeSelectorTerm"
    if not term.match_expressions and not term.match_fields:
        yield InvalidError(path, "is empty, and so matches no node; write matchExpressions, or leave it out")
    required = nodeselectors.compile(NodeSelector(node_selector_terms=(term,)))
    if required.problem is not None:
        place, reason = required.problem
        inner = place.partition("nodeSelectorTerms[0]")[2].lstrip(".")
        yield InvalidError(inner, reason).under(path)


def _toleration_problems(toleration: Toleration) -> Iterator[InvalidError]:
    """What an API server would refuse the pods for."""
    if toleration.key and not selectors.is_key(toleration.key):
        yield InvalidError("key", f'"{toleration.key}" is not a taint key; write a name such as app or example.com/app')
    if toleration.operator != "Exists" and not selectors.is_value(toleration.value):
        yield InvalidError("value", f'"{toleration.value}" is not a taint value; write letters, digits, -, _ and .')
    if toleration.operator not in ("", "Equal", "Exists"):
        yield InvalidError("operator", f'"{toleration.operator}" is not supported; write Exists or Equal')
    if toleration.operator == "Exists" and toleration.value:
        yield InvalidError("value", "is not for Exists; leave it out, or write operator Equal")
    if not toleration.key and toleration.operator != "Exists":
        yield InvalidError("operator", "must be Exists where there is no key; write Exists, or a key")
    if toleration.effect not in _EFFECTS:
        yield InvalidError("effect", f'"{toleration.effect}" is unknown; write {", ".join(_EFFECTS[1:])} or nothing')
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield InvalidError("effect", "must be NoExecute where tolerationSeconds is given; write NoExecute")


def _patch_problems(patch: Document) -> Iterator[InvalidError]:
    """Whether a pod that is patched still is a pod, and still the one that its workload made."""
    tree = patch.tree()
    for name in sorted(tree.keys() - {"metadata", "spec"}):
        yield InvalidError(f"patch.{name}", "cannot be patched; write metadata and spec only")
    for name in [each for each in ("metadata", "spec") if each in tree and tree[each] is None]:
        yield InvalidError(f"patch.{name}", "cannot be removed; write what is to be changed in it, or leave it out")
        del tree[name]
    metadata = tree.get("metadata")
    for name in sorted((metadata if isinstance(metadata, dict) else {}).keys() - _PATCHABLE):
        yield InvalidError(f"patch.metadata.{name}", "cannot be patched; write labels, annotations or finalizers only")
    try:
        pod = codec.convert(strategic_merge(_POD, tree, schema_for("v1", "Pod")), Pod)
    except InvalidError as error:
        yield error.under("patch")
    else:
        for problem in _pod_problems(pod):
            yield problem.under("patch")


def _pod_problems(pod: Pod) -> Iterator[InvalidError]:
    """What a patch can easily get wrong, and an API server would refuse every pod of the subset for."""
    for key, value in pod.metadata.labels.items():
        if not selectors.is_key(key):
            yield InvalidError("metadata.labels", f'"{key}" is not a label key; write a name such as example.com/app')
        if not selectors.is_value(value):
            yield InvalidError(
                f"metadata.labels[{key}]", f'"{value}" is not a label value; write letters, digits, -, _'
            )
        if key == SPECIFIED_DELETE:
            reason = "marks pods for deletion: a CloneSet would delete them and make others without end; leave it out"
            yield InvalidError(f"metadata.labels[{key}]", reason)
    for index, toleration in enumerate(pod.spec.tolerations):
        for problem in _toleration_problems(toleration):
            yield problem.under(f"spec.tolerations[{index}]")
    if not pod.spec.containers:
        yield InvalidError("spec.containers", "none is left; write those that are to be changed, or leave it out")
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield from _quantity_problems(container)


def _quantity_problems(container: Container) -> Iterator[InvalidError]:
    stated = {"requests": container.resources.requests, "limits": container.resources.limits}
    for part, quantities in stated.items():
        for name, text in quantities.items():
            try:
                parse(text)
            except InvalidError as error:
                yield error.under(f"spec.containers[{container.name}].resources.{part}.{name}")


def _limit_problems(limit: int | str | None) -> Iterator[InvalidError]:
    path = "maxReplicas"
    if limit is None:
        return
    if isinstance(limit, int):
        if limit < 0:
            yield InvalidError(path, f"{limit} is negative; write 0 or more, or leave it out for no limit")
        elif limit > _MOST:
            yield InvalidError(path, f"{limit} does not fit into 32 bits; write {_MOST} at most, or leave it out")
        return
    try:
        share = percent.scaled(limit, 100, round_up=False)
    except InvalidError as error:
        yield error.under(path)
        return
    if not 0 <= share <= 100:
        yield InvalidError(path, f'"{limit}" is not between 0% and 100%; write for example "30%"')
