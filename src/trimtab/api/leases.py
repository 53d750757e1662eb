"""Leases (`coordination.k8s.io/v1`)."""

from __future__ import annotations

from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model


class LeaseSpec(Model):
    """The holder of a lease, and its times."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Model):
    """A Lease. Its times are kept as text, with microseconds."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
