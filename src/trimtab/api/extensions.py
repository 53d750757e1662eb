"""CustomResourceDefinitions (`apiextensions.k8s.io/v1`)."""

from __future__ import annotations

from typing import Any

import msgspec

from trimtab.api.documents import Document
from trimtab.api.meta import Condition, ObjectMeta
from trimtab.api.model import Model


class CustomResourceNames(Model):
    """The names of a custom kind."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class ScaleSubresource(Model):
    """The paths of a custom kind's replicas and selector."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str | None = None


class CustomResourceSubresources(Model):
    """The subresources of a custom kind; `status` is an empty object if it has one."""

    status: dict[str, Any] | None = None
    scale: ScaleSubresource | None = None


class CustomResourceColumn(Model):
    """A column that kubectl prints."""

    name: str
    type: str
    json_path: str = msgspec.field(name="jsonPath")
    description: str = ""
    format: str = ""
    priority: int = 0


class CustomResourceValidation(Model):
    """The schema, raw."""

    open_apiv3_schema: Document | None = msgspec.field(name="openAPIV3Schema", default=None)


class CustomResourceVersion(Model):
    """One version of a custom kind."""

    name: str
    served: bool = False
    storage: bool = False
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: tuple[CustomResourceColumn, ...] = ()


class CustomResourceDefinitionSpec(Model):
    """The spec of a custom kind."""

    group: str = ""
    names: CustomResourceNames = CustomResourceNames()
    scope: str = ""
    versions: tuple[CustomResourceVersion, ...] = ()


class CustomResourceDefinitionStatus(Model):
    """The status of a custom kind."""

    conditions: tuple[Condition, ...] = ()
    accepted_names: CustomResourceNames = CustomResourceNames()
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(Model):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
