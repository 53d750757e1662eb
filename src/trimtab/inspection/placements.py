"""Which node a pod would get, why, and why not the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from trimtab.api.apps import ReplicaSet, ReplicaSetSpec
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, ObjectMeta, OwnerReference
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.api.workloads import ReplicaSetOwners
from trimtab.inspection import manifests
from trimtab.inspection.cluster import Cluster, Gap
from trimtab.inspection.manifests import Manifest
from trimtab.inspection.settings import Settings
from trimtab.placement.decisions import Decision, Outcome
from trimtab.placement.engine import place, place_many
from trimtab.placement.profiles import Profile

_LISTED = 100
"""How many nodes of a group are listed."""
_CREATING = ("Deployment", "ReplicaSet", "StatefulSet", "CloneSet", "ReplicationController")


class NodeScore(Model, omit_defaults=False):
    """The score of a node by one plugin."""

    plugin: str
    raw: int
    normalized: int
    weight: int
    weighted: int


class NodeGroup(Model, omit_defaults=False):
    """Nodes that were not chosen, for the same reason."""

    reason: str
    plugin: str
    """The plugin that refused them; empty for nodes that another one beat."""
    count: int
    nodes: tuple[str, ...]
    """The first of them by name."""


class PlacedPod(Model, omit_defaults=False):
    """Where one pod goes, and why."""

    number: int
    outcome: str
    node: str
    message: str
    total: int | None = None
    """The node's weighted total; none where it was the only one."""
    ties: int = 1
    """How many nodes had that total: one of them is chosen at random."""
    scores: tuple[NodeScore, ...] = ()
    others: tuple[NodeGroup, ...] = ()


class PlacementReport(Model, omit_defaults=False):
    """Where pods go, one after the other."""

    pod: str
    profile: str
    placed: int
    count: int
    pods: tuple[PlacedPod, ...]
    by_node: dict[str, int]
    notes: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


def place_manifest(
    cluster: Cluster, manifest: Manifest, settings: Settings, *, count: int, namespace: str, seed: int
) -> PlacementReport:
    """Place so many pods of a manifest, each with the earlier ones in place. Raises InvalidError."""
    pod = manifests.pod_of(manifest, namespace, settings.owners)
    if pod is None:
        raise InvalidError(
            manifest.place, f"{manifest.kind} {manifest.name} creates no pods; write a Pod or a workload"
        )
    if not cluster.snapshot.nodes.known.any():
        raise InvalidError("nodes", "there are none to place pods on")
    profile = profile_of(pod, settings)
    pod, workload = _owned(pod, manifest, settings.owners)
    if workload is not None:
        cluster.snapshot.put(workload)
    decisions: list[Decision] = []
    placements = place_many([pod] * count, cluster.snapshot, profile, Random(seed), see=decisions.append)  # noqa: S311
    steps = tuple(described(number, each) for number, each in enumerate(decisions, start=1))
    return PlacementReport(
        pod=pod.key,
        profile=profile.name,
        placed=sum(each.placed for each in placements),
        count=count,
        pods=steps,
        by_node=dict(Counter(each.node for each in placements if each.node is not None)),
        notes=tuple(_notes(pod, profile)),
        gaps=cluster.gaps,
    )


def profile_of(pod: Pod, settings: Settings) -> Profile:
    """The profile of the scheduler that a pod names."""
    return settings.schedulers.profile(pod.spec.scheduler_name)


def why_here(cluster: Cluster, pod: Pod, settings: Settings) -> PlacedPod:
    """The decision for a pod as if it were placed now, without itself being anywhere."""
    unassigned = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    with cluster.snapshot.with_assumed(gone=[pod.key]):
        decision = place(unassigned, cluster.snapshot, profile_of(pod, settings), Random(0))  # noqa: S311 - a tie
    return described(1, decision, node=pod.spec.node_name)


def _owned(pod: Pod, manifest: Manifest, owners: ReplicaSetOwners) -> tuple[Pod, ReplicaSet | None]:
    """The pod as its workload creates it: default constraints take their selector from its ReplicaSet's labels."""
    if manifest.kind not in (*_CREATING, *owners.by_kind) or not pod.metadata.labels:
        return pod, None
    metadata = ObjectMeta(name=manifest.name, namespace=pod.metadata.namespace, uid="manifest")
    selector = LabelSelector(match_labels=pod.metadata.labels)
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=manifest.name, uid="manifest", controller=True
    )
    owned = msgspec.structs.replace(pod.metadata, owner_references=(owner,))
    workload = ReplicaSet(metadata=metadata, spec=ReplicaSetSpec(selector=selector))
    return msgspec.structs.replace(pod, metadata=owned), workload


def described(number: int, decision: Decision, node: str = "") -> PlacedPod:
    """A decision as a value; about another node than the chosen one, where one is given."""
    about = node or decision.node or ""
    totals = decision.totals()
    total = totals.get(about)
    return PlacedPod(
        number=number,
        outcome=decision.outcome.value,
        node=decision.node or "",
        message=decision.message,
        total=total,
        ties=sum(each == total for each in totals.values()) if total is not None else 1,
        scores=tuple(_scores(decision, about)),
        others=tuple(_groups(decision, about)),
    )


def _scores(decision: Decision, node: str) -> Iterator[NodeScore]:
    if node not in decision.names or not decision.feasible[decision.names.index(node)]:
        return
    for plugin, score in decision.score(node).items():
        yield NodeScore(
            plugin=plugin, raw=score.raw, normalized=score.normalized, weight=score.weight, weighted=score.weighted
        )


def _groups(decision: Decision, node: str) -> Iterator[NodeGroup]:
    """The other nodes, those that were refused by reason first."""
    if decision.outcome in (Outcome.GATED, Outcome.UNSUPPORTED):
        return
    refused: dict[tuple[str, str], list[str]] = {}
    for name, verdict in decision.verdicts().items():
        if not verdict.ok and name != node:
            refused.setdefault((verdict.plugin, ", ".join(verdict.reasons)), []).append(name)
    for (plugin, reason), names in sorted(refused.items(), key=lambda each: -len(each[1])):
        yield _group(reason, plugin, names)
    yield from _beaten(decision, node)


def _beaten(decision: Decision, node: str) -> Iterator[NodeGroup]:
    totals = decision.totals()
    own = totals.get(node)
    if own is None:
        return
    for reason, names in (
        ("scores higher", [name for name, total in totals.items() if total > own]),
        ("scores the same", [name for name, total in totals.items() if total == own and name != node]),
        ("scores lower", [name for name, total in totals.items() if total < own]),
    ):
        if names:
            yield _group(f"{reason}: {_range([totals[name] for name in names])}", "", names)


def _range(totals: Sequence[int]) -> str:
    low, high = min(totals), max(totals)
    return str(low) if low == high else f"{low} to {high}"


def _group(reason: str, plugin: str, names: Sequence[str]) -> NodeGroup:
    return NodeGroup(reason=reason, plugin=plugin, count=len(names), nodes=tuple(sorted(names)[:_LISTED]))


def _notes(pod: Pod, profile: Profile) -> Iterator[str]:
    if pod.spec.scheduler_name and pod.spec.scheduler_name != profile.name:
        yield f"schedulerName {pod.spec.scheduler_name} is no profile of the configuration; {profile.name} was used"
