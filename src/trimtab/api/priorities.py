"""Priority classes (`scheduling.k8s.io/v1`)."""

from __future__ import annotations

from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model


class PriorityClass(Model):
    """A PriorityClass: the value of a priority's name."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
