"""kube-scheduler's configuration of the same default constraints, for clusters in which it can be configured.

The constraints are those of the rule of `defaultConstraints` for all namespaces or, without rules, those of a profile
of Trimtab's scheduler. kube-scheduler has one list for all namespaces, so rules for some of them are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.api import codec, selectors
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.schedulerconfig import KIND, V1
from trimtab.app import pod_webhook, scheduling
from trimtab.placement import defaults
from trimtab.placement.profiles import DEFAULT_SCHEDULER
from trimtab.placement.schedulers import with_present_labels
from trimtab.placement.spreading import SPREAD


@dataclass(frozen=True, slots=True)
class KubeSchedulerConfiguration:
    """The configuration as plain values, and notes for its reader."""

    tree: JSON
    notes: tuple[str, ...]


def configuration(
    configured: TrimtabConfiguration, *, profile: str = "", kubeconfig: str = ""
) -> KubeSchedulerConfiguration:
    """The configuration. Raises InvalidError for constraints that kube-scheduler cannot apply."""
    constraints = _constraints(configured, profile)
    base = configured.default_constraints.kube_scheduler
    tree: JSON = {"apiVersion": V1, "kind": KIND, **(base if isinstance(base, Mapping) else {})}
    if kubeconfig:
        tree["clientConnection"] = {**(tree.get("clientConnection") or {}), "kubeconfig": kubeconfig}
    args, profiles = _arguments(constraints), tree.get("profiles") or [{"schedulerName": DEFAULT_SCHEDULER}]
    tree["profiles"] = [_with_arguments(each, args) for each in profiles]
    if not configured.gate("EvenPodsSpread"):
        tree["profiles"] = [_without_plugin(each) for each in tree["profiles"]]
    return KubeSchedulerConfiguration(tree, tuple(_notes(constraints)))


def _constraints(configured: TrimtabConfiguration, profile: str) -> tuple[TopologySpreadConstraint, ...]:
    rules = pod_webhook.rules(configured)
    if not rules:
        return _of_profile(configured, profile)
    if len(rules) > 1 or rules[0].namespaces != selectors.EVERYTHING:
        reason = "kube-scheduler has one list for all namespaces; write one rule without namespaceSelector"
        raise InvalidError("defaultConstraints.rules", reason)
    return rules[0].constraints


def _of_profile(configured: TrimtabConfiguration, profile: str) -> tuple[TopologySpreadConstraint, ...]:
    profiles = scheduling.schedulers(configured).own
    name = profile or next(iter(profiles))
    if name not in profiles:
        known = ", ".join(profiles)
        raise InvalidError("--profile", f'"{name}" is not a profile of Trimtab\'s scheduler; write one of {known}')
    return profiles[name].default_constraints


def _arguments(constraints: Sequence[TopologySpreadConstraint]) -> JSON:
    """The arguments of PodTopologySpread, with the zone's present label."""
    if tuple(constraints) == defaults.SYSTEM:
        return {"defaultingType": "System"}
    renamed = with_present_labels(constraints)
    defaults.check_list(renamed, "defaultConstraints")
    return {"defaultingType": "List", "defaultConstraints": [codec.to_tree(each) for each in renamed]}


def _with_arguments(profile: Any, args: JSON) -> JSON:
    others = [each for each in profile.get("pluginConfig") or () if each.get("name") != SPREAD]
    return {**profile, "pluginConfig": [*others, {"name": SPREAD, "args": args}]}


def _without_plugin(profile: JSON) -> JSON:
    """The profile without PodTopologySpread: the feature gate turns spreading off altogether."""
    plugins = dict(profile.get("plugins") or {})
    everywhere = dict(plugins.get("multiPoint") or {})
    everywhere["disabled"] = [*(everywhere.get("disabled") or ()), {"name": SPREAD}]
    return {**profile, "plugins": {**plugins, "multiPoint": everywhere}}


def _notes(constraints: Sequence[TopologySpreadConstraint]) -> list[str]:
    notes = ["Default constraints as in Trimtab's configuration: pass this file to kube-scheduler with --config."]
    if tuple(constraints) == defaults.PROPOSAL:
        notes.append("A node without one of these keys gets the score 0: kube-scheduler is strict about a List.")
    return notes
