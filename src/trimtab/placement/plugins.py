"""Every plugin that a configuration can name: those that Trimtab runs, and those of kube-scheduler that it leaves out.

Left out is what placing a pod on a node does not decide here (queues, binding, preemption), and what Trimtab knows
nothing of (storage, devices, groups of pods): pods that need the latter are refused, see `support`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginReference,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from trimtab.placement import defaults
from trimtab.placement.affinity import NodeAffinity
from trimtab.placement.balance import NodeResourcesBalancedAllocation
from trimtab.placement.images import ImageLocality
from trimtab.placement.interpod import InterPodAffinity
from trimtab.placement.ports import NodePorts
from trimtab.placement.resources import NodeResourcesFit
from trimtab.placement.selection import NodeName, NodeUnschedulable
from trimtab.placement.selectorspread import SelectorSpread
from trimtab.placement.spread import PodTopologySpread
from trimtab.placement.taints import TaintToleration


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a plugin.

    `points` are the extension points it has; `needs` those of them without which it fails where it runs at others.
    `make` takes the arguments, or None where there are none; a plugin without it is left out.
    """

    points: tuple[str, ...]
    needs: tuple[str, ...] = ()
    args: type[Any] | None = None
    make: Callable[[Any], Any] | None = None
    check: Callable[[Any], None] | None = None


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


KINDS: Mapping[str, Kind] = {
    "NodeUnschedulable": Kind(("filter",), make=lambda _: NodeUnschedulable()),
    "NodeName": Kind(("filter",), make=lambda _: NodeName()),
    "TaintToleration": Kind(("filter", "preScore", "score"), needs=("preScore",), make=lambda _: TaintToleration()),
    "NodeAffinity": Kind(("preFilter", "filter", "preScore", "score"), args=NodeAffinityArgs, make=NodeAffinity),
    "NodePorts": Kind(("preFilter", "filter"), needs=("preFilter",), make=lambda _: NodePorts()),
    "NodeResourcesFit": Kind(
        ("preFilter", "filter", "preScore", "score", "placementScore"),
        needs=("preFilter",),
        args=NodeResourcesFitArgs,
        make=NodeResourcesFit,
    ),
    "PodTopologySpread": Kind(
        ("preFilter", "filter", "preScore", "score"),
        needs=("preFilter", "preScore"),
        args=PodTopologySpreadArgs,
        make=PodTopologySpread,
        check=defaults.check,
    ),
    "InterPodAffinity": Kind(
        ("preFilter", "filter", "preScore", "score"),
        needs=("preFilter", "preScore"),
        args=InterPodAffinityArgs,
        make=InterPodAffinity,
    ),
    "NodeResourcesBalancedAllocation": Kind(
        ("preScore", "score"), args=NodeResourcesBalancedAllocationArgs, make=NodeResourcesBalancedAllocation
    ),
    "ImageLocality": Kind(("score",), make=lambda _: ImageLocality()),
    "SelectorSpread": Kind(("preScore", "score"), needs=("preScore",), make=lambda _: SelectorSpread()),
    # Left out.
    "SchedulingGates": Kind(("preEnqueue",)),
    "PrioritySort": Kind(("queueSort",)),
    "VolumeRestrictions": Kind(("preFilter", "filter")),
    "NodeVolumeLimits": Kind(("preFilter", "filter")),
    "VolumeBinding": Kind(
        ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
        args=VolumeBindingArgs,
        check=_check_volume_binding,
    ),
    "VolumeZone": Kind(("preFilter", "filter")),
    "DynamicResources": Kind(
        ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"), args=DynamicResourcesArgs
    ),
    "DefaultPreemption": Kind(("preEnqueue", "postFilter"), args=DefaultPreemptionArgs, check=_check_preemption),
    "DefaultBinder": Kind(("bind",)),
    "NodeDeclaredFeatures": Kind(("preFilter", "filter")),
    "GangScheduling": Kind(("preEnqueue", "permit")),
    "TopologyPlacementGenerator": Kind(("placementGenerate",)),
    "PodGroupPodsCount": Kind(("placementScore",)),
}
"""All plugins by name."""

DEFAULTS: tuple[PluginReference, ...] = (
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
"""What kube-scheduler 1.36 runs where a profile says nothing, in its order and with its weights."""
