"""Rules of workloads that are ignored because they are too many, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trimtab.api.workloads import ReplicaSetOwners
from trimtab.scaledown.constraints import excess, template_constraints
from trimtab.scaledown.policy.conflicts import MAX_LABELS, is_large
from trimtab.scaledown.policy.workloads import workload_ref
from trimtab.scaledown.view import View, Workload

OnIgnored = Callable[[Workload, str], None]


def ignored_rules(workload: Workload, owners: ReplicaSetOwners) -> Iterator[str]:
    """Which rules of a workload are ignored, and why. Pure."""
    if message := excess(template_constraints(workload.spec.template)):
        yield f"spec.template.spec.{message}"
    if is_large(workload_ref(workload, owners)):
        yield (
            f"spec.selector, spec.template.metadata.labels: have more than {MAX_LABELS} labels, expressions or values, "
            "so it is not known whether other workloads select the same pods"
        )


class IgnoredRuleReports:
    """Reports the ignored rules of each workload, once until they change."""

    def __init__(self, view: View, on_ignored: OnIgnored | None = None) -> None:
        self._view = view
        self._on_ignored = on_ignored
        self._known: dict[str, str] = {}

    def report(self, workload: Workload) -> None:
        """Report a workload, unless it is as it was reported already, or its owner is reported instead."""
        if self._on_ignored is None or self._view.is_managed(workload):
            return
        uid = workload.metadata.uid
        message = "; ".join(ignored_rules(workload, self._view.owners))
        before = self._known.pop(uid, "")
        if message:
            self._known[uid] = message
            if message != before:
                self._on_ignored(workload, message)

    def drop(self, workload: Workload) -> None:
        """Forget a workload that is gone."""
        self._known.pop(workload.metadata.uid, None)
