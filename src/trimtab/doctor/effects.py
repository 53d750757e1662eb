"""Checks of what Trimtab may do and does: permissions, other writers of costs, policies, skipped objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trimtab.api.annotations import Reason
from trimtab.api.core import Event
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.doctor.facts import Denial, Facts
from trimtab.doctor.findings import Problem
from trimtab.inspection.lint import governing
from trimtab.inspection.lint.world import World, world_of
from trimtab.install.deployments import CONFIGURATION


def missing_permissions(facts: Facts) -> Iterator[Problem]:
    """Requests that a component makes and may not."""
    found: dict[tuple[str, str], list[Denial]] = {}
    for each in facts.denials or ():
        found.setdefault((each.user, each.namespace), []).append(each)
    for (user, namespace), denials in found.items():
        where = f" in namespace {namespace}" if namespace else ""
        refused = ", ".join(f"{each.verb} {each.resource}" for each in denials)
        yield Problem(user, f"it may not{where}: {refused}")


def other_costs(facts: Facts) -> Iterator[Problem]:
    """Deletion costs that Trimtab did not write."""
    for each in governing.foreign_costs(_world(facts)):
        yield Problem(str(each.ref), each.message, each.fix)


def overwritten_costs(facts: Facts) -> Iterator[Problem]:
    """Workloads on which another writer replaced costs, or ranks the same pods."""
    yield from _reported(facts, Reason.COSTS_OVERWRITTEN, Reason.RIVAL_COSTS)


def skipped_objects(facts: Facts) -> Iterator[Problem]:
    """Objects that cannot be read."""
    yield from _reported(facts, Reason.UNREADABLE)


def _reported(facts: Facts, *reasons: Reason) -> Iterator[Problem]:
    latest: dict[str, Event] = {}
    for event in facts.events or ():
        if event.reason in reasons:
            about = event.involved_object
            namespace = f"{about.namespace}/" if about.namespace else ""
            latest[f"{about.kind} {namespace}{about.name}"] = event
    for what, event in latest.items():
        yield Problem(what, event.message)


def switched_off(facts: Facts) -> Iterator[Problem]:
    """The switch that turns everything about scale-downs off."""
    if facts.configuration is not None and not facts.configuration.scale_down.enabled:
        message = "scaleDown.enabled is false: no scale-down is planned, observed or kept level"
        yield Problem(_configured(facts), message)


def no_policies(facts: Facts) -> Iterator[Problem]:
    """An installation for scale-downs with no policy at all."""
    configuration = facts.configuration
    if configuration is None or "webhooks" not in facts.components or configuration.scale_down.default_policies:
        return
    if not facts.cluster.all(ScaleDownPolicy) and not facts.cluster.all(UnitedTopology):
        message = "there is no default policy, no ScaleDownPolicy and no UnitedTopology: nothing is kept level"
        yield Problem(_configured(facts), message)


def _configured(facts: Facts) -> str:
    return "the configuration file" if facts.is_local else f"ConfigMap {facts.namespace}/{CONFIGURATION}"


def idle_policies(facts: Facts) -> Iterator[Problem]:
    """Policies that refer to no workload, or that their controller reports as not working."""
    idle = {str(each.ref): each.message for each in governing.idle_policies(_world(facts))}
    yield from (Problem(what, message) for what, message in idle.items())
    for policy in facts.cluster.all(ScaleDownPolicy):
        yield from _not_ready("ScaleDownPolicy", policy, idle.keys())
    for topology in facts.cluster.all(UnitedTopology):
        yield from _not_ready("UnitedTopology", topology, ())


def _not_ready(kind: str, policy: ScaleDownPolicy | UnitedTopology, known: Collection[str]) -> Iterator[Problem]:
    what = f"{kind} {policy.metadata.namespace}/{policy.metadata.name}"
    for each in policy.status.conditions:
        if each.type == "Ready" and each.status == "False" and what not in known:
            message = f"it is not ready: {each.reason}"
            fix = f"see {each.reason} in docs/reasons.md, and the message in its status"
            yield Problem(what, message, fix)


def _world(facts: Facts) -> World:
    return world_of((), facts.cluster)
