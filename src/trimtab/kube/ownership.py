"""Who owns what: which objects a workload has, may take in, and must let go.

An object belongs to the workload that its controller reference names, by UID. The selector says which objects that
should be. Of what a workload's selector matches, and of what it owns:

| the object | its labels match | they do not |
|---|---|---|
| is owned by the workload | owned | released |
| is owned by nobody | adopted, unless it is going | left alone |
| is owned by somebody else | left alone | left alone |

A workload that is going itself keeps what it owns and takes nothing in: whoever deletes it decides about the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimtab.api.documents import JSON
from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.selectors import Selector
from trimtab.kube.resources import Resource
from trimtab.kube.stores import Object

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Claims(Generic[T]):
    """What becomes of the objects that a workload may have to do with."""

    owned: tuple[T, ...] = ()
    adopted: tuple[T, ...] = ()
    released: tuple[T, ...] = ()


def claims(owner: ObjectMeta, selector: Selector, candidates: Iterable[T]) -> Claims[T]:
    """Sort out the objects of the owner's namespace."""
    owned: list[T] = []
    adopted: list[T] = []
    released: list[T] = []
    going = owner.deletion_timestamp is not None
    for candidate in candidates:
        metadata = candidate.metadata
        matches = selector.matches(metadata.labels)
        controller = metadata.controller
        if controller is None:
            if matches and not going and metadata.deletion_timestamp is None:
                adopted.append(candidate)
        elif controller.uid == owner.uid:
            if matches:
                owned.append(candidate)
            elif not going:
                released.append(candidate)
    return Claims(tuple(owned), tuple(adopted), tuple(released))


def is_controlled_by(an_object: Object, owner: Object) -> bool:
    """Whether the object's controller is this one."""
    controller = an_object.metadata.controller
    return controller is not None and controller.uid == owner.metadata.uid


def refers_to(reference: OwnerReference, resource: Resource[Any]) -> bool:
    """Whether a reference is to an object of that kind, in whatever version of its group."""
    group, _, _ = reference.api_version.rpartition("/")
    return reference.kind == resource.kind and group == resource.group


def controller_reference(resource: Resource[Any], owner: ObjectMeta) -> JSON:
    """The reference that makes the owner the controller of an object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def adoption_patch(resource: Resource[Any], owner: ObjectMeta, adopted: ObjectMeta) -> JSON:
    """The strategic patch that adopts. The UID makes it fail on another object of the same name."""
    return {"metadata": {"uid": adopted.uid, "ownerReferences": [controller_reference(resource, owner)]}}


def release_patch(owner: ObjectMeta, released: ObjectMeta) -> JSON:
    """The strategic patch that lets go."""
    return {"metadata": {"uid": released.uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]}}
