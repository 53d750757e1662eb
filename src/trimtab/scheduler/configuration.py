"""The scheduler's settings, from a `KubeSchedulerConfiguration` in kube-scheduler's format.

Three defaults differ, because Trimtab runs beside kube-scheduler and does not replace it:

- The lease is `trimtab-scheduler` unless the file names another: kube-scheduler holds its own lease for ever.
- The only profile of a configuration without names is `trimtab` and not `default-scheduler`, unless the caller passes
  another name: two schedulers must not serve the same pods.
- `clientConnection.qps` limits writes only if the file sets it: API servers protect themselves. Events have a separate
  limit of the same rate.

`parallelism` is the maximum number of bindings in flight; decisions use no threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trimtab.api import schedulerconfig
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import KIND, V1, LeaderElection, SchedulerConfiguration
from trimtab.kube.leases import LeaseTimings
from trimtab.kube.retries import Backoff
from trimtab.placement.profiles import Profile, profiles
from trimtab.placement.schedulers import Schedulers, kube_scheduler_profiles
from trimtab.placement.spreading import TERMS, Terms

SCHEDULER_NAME = "trimtab"
LEASE_NAME = "trimtab-scheduler"

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:h|ms|us|µs|ns|m|s))+|0")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|µs|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


BACKOFF = Backoff(initial=1.0, cap=10.0)


@dataclass(frozen=True, slots=True)
class Election:
    """The lease of the leader election, and its durations."""

    name: str
    namespace: str
    terms: LeaseTimings


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Requests a second, and the largest burst."""

    rate: float
    burst: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of a `Service`."""

    profiles: Mapping[str, Profile]
    backoff: Backoff = BACKOFF
    bindings: int = 16
    election: Election | None = None
    rate_limit: RateLimit | None = None
    namespaces: frozenset[str] = frozenset()
    """The namespaces whose pods are scheduled; empty for all. Pods of other namespaces still count on their nodes."""


def read(
    tree: Mapping[str, Any] | None = None, *, scheduler_name: str = SCHEDULER_NAME, terms: Terms = TERMS
) -> Configuration:
    """Read a configuration from a parsed file; the defaults without one. Errors name the field.

    `scheduler_name` is the name of the only profile where the configuration has none.
    """
    tree = {"apiVersion": V1, "kind": KIND} if tree is None else dict(tree)
    configuration = schedulerconfig.read(_named(tree, scheduler_name))
    by_name = profiles(configuration, terms)
    if not isinstance(configuration, SchedulerConfiguration):
        (profile,) = by_name.values()
        election = _election(tree, LeaderElection())
        return Configuration({scheduler_name: replace(profile, name=scheduler_name)}, election=election)
    return Configuration(
        profiles=by_name,
        backoff=Backoff(float(configuration.pod_initial_backoff_seconds), float(configuration.pod_max_backoff_seconds)),
        bindings=configuration.parallelism,
        election=_election(tree, configuration.leader_election),
        rate_limit=_rate_limit(tree, configuration),
    )


def read_part(configuration: TrimtabConfiguration) -> Configuration:
    """The scheduler's part of Trimtab's configuration. Raises InvalidError with the field."""
    tree = configuration.scheduler
    if isinstance(tree, str):
        raise InvalidError("scheduler", f"the file {tree} has not been read")
    try:
        return read(tree, terms=Terms(spreading=configuration.gate("EvenPodsSpread")))
    except InvalidError as error:
        raise error.under("scheduler") from None


def schedulers(configuration: TrimtabConfiguration) -> Schedulers:
    """The profiles of all schedulers: the one source of default constraints. Raises InvalidError with the field."""
    tree = configuration.default_constraints.kube_scheduler
    if isinstance(tree, str):
        raise InvalidError("defaultConstraints.kubeScheduler", f"the file {tree} has not been read")
    own = read_part(configuration).profiles
    try:
        return Schedulers(own, {} if tree is None else kube_scheduler_profiles(dict(tree)))
    except InvalidError as error:
        raise error.under("defaultConstraints.kubeScheduler") from None


def _named(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """The configuration with this name for its only profile, if that has none."""
    if tree.get("apiVersion") != V1:
        return tree
    configured = tree.get("profiles") or [{}]
    if not isinstance(configured, list) or len(configured) != 1 or not isinstance(configured[0], dict):
        return tree
    return {**tree, "profiles": [{**configured[0], "schedulerName": configured[0].get("schedulerName") or name}]}


def _election(tree: Mapping[str, Any], election: LeaderElection) -> Election | None:
    if not election.leader_elect:
        return None
    section = tree.get("leaderElection") or {}
    name = election.resource_name if "resourceName" in section else LEASE_NAME
    return Election(name, election.resource_namespace, _terms(election))


def _terms(election: LeaderElection) -> LeaseTimings:
    try:
        return LeaseTimings(
            lease_duration=_seconds(election.lease_duration, "leaseDuration"),
            renew_deadline=_seconds(election.renew_deadline, "renewDeadline"),
            retry_period=_seconds(election.retry_period, "retryPeriod"),
        )
    except InvalidError as error:
        raise error.under("leaderElection") from None
    except ValueError as error:
        raise InvalidError("leaderElection", str(error)) from error


def _rate_limit(tree: Mapping[str, Any], configuration: SchedulerConfiguration) -> RateLimit | None:
    connection = configuration.client_connection
    if "qps" not in (tree.get("clientConnection") or {}) or connection.qps < 0:
        return None
    if not connection.qps or connection.burst < 1:
        raise InvalidError("clientConnection", "qps and burst must be greater than 0; a negative qps sets no limit")
    return RateLimit(connection.qps, connection.burst)


def _seconds(text: str, field: str) -> float:
    """Parse a duration in Go's format: 15s, 1m30s, 500ms."""
    if not _DURATION.fullmatch(text):
        raise InvalidError(field, f'"{text}" is not a duration; write it as 15s, 1m30s or 500ms')
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
