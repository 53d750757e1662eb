"""What all kinds share: metadata, references, selectors as they are written, conditions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from trimtab.api.model import Model

Labels = Mapping[str, str]
"""Labels or annotations. Treated as frozen: a mapping is shared by all the objects that were decoded with it."""


class OwnerReference(Model):
    """Who owns an object; at most one owner is its controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model):
    """The part of an object's metadata that decisions look at."""

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
        """The owner that manages this object, if there is one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class TypeMeta(Model):
    """Which kind of object this is, where nothing else is known yet."""

    api_version: str = ""
    kind: str = ""


class ListMeta(Model):
    """Where a list stands: its version, and the token for the next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class LabelSelectorRequirement(Model):
    """One expression of a label selector."""

    key: Annotated[str, Meta(description="The label key that the selector applies to.")]
    operator: Annotated[str, Meta(description="In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[tuple[str, ...], Meta(description="What the operator compares with.")] = ()


class LabelSelector(Model):
    """A label selector as it is written. `selectors.compile` turns it into something that matches.

    An absent selector matches nothing, an empty one everything: keep `None` and `LabelSelector()` apart.
    """

    match_labels: Annotated[Labels, Meta(description="Labels that must have exactly these values.")] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Meta(description="Expressions that must all hold.")
    ] = ()


class Condition(Model):
    """A condition in a status, of ours or of Kubernetes."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


class ObjectReference(Model):
    """A pointer to an object, as events and bindings carry it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
