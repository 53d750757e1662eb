"""A scheduler's settings, read from a `KubeSchedulerConfiguration` as kube-scheduler's file has it.

Three defaults differ, because Trimtab runs beside kube-scheduler rather than in its place:

- The lease is `trimtab-scheduler` unless the file names another: waiting for kube-scheduler's own would be for ever.
- The only profile of a configuration that names none is `trimtab` rather than `default-scheduler`, unless the caller
  says otherwise: two schedulers must not serve the same pods.
- `clientConnection.qps` limits what is written only where the file states it: API servers protect themselves. Events
  have a limit of their own, as high.

`parallelism` is how many bindings may be under way at once; deciding needs no threads here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trimtab.api import schedulerconfig
from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import KIND, V1, LeaderElection, SchedulerConfiguration
from trimtab.kube.leases import LeaseTimings
from trimtab.kube.retries import Backoff
from trimtab.placement.profiles import Profile, profiles

SCHEDULER_NAME = "trimtab"
LEASE_NAME = "trimtab-scheduler"

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:h|ms|us|µs|ns|m|s))+|0")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|µs|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


BACKOFF = Backoff(initial=1.0, cap=10.0)


@dataclass(frozen=True, slots=True)
class Election:
    """Where the lease is that says who schedules, and how long it lasts."""

    name: str
    namespace: str
    terms: LeaseTimings


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Requests a second, and how many may come at once."""

    rate: float
    burst: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a `Service` needs to know."""

    profiles: Mapping[str, Profile]
    backoff: Backoff = BACKOFF
    bindings: int = 16
    election: Election | None = None
    rate_limit: RateLimit | None = None
    namespaces: frozenset[str] = frozenset()
    """Whose pods are scheduled; empty for all. Pods of other namespaces still count on the nodes that they are on."""


def read(tree: Mapping[str, Any] | None = None, *, scheduler_name: str = SCHEDULER_NAME) -> Configuration:
    """Read a configuration from plain values, a parsed file; without one, the defaults. Errors name the field.

    `scheduler_name` is whose pods the only profile serves, where the configuration does not say.
    """
    tree = {"apiVersion": V1, "kind": KIND} if tree is None else dict(tree)
    written = schedulerconfig.read(_named(tree, scheduler_name))
    made = profiles(written)
    if not isinstance(written, SchedulerConfiguration):
        (profile,) = made.values()
        election = _election(tree, LeaderElection())
        return Configuration({scheduler_name: replace(profile, name=scheduler_name)}, election=election)
    return Configuration(
        profiles=made,
        backoff=Backoff(float(written.pod_initial_backoff_seconds), float(written.pod_max_backoff_seconds)),
        bindings=written.parallelism,
        election=_election(tree, written.leader_election),
        rate_limit=_rate_limit(tree, written),
    )


def _named(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """The configuration with a name for its only profile, if that has none."""
    if tree.get("apiVersion") != V1:
        return tree
    written = tree.get("profiles") or [{}]
    if not isinstance(written, list) or len(written) != 1 or not isinstance(written[0], dict):
        return tree
    return {**tree, "profiles": [{**written[0], "schedulerName": written[0].get("schedulerName") or name}]}


def _election(tree: Mapping[str, Any], written: LeaderElection) -> Election | None:
    if not written.leader_elect:
        return None
    stated = tree.get("leaderElection") or {}
    name = written.resource_name if "resourceName" in stated else LEASE_NAME
    return Election(name, written.resource_namespace, _terms(written))


def _terms(written: LeaderElection) -> LeaseTimings:
    try:
        return LeaseTimings(
            lease_duration=_seconds(written.lease_duration, "leaseDuration"),
            renew_deadline=_seconds(written.renew_deadline, "renewDeadline"),
            retry_period=_seconds(written.retry_period, "retryPeriod"),
        )
    except InvalidError as error:
        raise error.under("leaderElection") from None
    except ValueError as error:
        raise InvalidError("leaderElection", str(error)) from error


def _rate_limit(tree: Mapping[str, Any], written: SchedulerConfiguration) -> RateLimit | None:
    connection = written.client_connection
    if "qps" not in (tree.get("clientConnection") or {}) or connection.qps < 0:
        return None
    if not connection.qps or connection.burst < 1:
        raise InvalidError("clientConnection", "qps and burst must be greater than 0; a negative qps sets no limit")
    return RateLimit(connection.qps, connection.burst)


def _seconds(text: str, field: str) -> float:
    """A duration as Go writes it: 15s, 1m30s, 500ms."""
    if not _DURATION.fullmatch(text):
        raise InvalidError(field, f'"{text}" is not a duration; write it as 15s, 1m30s or 500ms')
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
