"""CloneSet (`apps.kruise.io/v1alpha1`): a workload that shrinks by topology."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from trimtab.api.documents import Document
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model

API_VERSION = "apps.kruise.io/v1alpha1"
KIND = "CloneSet"

SPECIFIED_DELETE = "apps.kruise.io/specified-delete"
"""A pod with this label goes first, whatever its rank."""


class ScaleStrategy(Model):
    """How a CloneSet grows and shrinks."""

    pods_to_delete: Annotated[
        tuple[str, ...], Meta(description="Names of pods that go first when the CloneSet shrinks.")
    ] = ()
    max_unavailable: Annotated[
        int | str | None,
        Meta(description="How many pods may be unavailable while it grows: a number or a percentage."),
    ] = None


class UpdateStrategy(Model):
    """How old pods give way to new ones."""

    type: Annotated[str, Meta(description="ReCreate; updates in place are not supported.")] = "ReCreate"
    partition: Annotated[int | str | None, Meta(description="Not supported: leave it out, or 0.")] = None
    max_unavailable: Annotated[
        int | str | None, Meta(description="How many pods may be unavailable during an update.")
    ] = None
    max_surge: Annotated[
        int | str | None,
        Meta(description="How many pods there may be beyond the wanted number during an update."),
    ] = None
    paused: Annotated[bool, Meta(description="Whether updates are paused.")] = False
    in_place_update_strategy: Annotated[Document | None, Meta(description="Not supported: leave it out.")] = None


class CloneSetSpec(Model, kw_only=True):
    """How many pods, which, what of, and how they come and go."""

    replicas: Annotated[int, Meta(description="How many pods there should be.", ge=0)] = 1
    selector: Annotated[LabelSelector, Meta(description="Which pods belong to it; must match the template's labels.")]
    template: Annotated[Document, Meta(description="What pods are made from.")]
    scale_strategy: Annotated[ScaleStrategy, Meta(description="How it grows and shrinks.")] = ScaleStrategy()
    update_strategy: Annotated[UpdateStrategy, Meta(description="How it is updated.")] = UpdateStrategy()
    revision_history_limit: Annotated[int, Meta(description="How many old revisions are kept.", ge=0)] = 10
    min_ready_seconds: Annotated[
        int, Meta(description="How long a pod must be ready before it counts as available.", ge=0)
    ] = 0
    volume_claim_templates: Annotated[tuple[Document, ...], Meta(description="Not supported: leave it out.")] = ()
    lifecycle: Annotated[Document | None, Meta(description="Not supported: leave it out.")] = None


class CloneSetStatus(Model):
    """How many there are."""

    observed_generation: Annotated[int, Meta(description="The generation that this status is about.")] = 0
    replicas: Annotated[int, Meta(description="How many pods there are.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many are ready.")] = 0
    available_replicas: Annotated[int, Meta(description="How many have been ready for minReadySeconds.")] = 0
    updated_replicas: Annotated[int, Meta(description="How many are of the newest revision.")] = 0
    updated_ready_replicas: Annotated[int, Meta(description="How many of those are ready.")] = 0
    update_revision: Annotated[str, Meta(description="The newest revision.")] = ""
    current_revision: Annotated[str, Meta(description="The revision before an update that is under way.")] = ""
    collision_count: Annotated[int | None, Meta(description="How often a revision's name was taken.")] = None
    label_selector: Annotated[str, Meta(description="The selector as text, for autoscalers.")] = ""
    conditions: Annotated[tuple[Condition, ...], Meta(description="What stands in the way, if anything.")] = ()


class CloneSet(Model, kw_only=True):
    """Keeps a number of identical pods, and lets go those first that keep the rest level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CloneSetSpec
    status: CloneSetStatus = CloneSetStatus()
