"""Which profile places a pod, and so which default constraints it has: the one source, for every decision.

| `schedulerName` | the profile |
|---|---|
| one of Trimtab's scheduler | as Trimtab's configuration says |
| one of kube-scheduler's configuration, if the operator gives it to Trimtab | as that says |
| any other | that of an empty configuration: Kubernetes' own defaults |

Placement, the simulation of subsets, the scores of `Scheduled` and the planning of scale-downs ask here. A profile with
an empty `List` has no default constraints, for all of them: pods that state none are not spread, and their workloads
are not kept level on scale-downs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from trimtab.api import schedulerconfig
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, ZONE
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.schedulerconfig import PluginReference, Plugins, PluginSet, SchedulerConfiguration, SchedulerProfile
from trimtab.placement.plugins import PLUGINS
from trimtab.placement.profiles import DEFAULT_SCHEDULER, Profile, default_profile, profiles
from trimtab.placement.spreading import TOP_LEVEL, Terms

_ALL = "*"
_MODERN = {DEPRECATED_ZONE: ZONE}


@dataclass(frozen=True, slots=True)
class Schedulers:
    """The profiles of Trimtab's scheduler, and those of kube-scheduler as far as they are known."""

    own: Mapping[str, Profile] = field(default_factory=dict)
    others: Mapping[str, Profile] = field(default_factory=dict)
    unknown: Profile = field(default_factory=default_profile)
    """The profile of all other schedulers."""

    def __post_init__(self) -> None:
        for name in self.others:
            if name in self.own:
                raise InvalidError("profiles", f'"{name}" is a profile of Trimtab\'s scheduler too; rename one of them')

    def profile(self, scheduler_name: str) -> Profile:
        """The profile that places the pods with this `schedulerName`."""
        name = scheduler_name or DEFAULT_SCHEDULER
        return self.own.get(name) or self.others.get(name) or self.unknown

    def known(self, scheduler_name: str) -> Profile | None:
        """The same, but None for a scheduler of which nothing is known: for scores, which would be a guess."""
        name = scheduler_name or DEFAULT_SCHEDULER
        is_known = name in self.own or name in self.others or name == DEFAULT_SCHEDULER
        return self.profile(name) if is_known else None

    def default_constraints(self, scheduler_name: str) -> tuple[TopologySpreadConstraint, ...]:
        """The constraints of pods that state none, without selectors, as they are configured."""
        return self.profile(scheduler_name).default_constraints

    def leveling_constraints(self, scheduler_name: str) -> tuple[TopologySpreadConstraint, ...]:
        """The same constraints, as scale-downs apply them: with the zone's present label, and hostnames last.

        A scheduler weighs constraints, a scale-down applies them one after the other, and an empty zone is worse than
        two pods on one node.
        """
        return leveling(self.default_constraints(scheduler_name))


def leveling(constraints: Iterable[TopologySpreadConstraint]) -> tuple[TopologySpreadConstraint, ...]:
    """Default constraints as scale-downs apply them."""
    return tuple(sorted(with_present_labels(constraints), key=lambda each: each.topology_key == HOSTNAME))


def with_present_labels(constraints: Iterable[TopologySpreadConstraint]) -> tuple[TopologySpreadConstraint, ...]:
    """Constraints with the present label of zones instead of the deprecated one."""
    return tuple(
        msgspec.structs.replace(each, topology_key=_MODERN.get(each.topology_key, each.topology_key))
        for each in constraints
    )


def kube_scheduler_profiles(tree: JSON) -> dict[str, Profile]:
    """The profiles of kube-scheduler's own configuration. Raises InvalidError with the path of the invalid field.

    kube-scheduler places its pods by itself, so what Trimtab cannot run is no error here: extenders, and plugins that
    only that kube-scheduler has, are left out.
    """
    configuration = schedulerconfig.read(tree)
    if not isinstance(configuration, SchedulerConfiguration):
        raise InvalidError("apiVersion", f'kube-scheduler does not read it; write "{schedulerconfig.V1}"')
    for name, attribute in TOP_LEVEL.items():
        if getattr(configuration, attribute):
            raise InvalidError(name, "is not a field of kube-scheduler; use the arguments of PodTopologySpread")
    return profiles(_without_unknown(configuration), Terms(foreign=True))


def _without_unknown(configuration: SchedulerConfiguration) -> SchedulerConfiguration:
    known = tuple(_known_profile(each) for each in configuration.profiles)
    return msgspec.structs.replace(configuration, profiles=known, extenders=())


def _known_profile(profile: SchedulerProfile) -> SchedulerProfile:
    sets = profile.plugins or Plugins()
    known = {each: _known_set(getattr(sets, each)) for each in Plugins.__struct_fields__}
    configs = tuple(each for each in profile.plugin_config if each.name in PLUGINS)
    return msgspec.structs.replace(profile, plugins=Plugins(**known), plugin_config=configs)


def _known_set(plugins: PluginSet) -> PluginSet:
    return PluginSet(enabled=_known(plugins.enabled), disabled=_known(plugins.disabled))


def _known(references: Iterable[PluginReference]) -> tuple[PluginReference, ...]:
    return tuple(each for each in references if each.name in PLUGINS or each.name == _ALL)
