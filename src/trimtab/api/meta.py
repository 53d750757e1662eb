"""Types shared by all kinds: metadata, references, selectors as written, conditions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from trimtab.api.model import Model

Labels = Mapping[str, str]
"""Labels or annotations. Treated as frozen: objects may share a mapping."""


class OwnerReference(Model):
    """An owner of an object; at most one owner is its controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model):
    """The part of an object's metadata that Trimtab uses."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Labels = {}
    annotations: Labels = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that is the object's controller, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class ListMeta(Model):
    """The metadata of a list: its version, and the continue token."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class LabelSelectorRequirement(Model):
    """One expression of a label selector."""

    key: Annotated[str, Meta(description="The label key that the selector applies to.")]
    operator: Annotated[str, Meta(description="In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[tuple[str, ...], Meta(description="The values that the operator compares with.")] = ()


class LabelSelector(Model):
    """A label selector, as written. `selectors.compile` compiles it.

    An absent selector (`None`) matches nothing, an empty one (`LabelSelector()`) everything.
    """

    match_labels: Annotated[Labels, Meta(description="Labels that must have exactly these values.")] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Meta(description="Expressions that must all hold.")
    ] = ()


class Condition(Model):
    """A condition of a status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


class ObjectReference(Model):
    """A reference to an object, as in events and bindings."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
