"""The registry of plugins: those that Trimtab runs, and those of kube-scheduler that a configuration may name.

A plugin is one module or package of `placement`, which declares its filter, its score, its requeue hints and its
`PLUGIN`; a line here registers it. Trimtab does not run the plugins for queues, binding and preemption, nor those for
what it does not support (storage, devices, groups of pods): pods that need the latter are refused, see `support`.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    PluginReference,
    VolumeBindingArgs,
)
from trimtab.placement import (
    affinity,
    balance,
    images,
    interpod,
    nodename,
    ports,
    resources,
    selectorspread,
    spread,
    taints,
    unschedulable,
)
from trimtab.placement.framework import PluginKind


def _check_preemption(args: DefaultPreemptionArgs) -> None:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= percentage <= 100:
        raise InvalidError("minCandidateNodesPercentage", f"{percentage} is not from 0 to 100")
    if absolute < 0:
        raise InvalidError("minCandidateNodesAbsolute", f"{absolute} is less than 0")
    if not percentage and not absolute:
        raise InvalidError("minCandidateNodesPercentage", "must not be 0 where minCandidateNodesAbsolute is 0 too")


def _check_volume_binding(args: VolumeBindingArgs) -> None:
    if args.bind_timeout_seconds < 0:
        raise InvalidError("bindTimeoutSeconds", f"{args.bind_timeout_seconds} is less than 0")


PLUGINS: Mapping[str, PluginKind] = {
    "NodeUnschedulable": unschedulable.PLUGIN,
    "NodeName": nodename.PLUGIN,
    "TaintToleration": taints.PLUGIN,
    "NodeAffinity": affinity.PLUGIN,
    "NodePorts": ports.PLUGIN,
    "NodeResourcesFit": resources.PLUGIN,
    "PodTopologySpread": spread.PLUGIN,
    "InterPodAffinity": interpod.PLUGIN,
    "NodeResourcesBalancedAllocation": balance.PLUGIN,
    "ImageLocality": images.PLUGIN,
    "SelectorSpread": selectorspread.PLUGIN,
    # Accepted by name, and not run.
    "SchedulingGates": PluginKind(("preEnqueue",)),
    "PrioritySort": PluginKind(("queueSort",)),
    "VolumeRestrictions": PluginKind(("preFilter", "filter")),
    "NodeVolumeLimits": PluginKind(("preFilter", "filter")),
    "VolumeBinding": PluginKind(
        ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
        args=VolumeBindingArgs,
        check=_check_volume_binding,
    ),
    "VolumeZone": PluginKind(("preFilter", "filter")),
    "DynamicResources": PluginKind(
        ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"), args=DynamicResourcesArgs
    ),
    "DefaultPreemption": PluginKind(("preEnqueue", "postFilter"), args=DefaultPreemptionArgs, check=_check_preemption),
    "DefaultBinder": PluginKind(("bind",)),
    "NodeDeclaredFeatures": PluginKind(("preFilter", "filter")),
    "GangScheduling": PluginKind(("preEnqueue", "permit")),
    "TopologyPlacementGenerator": PluginKind(("placementGenerate",)),
    "PodGroupPodsCount": PluginKind(("placementScore",)),
}
"""All plugins by name."""

DEFAULT_PLUGINS: tuple[PluginReference, ...] = (
    PluginReference(name="SchedulingGates"),
    PluginReference(name="PrioritySort"),
    PluginReference(name="NodeUnschedulable"),
    PluginReference(name="NodeName"),
    PluginReference(name="TaintToleration", weight=3),
    PluginReference(name="NodeAffinity", weight=2),
    PluginReference(name="NodePorts"),
    PluginReference(name="NodeResourcesFit", weight=1),
    PluginReference(name="VolumeRestrictions"),
    PluginReference(name="NodeVolumeLimits"),
    PluginReference(name="VolumeBinding"),
    PluginReference(name="VolumeZone"),
    PluginReference(name="PodTopologySpread", weight=2),
    PluginReference(name="InterPodAffinity", weight=2),
    PluginReference(name="DynamicResources", weight=2),
    PluginReference(name="DefaultPreemption"),
    PluginReference(name="NodeResourcesBalancedAllocation", weight=1),
    PluginReference(name="ImageLocality", weight=1),
    PluginReference(name="DefaultBinder"),
    PluginReference(name="NodeDeclaredFeatures"),
)
"""The plugins of kube-scheduler 1.36 where a profile configures none, in its order and with its weights."""
