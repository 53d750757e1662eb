"""Templates as ControllerRevisions: which one is meant, what a new one looks like, which are forgotten. Pure.

A revision is named after its CloneSet and the hash of its template, so that it cannot be made twice. It holds the
template as a patch of the CloneSet, as StatefulSets and OpenKruise write it. A template that comes back gets the
revision that it had, with a new number: the newest revision has a higher one than all others, also than one that a
process which was killed made late.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import INSTANCE_ID, REVISION_HASH, CloneSet
from trimtab.api.documents import JSON, Document, pod_from_template
from trimtab.api.templates import HASH_LABEL, digest, name_of, same
from trimtab.cloneset.instances import Instance

HASH = "controller.kubernetes.io/hash"
_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class Birth:
    """A revision to be made."""

    name: str
    body: JSON


@dataclass(frozen=True, slots=True)
class Newest:
    """The revision of the template as it is now; it is to be made, or given a new number, or there as it should be."""

    name: str
    birth: Birth | None = None
    renumbered: ControllerRevision | None = None
    number: int = 1


def newest(cloneset: CloneSet, known: Sequence[ControllerRevision], owner: JSON) -> Newest:
    """The revision that pods are to be made from. `owner` is the reference to the CloneSet."""
    last = max((each.revision for each in known), default=0)
    equal = [each for each in known if same(template_of(each), cloneset.spec.template)]
    if not equal:
        birth = _birth(cloneset, last + 1, owner)
        return Newest(birth.name, birth=birth, number=last + 1)
    found = max(equal, key=lambda each: (each.revision, each.metadata.name))
    behind = any(each.revision >= found.revision for each in known if each is not found)
    return Newest(found.metadata.name, renumbered=found if behind else None, number=last + behind)


def template_of(revision: ControllerRevision) -> Document | None:
    """The template that a revision holds."""
    return None if revision.data is None else _held(revision.data)


@functools.lru_cache(maxsize=4096)
def _held(data: Document) -> Document | None:
    tree = data.tree().get("spec", {}).get("template")
    if not isinstance(tree, dict):
        return None
    tree.pop("$patch", None)
    return Document(tree)


def _birth(cloneset: CloneSet, number: int, owner: JSON) -> Birth:
    metadata, template = cloneset.metadata, cloneset.spec.template
    a_digest = digest(template, cloneset.status.collision_count)
    name = name_of(metadata.name, a_digest)
    labels = (template.tree().get("metadata") or {}).get("labels") or {}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": {**labels, HASH: a_digest},
            "ownerReferences": [owner],
        },
        "data": {"spec": {"template": {**template.tree(), "$patch": "replace"}}},
        "revision": number,
    }
    return Birth(name, body)


def forgotten(known: Sequence[ControllerRevision], live: Collection[str], limit: int) -> tuple[ControllerRevision, ...]:
    """The oldest of those that nothing refers to (by name, or by the hash in a pod's label), beyond the limit."""
    hashes = {name.rpartition("-")[2] for name in live}
    idle = [each for each in known if each.metadata.name.rpartition("-")[2] not in hashes]
    idle.sort(key=lambda each: (each.revision, each.metadata.name))
    return tuple(idle[: max(len(idle) - limit, 0)])


def pod(cloneset: CloneSet, revision: str, instance: Instance, owner: JSON) -> JSON:
    """The pod to make: every field of the template, its owner, its revision and its id."""
    metadata = cloneset.metadata
    tree = pod_from_template(cloneset.spec.template, namespace=metadata.namespace, owner=owner, name=instance.name)
    short = revision.rpartition("-")[2]
    labels = tree["metadata"].get("labels") or {}
    tree["metadata"]["labels"] = {
        **labels,
        REVISION_HASH: revision if len(revision) <= _LONGEST_LABEL else short,
        HASH_LABEL: short,
        INSTANCE_ID: instance.id,
    }
    return tree
