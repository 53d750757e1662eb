"""Which ScaleDownPolicy applies to each workload, kept until policies of the namespace, or the workload, change.

A workload is compared with all policies of its namespace, and reported by each of those that refer to it. Without this,
300 policies for 300 workloads would be compared with all of them again for the status of each policy.
"""

from __future__ import annotations

from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.scaledown.policy.effective import EffectivePolicy, PolicyTable
from trimtab.scaledown.policy.workloads import WorkloadRef
from trimtab.scaledown.view import View


class AppliedPolicies:
    """The ScaleDownPolicies that apply to workloads; default policies are not among them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._tables: dict[str, PolicyTable] = {}
        self._found: dict[str, dict[str, tuple[WorkloadRef, EffectivePolicy | None]]] = {}
        """By namespace and UID: the workload that was looked up, and its policy."""
        # Two handlers: one that is still told of earlier objects as added is not told of their deletion.
        view.policies.subscribe(added=self._forget_namespace)
        view.policies.subscribe(updated=self._changed, deleted=self._forget_namespace)

    def find(self, ref: WorkloadRef, *, keep: bool) -> EffectivePolicy | None:
        """The policy that applies to a workload; it is kept, if asked, until `forget`."""
        kept = self._found.setdefault(ref.namespace, {})
        known = kept.get(ref.uid)
        if known is not None and _is_matched_alike(known[0], ref):
            return known[1]
        found = self._table(ref.namespace).policy_for(ref)
        if keep:
            kept[ref.uid] = (ref, found)
        return found

    def forget(self, namespace: str, uid: str) -> None:
        """Forget a workload that is gone."""
        self._found.get(namespace, {}).pop(uid, None)

    def _table(self, namespace: str) -> PolicyTable:
        table = self._tables.get(namespace)
        if table is None:
            table = self._tables[namespace] = PolicyTable(self._view.policies_in(namespace))
        return table

    def _forget_namespace(self, policy: ScaleDownPolicy) -> None:
        self._tables.pop(policy.metadata.namespace, None)
        self._found.pop(policy.metadata.namespace, None)

    def _changed(self, old: ScaleDownPolicy, new: ScaleDownPolicy) -> None:
        """A change of the status alone, which is frequent, has no effect on what applies."""
        if old.metadata.deletion_timestamp != new.metadata.deletion_timestamp or old.spec != new.spec:
            self._forget_namespace(new)


def _is_matched_alike(one: WorkloadRef, other: WorkloadRef) -> bool:
    """Whether two versions of a workload are the same to policies."""
    is_named_alike = (one.identity, one.owner) == (other.identity, other.owner)
    return is_named_alike and one.pod_labels == other.pod_labels
