"""Checks of leaders and clocks.

A leader writes `renewTime` by its own clock. The API server notes beside it, by its own, when that field was last
written (`managedFields`): their difference is the offset of the leader's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from trimtab.api import times
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.doctor.facts import Facts
from trimtab.doctor.findings import Problem, name_of
from trimtab.install.options import account
from trimtab.kube.clock_offset import TOLERANCE

_GRACE = 5.0
"""Seconds after its duration in which a lease may still be renewed by a process that is only late."""


def lease_names(configuration: TrimtabConfiguration, components: tuple[str, ...]) -> dict[str, str]:
    """The name of each component's lease; none without leader election."""
    names = {component: account(component) for component in components}
    if "scheduler" in names and isinstance(configuration.scheduler, Mapping):
        election = configuration.scheduler.get("leaderElection") or {}
        names["scheduler"] = election.get("resourceName", names["scheduler"])
    return names if configuration.leader_election.enabled else {}


def no_leader(facts: Facts) -> Iterator[Problem]:
    """Components of which no process acts."""
    if facts.configuration is None:
        return
    found = {each["metadata"]["name"]: each for each in facts.leases or ()}
    for component, name in lease_names(facts.configuration, facts.components).items():
        reason = _why_free(found.get(name), facts)
        if reason:
            yield Problem(f"Lease {facts.namespace}/{name}", f"no process of {component} is the leader: {reason}")


def _why_free(lease: JSON | None, facts: Facts) -> str:
    if lease is None:
        return "the lease does not exist"
    spec = lease.get("spec") or {}
    if not spec.get("holderIdentity"):
        return "nothing holds the lease"
    renewed = _written_at(lease) or _seconds(spec.get("renewTime"))
    age = facts.now.timestamp() - renewed
    if age > (spec.get("leaseDurationSeconds") or 0) + _GRACE:
        return f"{spec['holderIdentity']} has not renewed it for {timedelta(seconds=round(age))}"
    return ""


def leader_clocks(facts: Facts) -> Iterator[Problem]:
    """Leaders whose clock differs from the API server's."""
    for each in facts.leases or ():
        spec = each.get("spec") or {}
        written, renewed = _written_at(each), _seconds(spec.get("renewTime"))
        offset = renewed - (written or max(facts.now.timestamp(), 0.0))
        is_known = bool(written) or offset > 0  # without managedFields only a clock that is ahead can be told
        if renewed and is_known and abs(offset) > TOLERANCE:
            word = "ahead of" if offset > 0 else "behind"
            holder = spec.get("holderIdentity") or "its last holder"
            yield Problem(name_of(each), f"the clock of {holder} is {abs(offset):.0f} s {word} the API server's")


def own_clock(facts: Facts) -> Iterator[Problem]:
    """A clock of this machine that differs from the API server's."""
    if abs(facts.clock_offset) > TOLERANCE:
        word = "behind" if facts.clock_offset > 0 else "ahead of"
        yield Problem("this machine", f"its clock is {abs(facts.clock_offset):.0f} s {word} the API server's")


def _written_at(lease: JSON) -> float:
    """When `renewTime` was last written, by the API server's clock; 0 if the API server does not say."""
    for each in lease["metadata"].get("managedFields") or ():
        if "f:renewTime" in ((each.get("fieldsV1") or {}).get("f:spec") or {}):
            return _seconds(each.get("time"))
    return 0.0


def _seconds(text: str | None) -> float:
    return times.parse_ns(text) / 1e9 if text else 0.0
