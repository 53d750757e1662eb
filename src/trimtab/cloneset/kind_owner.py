"""Which controller the kind CloneSet belongs to, by its CustomResourceDefinition. Pure.

A definition of Trimtab carries our label. OpenKruise's own definition, applied over ours, keeps that label (an apply
adds to labels), but has the annotation of the generator that it is made with.
"""

from __future__ import annotations

from enum import Enum

from trimtab.api.crds import MANAGED_BY_LABELS
from trimtab.api.extensions import CustomResourceDefinition

DEFINITION = "clonesets.apps.kruise.io"
GROUP_COSTS = "podgroupcosts.trimtab.dev"
_GENERATOR = "controller-gen.kubebuilder.io/version"
_ESTABLISHED = "Established"


class KindOwner(Enum):
    """Whose definition of CloneSet a cluster has; the value is a message for people."""

    NONE = "the cluster has no kind CloneSet; to use CloneSets, apply deploy/crds/clonesets.yaml"
    TRIMTAB = "Trimtab manages the CloneSets of this cluster"
    OTHER = (
        "the CustomResourceDefinition of CloneSet is not Trimtab's but OpenKruise's: Trimtab leaves CloneSets to "
        "OpenKruise"
    )


def kind_owner(definition: CustomResourceDefinition | None) -> KindOwner:
    """The owner of the kind, by its definition."""
    if definition is None or not is_served(definition):
        return KindOwner.NONE
    metadata = definition.metadata
    labelled = all(metadata.labels.get(name) == value for name, value in MANAGED_BY_LABELS.items())
    return KindOwner.TRIMTAB if labelled and _GENERATOR not in metadata.annotations else KindOwner.OTHER


def is_served(definition: CustomResourceDefinition) -> bool:
    """Whether the API server serves the definition, and it is not being deleted."""
    if definition.metadata.deletion_timestamp is not None:
        return False
    return any(each.type == _ESTABLISHED and each.status == "True" for each in definition.status.conditions)
