"""What of an object is kept: the fields and annotations that decisions look at, and nothing else.

Typed objects have no environment, no commands and no volumes' contents to begin with. What they keep whole is reduced
here: templates and patches become the fields of our types, annotations those of the table below, volumes the mere fact
that they are there, and free text (messages of conditions) is dropped.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from trimtab.api import codec
from trimtab.api.annotations import ALPHA_COST, DELETION_COST, SUBSET_KEYS
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document, kept
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod, PodCondition, PodSpec, PodTemplateSpec, Volume
from trimtab.api.scaledown import PodGroupCost
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.unitedtopology.targets import REVISION

T = TypeVar("T")

_PREFIXES = ("trimtab.dev/", "deployment.kubernetes.io/")
KEPT_ANNOTATIONS = frozenset({DELETION_COST, ALPHA_COST, *SUBSET_KEYS})
"""The annotations that decisions look at, beside Trimtab's own, those of Deployments on their ReplicaSets, and the
revisions that other kinds write there."""


_ANYWHERE = Volume()
"""A volume that any node can mount."""


def trimmed(an_object: T) -> T:
    """An object with only what decisions look at."""
    changes: dict[str, Any] = {"metadata": _metadata(an_object.metadata)}  # type: ignore[attr-defined]
    spec = getattr(an_object, "spec", None)
    if isinstance(an_object, Pod):
        changes["spec"] = _pod_spec(an_object.spec)
        changes["status"] = _without_text(an_object.status)
    elif isinstance(an_object, PodGroupCost):
        managers = tuple(each for each in an_object.metadata.managed_fields if each.fields.spec is not None)
        changes["metadata"] = msgspec.structs.replace(changes["metadata"], managed_fields=managers)
    elif isinstance(an_object, UnitedTopology):
        changes["spec"] = _topology_spec(an_object)
    elif isinstance(an_object, CloneSet):
        changes["spec"] = _cloneset_spec(an_object)
    elif spec is not None and getattr(spec, "template", None) is not None:
        changes["spec"] = msgspec.structs.replace(spec, template=_template(spec.template))
    status = changes.get("status", getattr(an_object, "status", None))
    if status is not None and not isinstance(an_object, Pod) and hasattr(status, "conditions"):
        changes["status"] = _without_text(status)
    return msgspec.structs.replace(an_object, **changes)  # type: ignore[type-var]


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    kept = {name: text for name, text in metadata.annotations.items() if _is_kept(name)}
    if len(kept) == len(metadata.annotations):
        return metadata
    return msgspec.structs.replace(metadata, annotations=kept)


def _is_kept(annotation: str) -> bool:
    return annotation in KEPT_ANNOTATIONS or annotation.startswith(_PREFIXES) or annotation.endswith(REVISION)


def _pod_spec(spec: PodSpec) -> PodSpec:
    if not spec.volumes:
        return spec
    return msgspec.structs.replace(spec, volumes=tuple(each for each in spec.volumes if each != _ANYWHERE))


def _without_text(status: T) -> T:
    """A status whose conditions have no messages: they are free text of other programs."""
    conditions = tuple(_without_message(each) for each in status.conditions)  # type: ignore[attr-defined]
    return msgspec.structs.replace(status, conditions=conditions)  # type: ignore[type-var]


def _without_message(condition: Any) -> Any:
    if isinstance(condition, PodCondition) and condition.type == "PodScheduled":
        return condition  # the scheduler's own words about nodes, which `explain` shows
    return msgspec.structs.replace(condition, message="") if condition.message else condition


@kept
def _template(template: Document) -> Document:
    """A template with the fields of our types alone; empty where it cannot be read."""
    try:
        read = codec.view(template, PodTemplateSpec)
    except InvalidError:
        return Document({})
    kept = PodTemplateSpec(metadata=_metadata(read.metadata), spec=_pod_spec(read.spec))
    return Document.of_text(codec.encode(kept))


def _cloneset_spec(cloneset: CloneSet) -> Any:
    """A CloneSet's spec without the fields that its controller refuses anyway."""
    spec = cloneset.spec
    strategy = msgspec.structs.replace(
        spec.update_strategy, in_place_update_strategy=None, priority_strategy=None, scatter_strategy=()
    )
    return msgspec.structs.replace(
        spec, template=_template(spec.template), update_strategy=strategy, volume_claim_templates=(), lifecycle=None
    )


def _topology_spec(topology: UnitedTopology) -> Any:
    subsets = tuple(
        subset if subset.patch is None else msgspec.structs.replace(subset, patch=_template(subset.patch))
        for subset in topology.spec.subsets
    )
    return msgspec.structs.replace(topology.spec, subsets=subsets)
