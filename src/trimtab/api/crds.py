"""The CustomResourceDefinitions of our kinds, generated from their types (see `crdschemas`)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from trimtab.api.cloneset import CloneSet
from trimtab.api.crdschemas import object_schema
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceColumn, ScaleSubresource
from trimtab.api.model import Model
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology

MANAGED_BY_LABELS = {"app.kubernetes.io/managed-by": "trimtab"}
"""The label of our definitions. A definition of the same name without it belongs to another program."""


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One of our kinds: its type, its names, and the columns that kubectl prints. All are namespaced."""

    model: type[Model]
    group: str
    version: str
    kind: str
    plural: str
    short_name: str
    columns: tuple[CustomResourceColumn, ...]
    scale: ScaleSubresource | None = None

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}"

    @property
    def name(self) -> str:
        """The name of its definition."""
        return f"{self.plural}.{self.group}"

    @property
    def has_status(self) -> bool:
        """Whether it has a status, served as a subresource, so that writing the spec cannot change it."""
        return any(field.encode_name == "status" for field in msgspec.structs.fields(self.model))


def _column(name: str, path: str, type: str = "string", *, wide: bool = False) -> CustomResourceColumn:  # noqa: A002 - the field's name
    return CustomResourceColumn(name=name, type=type, json_path=path, priority=1 if wide else 0)


_AGE = _column("Age", ".metadata.creationTimestamp", "date")

# A column shows only the first match of its path, so there are no columns for lists (subsets, images).
KINDS: tuple[CustomKind, ...] = (
    CustomKind(
        model=UnitedTopology,
        group="apps.kruise.io",
        version="v1alpha1",
        kind="UnitedTopology",
        plural="unitedtopologies",
        short_name="ut",
        columns=(
            _column("Target-Kind", ".spec.targetRef.kind"),
            _column("Target", ".spec.targetRef.name"),
            _column("Strategy", ".spec.scheduleStrategy.type"),
            _column("Replicas", ".status.replicas", "integer"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            _AGE,
            _column("Reason", '.status.conditions[?(@.type=="Ready")].reason', wide=True),
        ),
    ),
    CustomKind(
        model=CloneSet,
        group="apps.kruise.io",
        version="v1alpha1",
        kind="CloneSet",
        plural="clonesets",
        short_name="clone",
        columns=(
            _column("Desired", ".spec.replicas", "integer"),
            _column("Updated", ".status.updatedReplicas", "integer"),
            _column("Updated_Ready", ".status.updatedReadyReplicas", "integer"),
            _column("Updated_Available", ".status.updatedAvailableReplicas", "integer"),
            _column("Ready", ".status.readyReplicas", "integer"),
            _column("Total", ".status.replicas", "integer"),
            _AGE,
            _column("Selector", ".status.labelSelector", wide=True),
        ),
        scale=ScaleSubresource(
            spec_replicas_path=".spec.replicas",
            status_replicas_path=".status.replicas",
            label_selector_path=".status.labelSelector",
        ),
    ),
    CustomKind(
        model=ScaleDownPolicy,
        group="trimtab.dev",
        version="v1alpha1",
        kind="ScaleDownPolicy",
        plural="scaledownpolicies",
        short_name="sdp",
        columns=(
            _column("Target-Kind", ".spec.targetRef.kind"),
            _column("Target", ".spec.targetRef.name"),
            _column("Mode", ".spec.mode"),
            _column("Delivery", ".spec.delivery"),
            _column("Carrier", ".spec.carrier"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            _column("Last-From", ".status.lastPlan.from", "integer"),
            _column("Last-To", ".status.lastPlan.to", "integer"),
            _AGE,
            _column("Error", ".status.lastError", wide=True),
        ),
    ),
    CustomKind(
        model=PodGroupCost,
        group="trimtab.dev",
        version="v1alpha1",
        kind="PodGroupCost",
        plural="podgroupcosts",
        short_name="pgc",
        columns=(
            _column("Owner-Kind", ".spec.owner.kind"),
            _column("Owner", ".spec.owner.name"),
            _AGE,
        ),
    ),
)
"""Every kind that Trimtab installs."""


def manifests() -> list[JSON]:
    """The definitions of all our kinds, ready to be applied."""
    return [manifest(kind) for kind in KINDS]


def manifest(kind: CustomKind) -> JSON:
    """The definition of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name, "labels": dict(MANAGED_BY_LABELS)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": _names(kind),
            "versions": [_version(kind)],
        },
    }


def schema(kind: CustomKind) -> JSON:
    """The schema of the kind's objects. The server validates metadata itself; a schema may not describe it."""
    root = object_schema(kind.model)
    root["properties"] = {
        "apiVersion": {"description": f"Always {kind.api_version}.", "type": "string"},
        "kind": {"description": f"Always {kind.kind}.", "type": "string"},
        **root["properties"],
        "metadata": {"type": "object"},
    }
    return root


def _names(kind: CustomKind) -> JSON:
    return {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": [kind.short_name],
        "categories": ["trimtab"],
    }


def _version(kind: CustomKind) -> JSON:
    version: JSON = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [msgspec.to_builtins(column) for column in kind.columns],
    }
    subresources = _subresources(kind)
    if subresources:
        version["subresources"] = subresources
    return version | {"schema": {"openAPIV3Schema": schema(kind)}}


def _subresources(kind: CustomKind) -> JSON:
    subresources: JSON = {"status": {}} if kind.has_status else {}
    if kind.scale is not None:
        subresources["scale"] = msgspec.to_builtins(kind.scale)
    return subresources
