"""Profiles: which plugins filter and score, in which order and with which weights.

A configuration starts from kube-scheduler's defaults and changes them, point by point. Rules, which tests cite:

1. `multiPoint` speaks for all extension points that a plugin has; the defaults are `multiPoint` plugins.
2. What a point or `multiPoint` enables is added after the defaults, in the order written; a default that is enabled
   again keeps its place and takes the weight written there (1, if none is).
3. `disabled` takes defaults away, `*` all of them; `enabled` wins over `disabled`.
4. At one point, plugins that are enabled both there and by `multiPoint` come first, then those of `multiPoint`, then
   those enabled there alone. The weight written at the point wins.
5. A plugin runs as a whole: one that filters needs its `preFilter`, one that scores its `preScore`, unless it can do
   without. kube-scheduler would start with less, and then fail on every pod.

What Trimtab has no part in (see `Profile.left_out`) may be named, and is checked as far as it is known; any other
unknown name is an error. Every error names its place: `profiles[0].plugins.score.enabled[1].name: …`.

Default constraints and the old SelectorSpread do the same work in two ways. Which combinations make sense is the
default-spreading proposal's table, `SPREADING` below. "Scores" there means that PodTopologySpread scores, "operator"
that the configuration lists default constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.schedulerconfig import (
    V1,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginReference,
    Plugins,
    PluginSet,
    PodTopologySpreadArgs,
    ProposalConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
    VolumeBindingArgs,
)
from trimtab.placement import defaults
from trimtab.placement.affinity import NodeAffinity
from trimtab.placement.balance import NodeResourcesBalancedAllocation
from trimtab.placement.framework import Filter, Score
from trimtab.placement.images import ImageLocality
from trimtab.placement.interpod import InterPodAffinity
from trimtab.placement.ports import NodePorts
from trimtab.placement.resources import NodeResourcesFit
from trimtab.placement.selection import NodeName, NodeUnschedulable
from trimtab.placement.selectorspread import SelectorSpread
from trimtab.placement.spread import PodTopologySpread
from trimtab.placement.taints import TaintToleration

DEFAULT_SCHEDULER = "default-scheduler"

_SPREAD = PodTopologySpread.name
_ALL = "*"
_MOST_WEIGHT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Profile:
    """One way of placing pods, for the pods that name it in `spec.schedulerName`.

    `left_out` are plugins that the configuration enables and Trimtab has no part in: the caller says so in its log.
    `default_constraints` are what pods without constraints are spread by; their selectors are deduced for each pod.
    """

    name: str
    filters: tuple[Filter, ...]
    scores: tuple[tuple[Score, int], ...]
    left_out: tuple[str, ...] = ()
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a plugin: the points it has, its arguments, and how it is made.

    One that is not made (`make` is None) is left out. `needs` are the points without which the others fail.
    """

    points: frozenset[str]
    args: type[Any] | None = None
    make: Callable[[Any], Filter | Score] | None = None
    check: Callable[[Any], None] | None = None
    needs: Mapping[str, str] = msgspec.structs.frozendict if False else {}


def _points(text: str) -> frozenset[str]:
    return frozenset(text.split())
