"""Validation of UnitedTopology beyond its schema: mistakes that keep pods of a subset from being created or run."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from trimtab.api import codec, limits, nodeselectors, percent, selectors
from trimtab.api.cloneset import SPECIFIED_DELETE
from trimtab.api.documents import JSON, Document
from trimtab.api.errors import InvalidError
from trimtab.api.patches import schema_for, strategic_merge
from trimtab.api.pods import Container, NodeSelector, NodeSelectorTerm, Pod, Toleration
from trimtab.api.quantities import parse
from trimtab.api.unitedtopology import patched_pods, privileges
from trimtab.api.unitedtopology.objects import (
    MAX_FLOORS,
    MAX_PODS,
    TARGETS,
    AdaptiveStrategy,
    Subset,
    TargetReference,
    UnitedTopology,
)
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners, advice

_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_REFUSED: Mapping[str, str] = {
    "StatefulSet": "removes its highest ordinal whatever its pods cost, and its pods keep their names and volumes",
    "Job": "does not choose by cost, and its pods end by themselves",
}
"""Kinds that cannot have subsets, and why."""
_PATCHABLE = frozenset({"labels", "annotations", "finalizers"})
_MAX_PATCH = 65_536
"""Bytes of a patch as JSON: it is applied to every pod of the subset while its creation waits."""
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
"""A pod to test patches on; it has lists, so that merging into them is tested too."""


def problems(
    topology: UnitedTopology, *, allowed_fields: Collection[str] = (), owners: ReplicaSetOwners = DEPLOYMENTS
) -> Iterator[InvalidError]:
    """The errors that a schema cannot find. `allowed_fields` are the privileged fields that patches may change;
    `owners` can be targets too."""
    yield from _target_problems(topology.spec.target_ref, owners.added_to(TARGETS))
    seen: dict[str, int] = {}
    for index, subset in enumerate(topology.spec.subsets):
        path = f"spec.subsets[{index}]"
        first = seen.setdefault(subset.name, index)
        if first != index:
            yield InvalidError(
                f"{path}.name",
                f'"{subset.name}" is already the name of spec.subsets[{first}]; give each subset a unique name',
            )
        for problem in _known_problems(subset, allowed_fields):
            yield problem.under(path)
    yield from _floor_problems(topology.spec.subsets)
    strategy = topology.spec.schedule_strategy
    if strategy.adaptive is not None and strategy.type != "Adaptive":
        yield InvalidError("spec.scheduleStrategy.adaptive", "needs type Adaptive; omit it, or write type: Adaptive")
    yield from _return_problems(strategy.adaptive)


def _floor_problems(subsets: Sequence[Subset]) -> Iterator[InvalidError]:
    """Minima that cannot be satisfied whatever the size of the workload."""
    for index, subset in enumerate(subsets):
        least, most = subset.min_replicas or 0, subset.max_replicas
        if isinstance(most, int) and least > most >= 0:
            reason = f"{least} is more than its maxReplicas of {most}; lower it, or raise maxReplicas"
            yield InvalidError(f"spec.subsets[{index}].minReplicas", reason)
    floors = [subset.min_replicas for subset in subsets if subset.min_replicas]
    if sum(floors) > MAX_PODS:
        reason = f"the minReplicas of all subsets add up to {sum(floors)}; no workload has more than {MAX_PODS}"
        yield InvalidError("spec.subsets", reason)
    if len(floors) > MAX_FLOORS:
        yield InvalidError("spec.subsets", f"{len(floors)} have minReplicas; write it for at most {MAX_FLOORS}")


def _return_problems(adaptive: AdaptiveStrategy | None) -> Iterator[InvalidError]:
    if adaptive is None or adaptive.return_ is None:
        return
    path = "spec.scheduleStrategy.adaptive.return"
    if adaptive.reschedule_critical_seconds is None:
        reason = "needs rescheduleCriticalSeconds: a pod that finds no node in the earlier subset must be able to leave"
        yield InvalidError(path, reason)
    try:
        most = percent.scaled(adaptive.return_.max_pods, 100, round_up=False)
    except InvalidError as error:
        yield error.under(f"{path}.maxPods")
        return
    if most < 1 or (isinstance(adaptive.return_.max_pods, str) and most > 100):
        written = adaptive.return_.max_pods
        yield InvalidError(f"{path}.maxPods", f'{written} is not between 1 and all pods; write for example 2 or "10%"')


def _target_problems(target: TargetReference, targets: Mapping[str, tuple[str, ...]]) -> Iterator[InvalidError]:
    kinds = targets.get(target.api_version)
    if target.kind in _REFUSED:
        written = " or ".join(kind for each in targets.values() for kind in each)
        yield InvalidError("spec.targetRef.kind", f"{target.kind} {_REFUSED[target.kind]}; write {written}")
    elif kinds is None:
        reason = f'"{target.api_version}" is not supported; write {" or ".join(targets)}'
        yield InvalidError("spec.targetRef.apiVersion", f"{reason}{advice(target.api_version, targets)}")
    elif target.kind not in kinds:
        yield InvalidError(
            "spec.targetRef.kind",
            f'"{target.kind}" of {target.api_version} cannot have subsets; write {" or ".join(kinds)}',
        )


def _known_problems(subset: Subset, allowed_fields: Collection[str]) -> tuple[InvalidError, ...]:
    """The first errors of a subset, kept by its digest: each reconcile needs them, and a KiB takes a millisecond."""
    key = (hashlib.blake2b(codec.encode(subset), digest_size=16).digest(), frozenset(allowed_fields))
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[key] = tuple(itertools.islice(_subset_problems(subset, allowed_fields), _MOST_PROBLEMS))
    return known


_KNOWN: dict[tuple[bytes, frozenset[str]], tuple[InvalidError, ...]] = {}
_MOST_KNOWN = 16_384
_MOST_PROBLEMS = 20
"""Errors of one subset that are reported."""


def _subset_problems(subset: Subset, allowed_fields: Collection[str]) -> Iterator[InvalidError]:
    """Errors that would keep the subset's pods from being created or running; paths start at the subset."""
    if subset.node_selector_term is not None:
        yield from limits.problems(subset.node_selector_term, "nodeSelectorTerm")
        yield from _term_problems(subset.node_selector_term)
    for index, toleration in enumerate(subset.tolerations):
        for problem in _toleration_problems(toleration):
            yield problem.under(f"tolerations[{index}]")
    if subset.patch is not None:
        yield from _patch_problems(subset.patch, allowed_fields)
    yield from _limit_problems(subset.max_replicas)


def _term_problems(term: NodeSelectorTerm) -> Iterator[InvalidError]:
    path = "nodeSelectorTerm"
    if not term.match_expressions and not term.match_fields:
        yield InvalidError(path, "is empty and matches no node; write matchExpressions, or omit it")
    values = sum(len(each.values) for each in (*term.match_expressions, *term.match_fields))
    if values > selectors.MAX_ENTRIES:
        yield InvalidError(path, f"has {values:,} values; write at most {selectors.MAX_ENTRIES:,}")
        return
    required = nodeselectors.compile(NodeSelector(node_selector_terms=(term,)))
    if required.problem is not None:
        location, reason = required.problem
        inner = location.partition("nodeSelectorTerms[0]")[2].lstrip(".")
        yield InvalidError(inner, reason).under(path)


def _toleration_problems(toleration: Toleration) -> Iterator[InvalidError]:
    """Errors for which an API server would refuse the pods."""
    if toleration.key and not selectors.is_key(toleration.key):
        yield InvalidError("key", f'"{toleration.key}" is not a taint key; write a name such as app or example.com/app')
    if toleration.operator != "Exists" and not selectors.is_value(toleration.value):
        yield InvalidError("value", f'"{toleration.value}" is not a taint value; write letters, digits, -, _ and .')
    if toleration.operator not in ("", "Equal", "Exists"):
        yield InvalidError("operator", f'"{toleration.operator}" is not supported; write Exists or Equal')
    if toleration.operator == "Exists" and toleration.value:
        yield InvalidError("value", "is not allowed with Exists; omit it, or write operator: Equal")
    if not toleration.key and toleration.operator != "Exists":
        yield InvalidError("operator", "must be Exists if there is no key; write Exists, or a key")
    if toleration.effect not in _EFFECTS:
        yield InvalidError("effect", f'"{toleration.effect}" is unknown; write {", ".join(_EFFECTS[1:])}, or omit it')
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield InvalidError("effect", "must be NoExecute if tolerationSeconds is set; write NoExecute")


def _patch_problems(patch: Document, allowed_fields: Collection[str]) -> Iterator[InvalidError]:
    """Errors of a patch: a patched pod must be valid, must still belong to its workload, and gets no privileges."""
    if len(patch.text) > _MAX_PATCH:
        yield InvalidError("patch", f"has {len(patch.text)} bytes; write at most {_MAX_PATCH}")
        return
    tree = patch.tree()
    for name in sorted(tree.keys() - {"metadata", "spec"}):
        yield InvalidError(f"patch.{name}", "cannot be patched; write metadata and spec only")
    for name in [each for each in ("metadata", "spec") if each in tree and tree[each] is None]:
        yield InvalidError(f"patch.{name}", "cannot be removed; write the fields to change, or omit it")
        del tree[name]
    metadata = tree.get("metadata")
    for name in sorted((metadata if isinstance(metadata, dict) else {}).keys() - _PATCHABLE):
        yield InvalidError(f"patch.metadata.{name}", "cannot be patched; write labels, annotations or finalizers only")
    try:
        merged = strategic_merge(_POD, tree, schema_for("v1", "Pod"))
        pod = codec.convert(merged, Pod)
    except InvalidError as error:
        yield error.under("patch")
    else:
        for problem in (*_pod_problems(pod), *patched_pods.problems(merged, has_template=False)):
            yield problem.under("patch")
        yield from _privilege_problems(tree, allowed_fields)


def _privilege_problems(patch: JSON, allowed_fields: Collection[str]) -> Iterator[InvalidError]:
    before = privileges.sample(_POD, patch)
    after = strategic_merge(before, patch, schema_for("v1", "Pod"))
    for problem in privileges.problems(before, after, allowed_fields):
        yield problem.under("patch")


def _pod_problems(pod: Pod) -> Iterator[InvalidError]:
    """Common mistakes of a patch, for which an API server would refuse every pod of the subset."""
    for key, value in pod.metadata.labels.items():
        if not selectors.is_key(key):
            yield InvalidError("metadata.labels", f'"{key}" is not a label key; write a name such as example.com/app')
        if not selectors.is_value(value):
            yield InvalidError(
                f"metadata.labels[{key}]", f'"{value}" is not a label value; write letters, digits, -, _'
            )
        if key == SPECIFIED_DELETE:
            reason = "selects pods for deletion: a CloneSet would delete and create pods endlessly; remove it"
            yield InvalidError(f"metadata.labels[{key}]", reason)
    for key in pod.metadata.annotations:
        if not selectors.is_key(key.lower()):
            reason = f'"{key}" is not an annotation key; write a name such as example.com/note'
            yield InvalidError("metadata.annotations", reason)
    for index, toleration in enumerate(pod.spec.tolerations):
        for problem in _toleration_problems(toleration):
            yield problem.under(f"spec.tolerations[{index}]")
    if not pod.spec.containers:
        yield InvalidError("spec.containers", "is empty after the patch; write the containers to change, or omit it")
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield from _quantity_problems(container)


def _quantity_problems(container: Container) -> Iterator[InvalidError]:
    amounts = {"requests": container.resources.requests, "limits": container.resources.limits}
    for part, quantities in amounts.items():
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
            yield InvalidError(path, f"{limit} is negative; write 0 or more, or omit it for no limit")
        elif limit > MAX_PODS:
            yield InvalidError(path, f"{limit} does not fit into 32 bits; write at most {MAX_PODS}, or omit it")
        return
    try:
        share = percent.scaled(limit, 100, round_up=False)
    except InvalidError as error:
        yield error.under(path)
        return
    if not 0 <= share <= 100:
        yield InvalidError(path, f'"{limit}" is not between 0% and 100%; write for example "30%"')
