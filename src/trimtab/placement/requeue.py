"""Which changes requeue a pod, by the plugins that refused it.

A pod is requeued if the hints of *one* of these plugins say that the change may help it. The hints are declared beside
the plugins and reach this module through the registry. A plugin without hints may be helped by every change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from trimtab.api.pods import Pod
from trimtab.placement import support
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.hints import Condition, HintContext, Hints, hint
from trimtab.placement.plugins import PLUGINS
from trimtab.placement.profiles import Profile
from trimtab.snapshot import Snapshot

NO_NODES = ""
"""Stands for the plugin that refused a pod where the cluster has no node at all."""
UNSUPPORTED = "Unsupported"
"""Stands for the plugin that refused a pod which needs what Trimtab does not support."""

HINTS: Mapping[str, Hints] = {
    NO_NODES: (hint(Subject.NODE, Action.ADD),),
    UNSUPPORTED: support.HINTS,
    **{name: plugin.hints for name, plugin in PLUGINS.items() if plugin.hints is not None},
}
"""The changes that may help a pod, by the plugin that refused it."""

_Conditions = dict[str, list[Condition | None]]


def _by_change() -> dict[tuple[Subject, Action], _Conditions]:
    table: dict[tuple[Subject, Action], _Conditions] = {}
    for plugin, hints in HINTS.items():
        for each in hints:
            for action in each.actions:
                table.setdefault((each.subject, action), {}).setdefault(plugin, []).append(each.condition)
    return table


_BY_CHANGE = _by_change()
"""For each kind of change, the plugins that it may concern, and under which conditions."""
_NO_CONDITIONS: _Conditions = {}


class RequeueHints:
    """The hints for the pods of these profiles, in this cluster."""

    def __init__(self, profiles: Mapping[str, Profile], snapshot: Snapshot) -> None:
        filters = {(name, type(plugin)): plugin for name, profile in profiles.items() for plugin in profile.filters}
        self._context = HintContext(snapshot, filters)

    def can_help(self, pod: Pod, refused_by: Collection[str], change: Change) -> bool:
        """Whether the change may let the pod pass one of the plugins that refused it."""
        concerned = _BY_CHANGE.get((change.subject, change.action), _NO_CONDITIONS)
        for plugin in refused_by:
            if plugin not in HINTS:
                return True
            for condition in concerned.get(plugin, ()):
                if condition is None or condition(self._context, pod, change):
                    return True
        return False


def concerns(change: Change) -> Callable[[Iterable[str]], bool]:
    """A quick test of whether a change is of a kind that concerns any of the plugins that it is given."""
    concerned = _BY_CHANGE.get((change.subject, change.action), _NO_CONDITIONS)
    return lambda refused_by: any(plugin in concerned or plugin not in HINTS for plugin in refused_by)
