"""CloneSet (`apps.kruise.io/v1alpha1`): a workload that shrinks by topology."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from trimtab.api import codec, percent, selectors
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.templates import HASH_LABEL

API_VERSION = "apps.kruise.io/v1alpha1"
KIND = "CloneSet"

SPECIFIED_DELETE = "apps.kruise.io/specified-delete"
"""A pod with this label goes, and is replaced unless the CloneSet shrinks."""
INSTANCE_ID = "apps.kruise.io/cloneset-instance-id"
"""The label that tells the pods of a CloneSet apart."""
REVISION_HASH = "controller-revision-hash"
"""The label that says which revision of the template a pod was made from."""
GENERATED_LABELS = (REVISION_HASH, HASH_LABEL, INSTANCE_ID)
"""The labels that a pod gets when it is made, whatever its template says of them."""
DEFAULT_MAX_UNAVAILABLE = "20%"
RECREATE = "ReCreate"
_ORDERED = "is not supported: which pods are updated first follows from the order in which they go; leave it out"


class ScaleStrategy(Model):
    """How a CloneSet grows and shrinks."""

    pods_to_delete: Annotated[
        tuple[str, ...],
        Meta(description="Names of pods that go; they are replaced unless the CloneSet shrinks by as many."),
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
        int | str | None,
        Meta(description="How many of the wanted pods may be unavailable because of an update or a deletion; 20%."),
    ] = None
    max_surge: Annotated[
        int | str | None,
        Meta(description="How many pods there may be beyond the wanted number during an update."),
    ] = None
    paused: Annotated[bool, Meta(description="Whether updates are paused.")] = False
    in_place_update_strategy: Annotated[Document | None, Meta(description="Not supported: leave it out.")] = None
    priority_strategy: Annotated[Document | None, Meta(description="Not supported: leave it out.")] = None
    scatter_strategy: Annotated[tuple[Document, ...], Meta(description="Not supported: leave it out.")] = ()


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


class RankWait(Model):
    """A scale-down that waits for ranks."""

    since: Annotated[datetime, Meta(description="Since when.")]
    among: Annotated[
        str, Meta(description="Which pods must be ranked together, where a removal changes the ranks of the others.")
    ] = ""


class CloneSetStatus(Model):
    """How many there are."""

    observed_generation: Annotated[int, Meta(description="The generation that this status is about.")] = 0
    replicas: Annotated[int, Meta(description="How many pods there are.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many are ready.")] = 0
    available_replicas: Annotated[int, Meta(description="How many have been ready for minReadySeconds.")] = 0
    updated_replicas: Annotated[int, Meta(description="How many are of the newest revision.")] = 0
    updated_ready_replicas: Annotated[int, Meta(description="How many of those are ready.")] = 0
    updated_available_replicas: Annotated[int, Meta(description="How many of those are available.")] = 0
    expected_updated_replicas: Annotated[int, Meta(description="How many should be of the newest revision.")] = 0
    next_instance: Annotated[
        int, Meta(description="The number of the next pod: names are made from it, so that none is made twice.")
    ] = 0
    rank_wait: Annotated[RankWait | None, Meta(description="The scale-down that waits for ranks, if one does.")] = None
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

    @property
    def desired_replicas(self) -> int:
        """The number of pods asked for."""
        return self.spec.replicas


def problems(cloneset: CloneSet) -> Iterator[InvalidError]:
    """What makes a CloneSet unusable, although it is of the right shape: what is not supported, and what cannot be."""
    spec = cloneset.spec
    yield from _unsupported(spec)
    yield from _selection(spec)
    yield from _template(spec.template)
    yield from _amounts(spec)
    twice = [name for name, count in Counter(spec.scale_strategy.pods_to_delete).items() if count > 1]
    if twice:
        yield InvalidError("spec.scaleStrategy.podsToDelete", f'"{twice[0]}" is listed twice; list each pod once')


def immutable_field_problems(old: CloneSet, new: CloneSet) -> Iterator[InvalidError]:
    """What may not change. Pods that a selector no longer matched would be let go, and made a second time."""
    if old.spec.selector != new.spec.selector:
        yield InvalidError("spec.selector", "cannot be changed; make another CloneSet with the selector you want")


def _unsupported(spec: CloneSetSpec) -> Iterator[InvalidError]:
    update = spec.update_strategy
    if update.type != RECREATE:
        yield InvalidError(
            "spec.updateStrategy.type",
            f'"{update.type}" is not supported: pods are not updated in place; write {RECREATE}, or leave it out',
        )
    if update.in_place_update_strategy is not None:
        yield InvalidError(
            "spec.updateStrategy.inPlaceUpdateStrategy",
            "is not supported: pods are not updated in place; leave it out",
        )
    if update.partition not in (None, 0, "0%"):
        yield InvalidError(
            "spec.updateStrategy.partition",
            "is not supported: an update always comes to an end; leave it out, or write 0, and use paused to hold it",
        )
    if update.priority_strategy is not None:
        yield InvalidError("spec.updateStrategy.priorityStrategy", _ORDERED)
    if update.scatter_strategy:
        yield InvalidError("spec.updateStrategy.scatterStrategy", _ORDERED)
    if spec.volume_claim_templates:
        yield InvalidError(
            "spec.volumeClaimTemplates", "is not supported: claims are not made for pods; use a StatefulSet for that"
        )
    if spec.lifecycle is not None:
        yield InvalidError("spec.lifecycle", "is not supported: no hooks are waited for; leave it out")


def _selection(spec: CloneSetSpec) -> Iterator[InvalidError]:
    try:
        selector = selectors.compile(spec.selector)
        labels = codec.view(spec.template, _Labelled).metadata.labels
    except InvalidError as error:
        known = error.path.startswith("match")
        yield error.under("spec.selector" if known else "spec.template")
        return
    if selector.empty:
        yield InvalidError("spec.selector", "is empty, which would select every pod; write the labels of the template")
    elif not selector.matches(labels):
        yield InvalidError("spec.template.metadata.labels", f'do not match the selector "{selector}"')
    yield from _endless(spec.selector, labels)


def _endless(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[InvalidError]:
    """What would have pods made without end: each would be let go, or deleted, as soon as it is there."""
    asked = {*selector.match_labels, *(each.key for each in selector.match_expressions)}
    for name in GENERATED_LABELS:
        if name in asked:
            yield InvalidError(
                "spec.selector", f'asks for the label "{name}", which every pod is given when it is made; leave it out'
            )
    if SPECIFIED_DELETE in labels:
        yield InvalidError(
            "spec.template.metadata.labels",
            f'have "{SPECIFIED_DELETE}", with which every pod would be deleted and made again; leave it out',
        )


def _template(template: Document) -> Iterator[InvalidError]:
    spec = template.tree().get("spec") or {}
    if not isinstance(spec, dict):
        yield InvalidError("spec.template.spec", "must be the spec of a pod")
        return
    policy = spec.get("restartPolicy", "Always")
    if policy != "Always":
        yield InvalidError(
            "spec.template.spec.restartPolicy", f'"{policy}" is not supported: its pods run until they go; write Always'
        )
    if spec.get("activeDeadlineSeconds") is not None:
        yield InvalidError("spec.template.spec.activeDeadlineSeconds", "is not supported; leave it out")


def _amounts(spec: CloneSetSpec) -> Iterator[InvalidError]:
    update = spec.update_strategy
    written = {
        "spec.scaleStrategy.maxUnavailable": spec.scale_strategy.max_unavailable,
        "spec.updateStrategy.maxUnavailable": update.max_unavailable,
        "spec.updateStrategy.maxSurge": update.max_surge,
    }
    wrong = False
    for path, value in written.items():
        for error in _amount(path, value):
            wrong = True
            yield error
    if not wrong and _none(update.max_unavailable) and (update.max_surge is None or _none(update.max_surge)):
        yield InvalidError(
            "spec.updateStrategy.maxUnavailable",
            "is 0 and so is maxSurge, so that no pod could ever be updated; raise one of them",
        )


def _amount(path: str, value: int | str | None) -> Iterator[InvalidError]:
    try:
        amount = None if value is None else percent.parse(value)
    except InvalidError as error:
        yield error.under(path)
        return
    if amount is not None and amount.number < 0:
        yield InvalidError(path, f"{amount} is negative; write 0 or more")


def _none(value: int | str | None) -> bool:
    return value is not None and percent.parse(value).number == 0


class _Labelled(Model):
    """The part of a template that a selector looks at."""

    metadata: ObjectMeta = ObjectMeta()
