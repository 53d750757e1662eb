"""Leases (`coordination.k8s.io/v1`): who may act now."""

from __future__ import annotations

from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model


class LeaseSpec(Model):
    """Who holds a lease, since when, and how long it lasts."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Model):
    """A lease. Its times have microseconds, which a holder compares as written."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
