"""CustomResourceDefinitions (`apiextensions.k8s.io/v1`).

A cluster may have hundreds, with schemas of a megabyte. Those who watch them look at whether a kind is served, so that
is all that is read.
"""

from __future__ import annotations

import msgspec

from trimtab.api.meta import Condition, ObjectMeta
from trimtab.api.model import Model


class ScaleSubresource(Model):
    """The paths of a custom kind's replicas and selector."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str | None = None


class CustomResourceColumn(Model):
    """A column that kubectl prints."""

    name: str
    type: str
    json_path: str = msgspec.field(name="jsonPath")
    description: str = ""
    format: str = ""
    priority: int = 0


class CustomResourceDefinitionStatus(Model):
    """The status of a custom kind."""

    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(Model):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta = ObjectMeta()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
