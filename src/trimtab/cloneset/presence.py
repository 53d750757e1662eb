"""Whose kind CloneSet is: a definition that we wrote carries our label, and nothing of OpenKruise's. Pure.

OpenKruise's own definition, applied over ours, keeps our label (an apply adds to labels), but brings the annotation of
the generator that it is made with.
"""

from __future__ import annotations

from enum import Enum

from trimtab.api.crds import MANAGED_BY_LABELS
from trimtab.api.extensions import CustomResourceDefinition

DEFINITION = "clonesets.apps.kruise.io"
GROUP_COSTS = "podgroupcosts.trimtab.dev"
_GENERATOR = "controller-gen.kubebuilder.io/version"
_ESTABLISHED = "Established"


class Presence(Enum):
    """Who serves the kind."""

    NOBODY = "no API server serves CloneSets here; apply deploy/crds/clonesets.yaml, and they are looked after"
    OURS = "CloneSets are looked after"
    OTHERS = (
        "the CloneSets of this cluster are OpenKruise's: its definition is not Trimtab's, so Trimtab stands back "
        "and leaves them to OpenKruise"
    )


def presence(definition: CustomResourceDefinition | None) -> Presence:
    """Whose the kind is, by its definition."""
    if definition is None or not served(definition):
        return Presence.NOBODY
    metadata = definition.metadata
    labelled = all(metadata.labels.get(name) == value for name, value in MANAGED_BY_LABELS.items())
    return Presence.OURS if labelled and _GENERATOR not in metadata.annotations else Presence.OTHERS


def served(definition: CustomResourceDefinition) -> bool:
    """Whether the API server has taken the definition up, and is not about to drop it."""
    if definition.metadata.deletion_timestamp is not None:
        return False
    return any(each.type == _ESTABLISHED and each.status == "True" for each in definition.status.conditions)
