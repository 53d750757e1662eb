"""Requeue hints: the changes of a cluster after which a plugin may accept a pod that it refused.

Each plugin that filters declares its hints beside its filter, as values. A hint names a kind of change, and a
condition where the kind alone does not decide. A condition that is true without need costs one attempt; one that is
false without reason leaves a pod waiting for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from trimtab.api.pods import Pod
from trimtab.placement.changes import Action, Change, Subject
from trimtab.snapshot import Snapshot

P = TypeVar("P")


@dataclass(frozen=True, slots=True, eq=False)
class HintContext:
    """What a condition may read besides the pod and the change: the cluster, and the plugins of the pod's profile."""

    snapshot: Snapshot
    filters: Mapping[tuple[str, type[Any]], Any]
    """The filter plugins, by the profile's name and the plugin's type."""

    def plugin(self, pod: Pod, kind: type[P]) -> P | None:
        """The plugin of this type in the pod's profile, if the profile has it."""
        return self.filters.get((pod.spec.scheduler_name, kind))


Condition = Callable[[HintContext, Pod, Change], bool]
"""Whether a change of a hint's kind may help a pod."""


@dataclass(frozen=True, slots=True)
class RequeueHint:
    """A kind of change that may help a pod; without a condition, it always may."""

    subject: Subject
    actions: frozenset[Action]
    condition: Condition | None = None


Hints = tuple[RequeueHint, ...]


def hint(subject: Subject, *actions: Action, condition: Condition | None = None) -> RequeueHint:
    """A hint for these actions; without actions, for all."""
    return RequeueHint(subject, frozenset(actions or Action), condition)
