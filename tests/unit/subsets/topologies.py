"""UnitedTopologies and pods in few words, for the tests of subsets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.api import codec
from trimtab.api.meta import ObjectMeta
from trimtab.api.unitedtopology import (
    ScheduleStrategy,
    Subset,
    TargetReference,
    UnitedTopology,
    UnitedTopologySpec,
    UnitedTopologyStatus,
)
from trimtab.subsets.members import Member
from trimtab.subsets.recount import Observation, Recount, recount

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REVISION = "r1"


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def subset(name: str, most: int | str | None = None, **fields: Any) -> Subset:
    """A subset; the rest of it as it is written in a manifest."""
    written = {"name": name} | ({} if most is None else {"maxReplicas": most}) | fields
    return codec.convert(written, Subset)


def topology(*subsets: Subset, adaptive: bool = False, generation: int = 1) -> UnitedTopology:
    """A UnitedTopology of a Deployment that has not been counted yet."""
    return UnitedTopology(
        metadata=ObjectMeta(name="spread", namespace="shop", generation=generation, resource_version="1"),
        spec=UnitedTopologySpec(
            target_ref=TargetReference(api_version="apps/v1", kind="Deployment", name="web"),
            subsets=subsets,
            schedule_strategy=ScheduleStrategy(type="Adaptive" if adaptive else "Fixed"),
        ),
    )


def with_status(of: UnitedTopology, status: UnitedTopologyStatus) -> UnitedTopology:
    """The same with another status."""
    return UnitedTopology(metadata=of.metadata, spec=of.spec, status=status)


def member(name: str, subset_name: str = "", **fields: Any) -> Member:
    """An active pod of the usual revision, with a reservation."""
    defaults: dict[str, Any] = {"revision": REVISION, "reservation": f"of-{name}", "version": "1"}
    return Member(name=name, subset=subset_name, **(defaults | fields))


def counted(
    of: UnitedTopology, *members: Member, replicas: int = 10, version: str = "1", now: datetime = NOON, **more: Any
) -> UnitedTopology:
    """The UnitedTopology after a count of these pods."""
    observed = Observation(members, replicas, more.pop("revision", REVISION), version, **more)
    result = recount(of, observed, now=now)
    assert isinstance(result, Recount)
    return with_status(of, result.status)
