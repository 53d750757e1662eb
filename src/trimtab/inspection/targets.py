"""Names of objects as users type them: `deploy/web`, `rs/web-5d4f`, `pod/web-5d4f-x2b9k`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import UNSUPPORTED_KINDS
from trimtab.api.workloads import DEPLOYMENTS, CustomWorkload, ReplicaSetOwners
from trimtab.inspection.cluster import Cluster, Workload, info_of

_ALIASES: Mapping[str, type[Any]] = {
    **dict.fromkeys(("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"), Deployment),
    **dict.fromkeys(("replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"), ReplicaSet),
    **dict.fromkeys(("replicationcontroller", "replicationcontrollers", "rc"), ReplicationController),
    **dict.fromkeys(("cloneset", "clonesets", "clone", "clonesets.apps.kruise.io"), CloneSet),
    **dict.fromkeys(("pod", "pods", "po"), Pod),
}
"""The names of built-in kinds, as kubectl knows them."""
PREFIXES: Mapping[type[Any], str] = {
    Deployment: "deploy",
    ReplicaSet: "rs",
    ReplicationController: "rc",
    CloneSet: "cloneset",
    Pod: "pod",
}
_UNSUPPORTED = {kind.lower(): reason for kind, reason in UNSUPPORTED_KINDS.items()} | {
    "sts": UNSUPPORTED_KINDS["StatefulSet"],
    "ds": UNSUPPORTED_KINDS["DaemonSet"],
}
_SHOWN = 3


def kind_of(workload: object) -> str:
    """The kind of an object, as it is written."""
    return type(workload).__name__


def prefix(kind: type[Any]) -> str:
    """What a user types for a kind, before the name."""
    return kind.named_as.kind.lower() if issubclass(kind, CustomWorkload) else PREFIXES[kind]


def display(workload: Workload) -> str:
    """`Deployment shop/web`."""
    return f"{kind_of(workload)} {workload.metadata.namespace}/{workload.metadata.name}"


def find_workload(cluster: Cluster, text: str, namespace: str) -> Workload:
    """The workload that a user named. Raises InvalidError with what to type instead."""
    kind, name = parse(text, cluster.owners)
    if kind is Pod:
        raise InvalidError(text, f"is a pod, not a workload; write deploy/NAME, or: trimtab explain {text}")
    found: Workload | None = cluster.find(kind, namespace, name)
    if found is None:
        raise InvalidError(text, _not_found(cluster, kind, namespace, name))
    return found


def find_pod(cluster: Cluster, text: str, namespace: str) -> Pod:
    """The pod that a user named, as `pod/NAME` or by its name alone."""
    name = text
    if "/" in text:
        kind, name = parse(text, cluster.owners)
        if kind is not Pod:
            raise InvalidError(text, f"is no pod; write pod/NAME, or: trimtab rank {text}")
    found = cluster.find(Pod, namespace, name)
    if found is None:
        raise InvalidError(text, _not_found(cluster, Pod, namespace, name))
    return found


def parse(text: str, owners: ReplicaSetOwners = DEPLOYMENTS) -> tuple[type[Any], str]:
    """The kind and the name of `KIND/NAME`."""
    kind, slash, name = text.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise InvalidError(text, "is not KIND/NAME; write for example deploy/web")
    known = _ALIASES.get(kind.lower()) or _custom(owners).get(kind.lower())
    if known is not None:
        return known, name
    reason = _UNSUPPORTED.get(kind.lower())
    if reason is not None:
        raise InvalidError(text, f"cannot be planned: {reason}")
    known_ones = ", ".join(["deploy", "rs", "rc", "cloneset", *map(prefix, owners.custom)])
    reason = (
        f'"{kind}" is none of {known_ones} and pod; other kinds that own ReplicaSets have to be listed in workloads'
    )
    raise InvalidError(text, f"{reason} of a configuration, which --config names")


def _custom(owners: ReplicaSetOwners) -> dict[str, type[Any]]:
    """The names of the kinds that a configuration names, as kubectl knows them."""
    found: dict[str, type[Any]] = {}
    for each in owners.custom:
        named = each.named_as
        for word in (named.kind.lower(), named.plural):
            found |= {word: each, f"{word}.{named.group}": each}
    return found


def names(cluster: Cluster, kind: type[Any], namespace: str) -> list[str]:
    """The names of a kind in a namespace."""
    return [each.metadata.name for each in cluster.all(kind) if each.metadata.namespace == namespace]


def typed_names(cluster: Cluster, kinds: Iterable[type[Any]], namespace: str) -> list[str]:
    """The names of some kinds in a namespace, as a user types them."""
    return [f"{prefix(kind)}/{name}" for kind in kinds for name in names(cluster, kind, namespace)]


def _not_found(cluster: Cluster, kind: type[Any], namespace: str, name: str) -> str:
    gap = next((gap for gap in cluster.gaps if gap.resource == info_of(kind).plural), None)
    if gap is not None:
        return f"was not found in namespace {namespace}: {gap.resource} {gap.reason}"
    elsewhere = [each.metadata.namespace for each in cluster.all(kind) if each.metadata.name == name]
    if elsewhere:
        return f"is not in namespace {namespace}, but in {_listed(elsewhere)}; add: -n {elsewhere[0]}"
    similar = difflib.get_close_matches(name, names(cluster, kind, namespace), n=_SHOWN)
    hint = f"; similar: {_listed(similar)}" if similar else ""
    return f"there is no {kind.__name__} of that name in namespace {namespace}{hint}"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values))[:_SHOWN])
