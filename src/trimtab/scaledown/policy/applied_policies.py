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

    def __len__(self) -> int:
        """The number of namespaces of which anything is kept: at most those that have policies."""
        return len(self._tables.keys() | self._found.keys())

    def find(self, ref: WorkloadRef, *, keep: bool) -> EffectivePolicy | None:
        """The policy that applies to a workload; it is kept, if asked, until `forget`. Of a namespace without policies
        nothing is."""
        known = self._found.get(ref.namespace, {}).get(ref.uid)
        if known is not None and _is_matched_alike(known[0], ref):
            return known[1]
        table = self._table(ref.namespace)
        if table is None:
            return None
        found = table.policy_for(ref)
        if keep:
            self._found.setdefault(ref.namespace, {})[ref.uid] = (ref, found)
        return found

    def forget(self, namespace: str, uid: str) -> None:
        """Forget a workload that is gone."""
        kept = self._found.get(namespace, {})
        kept.pop(uid, None)
        if not kept:
            self._found.pop(namespace, None)

    def _table(self, namespace: str) -> PolicyTable | None:
        """The policies of a namespace; None where it has none."""
        table = self._tables.get(namespace)
        if table is None and (policies := self._view.policies_in(namespace)):
            table = self._tables[namespace] = PolicyTable(policies)
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
