"""Controller references: which objects a workload owns, adopts and releases.

An object belongs to the workload whose UID its controller reference names. The workload's selector decides which
objects it should own:

| the controller of the object | its labels match the selector | they do not |
|---|---|---|
| this workload | owned | released |
| none | adopted, unless it is being deleted | ignored |
| another one | ignored | ignored |

A workload that is being deleted keeps the matching objects that it owns, and neither adopts nor releases: the garbage
collector handles them.
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
    """The objects that a workload owns, and those that it should adopt and release."""

    owned: tuple[T, ...] = ()
    adopted: tuple[T, ...] = ()
    released: tuple[T, ...] = ()


def claims(owner: ObjectMeta, selector: Selector, candidates: Iterable[T]) -> Claims[T]:
    """Classify the objects of the owner's namespace."""
    owned: list[T] = []
    adopted: list[T] = []
    released: list[T] = []
    deleting = owner.deletion_timestamp is not None
    for candidate in candidates:
        metadata = candidate.metadata
        matches = selector.matches(metadata.labels)
        controller = metadata.controller
        if controller is None:
            if matches and not deleting and metadata.deletion_timestamp is None:
                adopted.append(candidate)
        elif controller.uid == owner.uid:
            if matches:
                owned.append(candidate)
            elif not deleting:
                released.append(candidate)
    return Claims(tuple(owned), tuple(adopted), tuple(released))


def is_controlled_by(an_object: Object, owner: Object) -> bool:
    """Whether this owner is the object's controller."""
    controller = an_object.metadata.controller
    return controller is not None and controller.uid == owner.metadata.uid


def refers_to(reference: OwnerReference, resource: Resource[Any]) -> bool:
    """Whether a reference is to that kind, in any version of its group."""
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
    """The strategic merge patch that adopts. The UID makes it fail on another object of the same name."""
    return {"metadata": {"uid": adopted.uid, "ownerReferences": [controller_reference(resource, owner)]}}


def release_patch(owner: ObjectMeta, released: ObjectMeta) -> JSON:
    """The strategic merge patch that removes the owner reference."""
    return {"metadata": {"uid": released.uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]}}
