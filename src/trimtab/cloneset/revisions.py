"""Templates as ControllerRevisions: the newest one, new ones, and those beyond the history limit. Pure.

A revision is named after its CloneSet and the hash of its template, so that it cannot be created twice. It holds the
template as a patch of the CloneSet, as StatefulSets and OpenKruise write it. A template that comes back gets the
revision that it had, with a new number: the newest revision has a higher number than all others, also than one that a
process created late before it was killed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import INSTANCE_ID, REVISION_HASH, CloneSet
from trimtab.api.documents import JSON, Document, kept, pod_from_template
from trimtab.api.templates import HASH_LABEL, digest, name_of, same
from trimtab.cloneset.instances import Instance

HASH = "controller.kubernetes.io/hash"
_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class NewRevision:
    """A revision to be created."""

    name: str
    body: JSON


@dataclass(frozen=True, slots=True)
class NewestRevision:
    """The revision of the current template; it is to be created, to be renumbered, or exists as it should be."""

    name: str
    creation: NewRevision | None = None
    renumbered: ControllerRevision | None = None
    number: int = 1


def newest(cloneset: CloneSet, known: Sequence[ControllerRevision], owner: JSON) -> NewestRevision:
    """The revision that new pods are created from. `owner` is the reference to the CloneSet."""
    last = max((each.revision for each in known), default=0)
    equal = [each for each in known if same(template_of(each), cloneset.spec.template)]
    if not equal:
        creation = _new_revision(cloneset, last + 1, owner)
        return NewestRevision(creation.name, creation=creation, number=last + 1)
    latest = max(equal, key=lambda each: (each.revision, each.metadata.name))
    behind = any(each.revision >= latest.revision for each in known if each is not latest)
    return NewestRevision(latest.metadata.name, renumbered=latest if behind else None, number=last + behind)


def template_of(revision: ControllerRevision) -> Document | None:
    """The template in a revision."""
    return None if revision.data is None else _template_in(revision.data)


@kept
def _template_in(data: Document) -> Document | None:
    tree = data.tree().get("spec", {}).get("template")
    if not isinstance(tree, dict):
        return None
    tree.pop("$patch", None)
    return Document(tree)


def _new_revision(cloneset: CloneSet, number: int, owner: JSON) -> NewRevision:
    metadata, template = cloneset.metadata, cloneset.spec.template
    template_hash = digest(template, cloneset.status.collision_count)
    name = name_of(metadata.name, template_hash)
    labels = (template.tree().get("metadata") or {}).get("labels") or {}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": {**labels, HASH: template_hash},
            "ownerReferences": [owner],
        },
        "data": {"spec": {"template": {**template.tree(), "$patch": "replace"}}},
        "revision": number,
    }
    return NewRevision(name, body)


def expired(known: Sequence[ControllerRevision], live: Collection[str], limit: int) -> tuple[ControllerRevision, ...]:
    """The oldest unused revisions beyond the limit; used are those that `live` has by name or by hash."""
    hashes = {name.rpartition("-")[2] for name in live}
    idle = [each for each in known if each.metadata.name.rpartition("-")[2] not in hashes]
    idle.sort(key=lambda each: (each.revision, each.metadata.name))
    return tuple(idle[: max(len(idle) - limit, 0)])


def pod(cloneset: CloneSet, revision: str, instance: Instance, owner: JSON) -> JSON:
    """A pod to create: every field of the template, its owner, its revision and its id."""
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
