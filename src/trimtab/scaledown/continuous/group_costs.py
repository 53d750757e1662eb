"""Costs that are kept current in PodGroupCosts: one object, and one write, for a group of pods.

A PodGroupCost belongs to Trimtab if it has the annotation `trimtab.dev/policy-cost`; others are not changed. One of
ours whose spec another writer has changed does not count (see `ranking.explicit`), and is deleted and written again: an
update would leave the other writer the manager of the values that are right.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trimtab.api.annotations import FIELD_MANAGER, POLICY_COST
from trimtab.api.documents import JSON
from trimtab.api.scaledown import API_VERSION, GROUP_COST_KIND, PodGroupCost
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, ApiError, ConfigError, Conflict, NotFound
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Resource
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.policy.groups import GroupOwner

_GROUP_COSTS = Resource.of(PodGroupCost)

log = logging.getLogger(__name__)


def is_written_by_policy(costs: PodGroupCost) -> bool:
    """Whether a policy wrote it."""
    return POLICY_COST in costs.metadata.annotations


def group_object(owner: GroupOwner, policy: str, costs: Mapping[str, int]) -> JSON:
    """A PodGroupCost with all costs of a group; it is garbage-collected with the owner of the pods."""
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name}
    return {
        "apiVersion": API_VERSION,
        "kind": GROUP_COST_KIND,
        "metadata": {
            "name": owner.group_name,
            "namespace": owner.namespace,
            "annotations": {POLICY_COST: policy},
            "labels": {"app.kubernetes.io/managed-by": "trimtab"},
            "ownerReferences": [{**reference, "uid": owner.uid, "controller": False, "blockOwnerDeletion": False}],
        },
        "spec": {"owner": reference, "costs": dict(costs)},
    }


def group_patch(known: PodGroupCost, owner: GroupOwner, policy: str, costs: Mapping[str, int]) -> JSON | None:
    """The patch that gives a PodGroupCost these costs; None where it has them."""
    wanted = group_object(owner, policy, costs)
    owned = any(reference.uid == owner.uid for reference in known.metadata.owner_references)
    same = known.spec.costs == costs and known.metadata.annotations.get(POLICY_COST) == policy
    if same and owned and (known.spec.owner.kind, known.spec.owner.name) == (owner.kind, owner.name):
        return None
    gone = dict.fromkeys(known.spec.costs)
    metadata = {**wanted["metadata"], "resourceVersion": known.metadata.resource_version}
    return {"metadata": metadata, "spec": {**wanted["spec"], "costs": {**gone, **costs}}}


class GroupCosts:
    """Writes PodGroupCosts and deletes them."""

    def __init__(self, client: Client, limit: TokenBucket, *, metrics: Metrics | None = None) -> None:
        self._client = client
        self._limit = limit
        self._metrics = metrics or Metrics()

    async def write(
        self,
        owner: GroupOwner,
        policy: str,
        costs: Mapping[str, int],
        known: PodGroupCost | None,
        report: CarrierReport,
    ) -> None:
        """Give a group's PodGroupCost these costs. Raises Conflict where it has changed: the caller tries again."""
        if known is not None and not is_written_by_policy(known):
            return  # a rival has this name, which the policy's status reports
        if known is not None and (others := known.spec_managers - {FIELD_MANAGER}):
            name = f"{owner.namespace}/{owner.group_name}"
            log.warning("PodGroupCost %s was changed by %s: it is written again", name, ", ".join(sorted(others)))
            await self.revert(known, report, reason="changed")
            return
        patch = None if known is None else group_patch(known, owner, policy, costs)
        if known is not None and patch is None:
            return
        await self._limit.wait()
        try:
            if patch is None:
                await self._client.create(_GROUP_COSTS, group_object(owner, policy, costs), namespace=owner.namespace)
            else:
                await self._client.patch(_GROUP_COSTS, owner.group_name, patch, namespace=owner.namespace)
        except Conflict:
            raise
        except AlreadyExists as error:
            raise Conflict(f"PodGroupCost {owner.group_name} has just been created by another process") from error
        except (ApiError, ConfigError) as error:
            report.failed[owner.group_name] = str(error)
            return
        report.written += 1
        self._metrics.record_costs_written(1)

    async def revert(self, known: PodGroupCost, report: CarrierReport, *, reason: str) -> None:
        """Delete a PodGroupCost that a policy wrote."""
        if not is_written_by_policy(known):
            return
        metadata = known.metadata
        await self._limit.wait()
        try:
            await self._client.delete(_GROUP_COSTS, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except NotFound:
            return
        except (ApiError, ConfigError) as error:
            report.failed[metadata.name] = str(error)
            return
        report.reverted += 1
        self._metrics.record_costs_reverted(1, reason)
