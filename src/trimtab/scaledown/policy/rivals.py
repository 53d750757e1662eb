"""PodGroupCosts that do not count, and their reports: an event on the workload, and a metric.

Where a ScaleDownPolicy is enforced, those that its controller did not write; otherwise several for one workload.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api.annotations import Reason
from trimtab.api.meta import ObjectReference
from trimtab.kube.events import WARNING
from trimtab.scaledown.policy.explicit_ranks import several
from trimtab.scaledown.policy.groups import Group, GroupKey, Groups
from trimtab.scaledown.results.reporter import EventRecorder


def is_ranked_by_policy(group: Group) -> bool:
    """Whether a ScaleDownPolicy is enforced for a group: then only what its controller wrote counts."""
    return group.policy is not None and not group.policy.is_default and group.policy.is_enforced


def rivals(groups: Groups, group: Group) -> tuple[str, ...]:
    """The names of the PodGroupCosts that rank a group's pods and do not count."""
    costs = groups.costs_naming(group)
    return costs.names if is_ranked_by_policy(group) else costs.ambiguous


class RivalReports:
    """Reports the rivals of each group when they change."""

    def __init__(self, groups: Groups, recorder: EventRecorder | None = None) -> None:
        self._groups = groups
        self._recorder = recorder
        self._known: dict[GroupKey, tuple[str, ...]] = {}

    @property
    def count(self) -> int:
        """How many PodGroupCosts do not count."""
        return len({(key.namespace, name) for key, names in self._known.items() for name in names})

    def report(self, key: GroupKey, group: Group | None) -> None:
        """Record an event on a group's workload if it has rivals that it did not have before."""
        found = () if group is None else rivals(self._groups, group)
        new = set(found) - set(self._known.pop(key, ()))
        if found:
            self._known[key] = found
        if group is not None and new and self._recorder is not None:
            top = group.top
            about = ObjectReference(
                api_version=top.api_version, kind=top.kind, namespace=top.namespace, name=top.name, uid=top.uid
            )
            self._recorder.record(about, WARNING, Reason.RIVAL_COSTS.value, _message(group, found))

    def forget(self) -> None:
        """Forget all rivals: another process reports them."""
        self._known.clear()


def _message(group: Group, names: Sequence[str]) -> str:
    if not is_ranked_by_policy(group):
        return several(names)
    return f"PodGroupCost {', '.join(names)} does not count: {group.policy} ranks these pods; delete it"
