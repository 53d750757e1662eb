"""CloneSet (`apps.kruise.io/v1alpha1`): a workload whose scale-downs keep topologies level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from trimtab.api import codec, complexity, limits, percent
from trimtab.api.annotations import RANK, RANKS
from trimtab.api.compiled_selectors import compiled
from trimtab.api.documents import Document, kept
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.templates import HASH_LABEL

API_VERSION = "apps.kruise.io/v1alpha1"
KIND = "CloneSet"

SPECIFIED_DELETE = "apps.kruise.io/specified-delete"
"""A pod with this label is deleted, and replaced unless the CloneSet is scaled down."""
INSTANCE_ID = "apps.kruise.io/cloneset-instance-id"
"""The label that identifies each pod of a CloneSet."""
REVISION_HASH = "controller-revision-hash"
"""The label with the revision of the template that a pod was created from."""
GENERATED_LABELS = (REVISION_HASH, HASH_LABEL, INSTANCE_ID)
"""The labels that the controller sets on each new pod, whatever its template says."""
_MAX_TEMPLATE = 30_000
"""The most values of a template: each revision is compared value by value."""
DEFAULT_MAX_UNAVAILABLE = "20%"
RECREATE = "ReCreate"
_ORDERED = "is not supported: pods are updated in the order in which they are deleted; remove this field"


class ScaleStrategy(Model):
    """How a CloneSet is scaled."""

    pods_to_delete: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of pods to delete; they are replaced unless the CloneSet is scaled down by as many.",
            max_length=10_000,
        ),
    ] = ()
    max_unavailable: Annotated[
        int | str | None,
        Meta(description="The maximum of unavailable pods during a scale-up: a number or a percentage."),
    ] = None


class UpdateStrategy(Model):
    """How old pods are replaced by new ones."""

    type: Annotated[str, Meta(description="ReCreate; updates in place are not supported.")] = "ReCreate"
    partition: Annotated[int | str | None, Meta(description="Not supported: omit it, or write 0.")] = None
    max_unavailable: Annotated[
        int | str | None,
        Meta(description="The maximum of unavailable pods during updates and deletions; 20% by default."),
    ] = None
    max_surge: Annotated[
        int | str | None,
        Meta(description="The maximum of pods above the desired number during an update: a number or a percentage."),
    ] = None
    paused: Annotated[bool, Meta(description="Whether updates are paused.")] = False
    in_place_update_strategy: Annotated[Document | None, Meta(description="Not supported: omit it.")] = None
    priority_strategy: Annotated[Document | None, Meta(description="Not supported: omit it.")] = None
    scatter_strategy: Annotated[tuple[Document, ...], Meta(description="Not supported: omit it.", max_length=100)] = ()


class CloneSetSpec(Model, kw_only=True):
    """The replicas, selector and template, and how pods are scaled and updated."""

    replicas: Annotated[int, Meta(description="The desired number of pods.", ge=0)] = 1
    selector: Annotated[
        LabelSelector, Meta(description="Selects the pods of the CloneSet; must match the template's labels.")
    ]
    template: Annotated[Document, Meta(description="The template that pods are created from.")]
    scale_strategy: Annotated[ScaleStrategy, Meta(description="How it is scaled.")] = ScaleStrategy()
    update_strategy: Annotated[UpdateStrategy, Meta(description="How it is updated.")] = UpdateStrategy()
    revision_history_limit: Annotated[int, Meta(description="The number of old revisions to keep.", ge=0)] = 10
    min_ready_seconds: Annotated[
        int, Meta(description="The seconds for which a pod must be ready before it counts as available.", ge=0)
    ] = 0
    volume_claim_templates: Annotated[
        tuple[Document, ...], Meta(description="Not supported: omit it.", max_length=100)
    ] = ()
    lifecycle: Annotated[Document | None, Meta(description="Not supported: omit it.")] = None


class RankWait(Model):
    """A scale-down that waits for the ranks of its pods."""

    since: Annotated[datetime, Meta(description="When it started to wait.")]
    among: Annotated[
        str, Meta(description="The pods that must be ranked together, if a deletion changes the ranks of the others.")
    ] = ""


class CloneSetStatus(Model):
    """The observed state."""

    observed_generation: Annotated[int, Meta(description="The generation that this status reports on.")] = 0
    replicas: Annotated[int, Meta(description="The number of pods.")] = 0
    ready_replicas: Annotated[int, Meta(description="The number of ready pods.")] = 0
    available_replicas: Annotated[
        int, Meta(description="The number of pods that have been ready for minReadySeconds.")
    ] = 0
    updated_replicas: Annotated[int, Meta(description="The number of pods of the newest revision.")] = 0
    updated_ready_replicas: Annotated[int, Meta(description="The number of ready pods of the newest revision.")] = 0
    updated_available_replicas: Annotated[
        int, Meta(description="The number of available pods of the newest revision.")
    ] = 0
    expected_updated_replicas: Annotated[
        int, Meta(description="The number of pods that should be of the newest revision.")
    ] = 0
    next_instance: Annotated[
        int, Meta(description="The number of the next pod: names are derived from it, so that no pod is created twice.")
    ] = 0
    rank_wait: Annotated[RankWait | None, Meta(description="The scale-down that waits for ranks, if there is one.")] = (
        None
    )
    update_revision: Annotated[str, Meta(description="The newest revision.")] = ""
    current_revision: Annotated[str, Meta(description="The revision before the current update.")] = ""
    collision_count: Annotated[int | None, Meta(description="The number of name collisions of revisions.")] = None
    label_selector: Annotated[str, Meta(description="The selector as text, for autoscalers.")] = ""
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(description="The current conditions, such as FailedScale and FailedUpdate.", max_length=32),
    ] = ()


class CloneSet(Model, kw_only=True):
    """CloneSet keeps a number of identical pods, and deletes first those whose removal keeps the rest level."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CloneSetSpec
    status: CloneSetStatus = CloneSetStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods requested."""
        return self.spec.replicas


def problems(cloneset: CloneSet) -> Iterator[InvalidError]:
    """The errors that a schema cannot find: unsupported fields and contradictions."""
    spec = cloneset.spec
    yield from _unsupported(spec)
    yield from _selection(spec)
    yield from _template_problems(spec.template)
    yield from _amounts(spec)
    rank = cloneset.metadata.annotations.get(RANK, RANKS[0])
    if rank not in RANKS:
        yield InvalidError(f"metadata.annotations[{RANK}]", f'"{rank}" is not a rank; write {" or ".join(RANKS)}')
    duplicates = [name for name, count in Counter(spec.scale_strategy.pods_to_delete).items() if count > 1]
    if duplicates:
        yield InvalidError("spec.scaleStrategy.podsToDelete", f'"{duplicates[0]}" is listed twice; list each pod once')


def immutable_field_problems(old: CloneSet, new: CloneSet) -> Iterator[InvalidError]:
    """The errors of a change to immutable fields: pods that no longer match would be released and created again."""
    if old.spec.selector != new.spec.selector:
        yield InvalidError("spec.selector", "cannot be changed; create another CloneSet with the new selector")


def _unsupported(spec: CloneSetSpec) -> Iterator[InvalidError]:
    update = spec.update_strategy
    if update.type != RECREATE:
        yield InvalidError(
            "spec.updateStrategy.type",
            f'"{update.type}" is not supported: pods are not updated in place; write {RECREATE} or omit it',
        )
    if update.in_place_update_strategy is not None:
        yield InvalidError(
            "spec.updateStrategy.inPlaceUpdateStrategy",
            "is not supported: pods are not updated in place; omit it",
        )
    if update.partition not in (None, 0, "0%"):
        yield InvalidError(
            "spec.updateStrategy.partition",
            "is not supported: updates are always completed; omit it or write 0, and use paused to stop an update",
        )
    if update.priority_strategy is not None:
        yield InvalidError("spec.updateStrategy.priorityStrategy", _ORDERED)
    if update.scatter_strategy:
        yield InvalidError("spec.updateStrategy.scatterStrategy", _ORDERED)
    if spec.volume_claim_templates:
        yield InvalidError(
            "spec.volumeClaimTemplates", "is not supported: claims are not created for pods; use a StatefulSet"
        )
    if spec.lifecycle is not None:
        yield InvalidError("spec.lifecycle", "is not supported: lifecycle hooks are not called; omit it")


def _selection(spec: CloneSetSpec) -> Iterator[InvalidError]:
    too_many = list(limits.problems(spec.selector, "spec.selector"))
    if too_many:
        yield from too_many
        return
    try:
        selector = compiled(spec.selector)
        labels = codec.view(spec.template, _LabelView).metadata.labels
    except InvalidError as error:
        known = error.path.startswith("match")
        yield error.under("spec.selector" if known else "spec.template")
        return
    if selector.empty:
        yield InvalidError("spec.selector", "is empty and would select every pod; write the labels of the template")
    elif not selector.matches(labels):
        yield InvalidError("spec.template.metadata.labels", f'do not match the selector "{selector}"')
    yield from _endless(spec.selector, labels)


def _endless(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[InvalidError]:
    """Errors that would create pods endlessly: each would be released or deleted as soon as it exists."""
    asked = {*selector.match_labels, *(each.key for each in selector.match_expressions)}
    for name in GENERATED_LABELS:
        if name in asked:
            yield InvalidError(
                "spec.selector", f'contains the label "{name}", which the controller sets on every pod; remove it'
            )
    if SPECIFIED_DELETE in labels:
        yield InvalidError(
            "spec.template.metadata.labels",
            f'contain "{SPECIFIED_DELETE}", so that every pod would be deleted and created again; remove it',
        )


@kept
def _template_problems(template: Document) -> tuple[InvalidError, ...]:
    """The errors of a template, kept: each reconcile needs them, and to read a large template takes long."""
    return tuple(_template(template))


def _template(template: Document) -> Iterator[InvalidError]:
    if complexity.has_more_values(template.text, _MAX_TEMPLATE):
        yield InvalidError("spec.template", f"has more than {_MAX_TEMPLATE:,} values; make it smaller")
        return
    spec = template.tree().get("spec") or {}
    if not isinstance(spec, dict):
        yield InvalidError("spec.template.spec", "must be the spec of a pod")
        return
    policy = spec.get("restartPolicy", "Always")
    if policy != "Always":
        yield InvalidError(
            "spec.template.spec.restartPolicy",
            f'"{policy}" is not supported: its pods run until they are deleted; write Always',
        )
    if spec.get("activeDeadlineSeconds") is not None:
        yield InvalidError("spec.template.spec.activeDeadlineSeconds", "is not supported; omit it")
    if spec.get("schedulingGroup") is not None:
        yield InvalidError(
            "spec.template.spec.schedulingGroup",
            "is not supported: pods are deleted one by one, whatever the disruption mode of their group is; omit it",
        )


def _amounts(spec: CloneSetSpec) -> Iterator[InvalidError]:
    update = spec.update_strategy
    amounts = {
        "spec.scaleStrategy.maxUnavailable": spec.scale_strategy.max_unavailable,
        "spec.updateStrategy.maxUnavailable": update.max_unavailable,
        "spec.updateStrategy.maxSurge": update.max_surge,
    }
    wrong = False
    for path, value in amounts.items():
        for error in _amount(path, value):
            wrong = True
            yield error
    if not wrong and _is_zero(update.max_unavailable) and (update.max_surge is None or _is_zero(update.max_surge)):
        yield InvalidError(
            "spec.updateStrategy.maxUnavailable",
            "is 0 and so is maxSurge: no pod could ever be updated; increase one of them",
        )


def _amount(path: str, value: int | str | None) -> Iterator[InvalidError]:
    try:
        amount = None if value is None else percent.parse(value)
    except InvalidError as error:
        yield error.under(path)
        return
    if amount is not None and amount.number < 0:
        yield InvalidError(path, f"{amount} is negative; write 0 or more")


def _is_zero(value: int | str | None) -> bool:
    return value is not None and percent.parse(value).number == 0


class _LabelView(Model):
    """The part of a template that a selector matches."""

    metadata: ObjectMeta = ObjectMeta()
