"""Disruption budgets and evictions (`policy/v1`), and delete options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model


class PodDisruptionBudgetSpec(Model):
    """The minimum of available, or maximum of unavailable, pods."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Model):
    """The disruptions that are allowed now."""

    observed_generation: int = 0
    disrupted_pods: Mapping[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Model):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class DeleteOptions(Model):
    """The options of a deletion."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()
    preconditions: Mapping[str, Any] = {}


class Eviction(Model):
    """A request to delete a pod that a disruption budget may refuse.

    A dry run may be requested in its options instead of the request's parameters.
    """

    metadata: ObjectMeta = ObjectMeta()
    delete_options: DeleteOptions | None = None
