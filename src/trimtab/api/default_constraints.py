"""The part of the configuration that is about default constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from trimtab.api.meta import LabelSelector
from trimtab.api.model import Model
from trimtab.api.schedulerconfig import DefaultConstraint


class ConstraintRule(Model):
    """Default constraints for the pods of some namespaces."""

    name: Annotated[
        str, Meta(description="its name in the annotation of pods and in logs, such as racks", min_length=1)
    ] = "default"
    namespace_selector: Annotated[
        LabelSelector | None, Meta(description="a label selector of namespaces; all namespaces if omitted")
    ] = None
    constraints: Annotated[
        tuple[DefaultConstraint, ...],
        Meta(description="a list of topology spread constraints without labelSelector; empty for none"),
    ] = ()


class DefaultConstraintSettings(Model):
    """Which default constraints pods have, and how they reach them."""

    delivery: Annotated[
        Literal["Scheduler", "Admission"],
        Meta(
            description="Scheduler (applied by each pod's scheduler, never stored) or Admission (written into new pods "
            "of namespaces with the label trimtab.dev/default-constraints=enabled)"
        ),
    ] = "Scheduler"
    kube_scheduler: Annotated[
        Mapping[str, Any] | str | None,
        Meta(description="kube-scheduler's own KubeSchedulerConfiguration, or the path of a file that contains it"),
    ] = None
    rules: Annotated[
        tuple[ConstraintRule, ...],
        Meta(description="the constraints of Admission, by namespace; the first rule that matches applies"),
    ] = ()
