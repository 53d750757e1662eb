"""When default constraints apply: the feature gate, the plugins that a profile enables, and the proposal's fields.

Default constraints and the old SelectorSpread serve the same purpose. Which combinations are valid, and which
constraints then apply, is a table of the default-spreading proposal, `SPREADING`. Without PodTopologySpread among the
plugins that score, there are no default constraints: the filter applies those of the pods alone. kube-scheduler applies
hard ones even then, and its own configuration (`Terms.foreign`) is read as it reads it.

The proposal puts default constraints at the top of a `KubeSchedulerConfiguration`, under two names. Either is read as a
`List` of all profiles, and refused together with the other one or with arguments of the plugin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import PodTopologySpreadArgs, SchedulerConfiguration
from trimtab.placement import defaults

SPREAD = "PodTopologySpread"


@dataclass(frozen=True, slots=True)
class Terms:
    """How a configuration is read."""

    spreading: bool = True
    """The feature gate EvenPodsSpread: without it no constraint applies, neither a pod's own nor a default one."""
    foreign: bool = False
    """Whether it is kube-scheduler's, which Trimtab only takes into account."""


TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Spreading:
    """Which constraints spread pods without constraints of their own, or why a combination is invalid."""

    by: str = ""
    problem: str = ""


_CONTRADICTION = Spreading(
    problem="SelectorSpread cannot be enabled together with defaultConstraints, which may contradict it; "
    "disable it, or remove defaultConstraints"
)
_MISSING = Spreading(problem="SelectorSpread needs PodTopologySpread among the plugins that score; enable both or none")

_GATE_OFF = Spreading(problem="SelectorSpread needs PodTopologySpread, which the feature gate EvenPodsSpread disables")

SPREADING: Mapping[tuple[bool, bool, bool], Spreading] = {
    (False, True, False): Spreading(by="default"),
    (False, True, True): Spreading(by="operator"),
    (True, True, False): Spreading(by="default"),
    (True, True, True): _CONTRADICTION,
    (False, False, False): Spreading(by="nothing"),
    (False, False, True): Spreading(by="nothing"),
    (True, False, False): _MISSING,
    (True, False, True): _MISSING,
}
"""By whether SelectorSpread scores, whether PodTopologySpread scores, and whether an operator lists constraints."""


TOP_LEVEL = {
    "topologySpreadConstraints": "topology_spread_constraints",
    "defaultTopologySpreadConstraints": "default_topology_spread_constraints",
}
"""The two names that the proposal gives to default constraints at the top of a configuration, and their fields."""


def listed_args(configuration: SchedulerConfiguration) -> dict[str, PodTopologySpreadArgs]:
    """The arguments of PodTopologySpread by the default constraints at the top of a configuration, if there are any."""
    given = [name for name, field in TOP_LEVEL.items() if getattr(configuration, field)]
    if not given:
        return {}
    name, *others = given
    if others:
        raise InvalidError(others[0], f"means the same as {name}; write one of them")
    for index, profile in enumerate(configuration.profiles):
        for position, config in enumerate(profile.plugin_config):
            if config.name == SPREAD:
                path = f"profiles[{index}].pluginConfig[{position}]"
                raise InvalidError(path, f"{SPREAD} cannot have arguments together with {name}; write one of them")
    constraints = getattr(configuration, TOP_LEVEL[name])
    defaults.check_list(constraints, name)
    return {SPREAD: PodTopologySpreadArgs(defaulting_type="List", default_constraints=constraints)}


def check(scoring: Collection[str], args: PodTopologySpreadArgs, terms: Terms) -> None:
    """Raise InvalidError for a combination that the table refuses; `scoring` are the plugins that score."""
    operator = args.defaulting_type == "List" and bool(args.default_constraints)
    row = SPREADING["SelectorSpread" in scoring, SPREAD in scoring, operator]
    if row.problem:
        raise InvalidError("plugins.score", (row if terms.spreading else _GATE_OFF).problem)


def has_defaults(running: Mapping[str, Collection[str]], terms: Terms) -> bool:
    """Whether default constraints apply: see `SPREADING`."""
    return SPREAD in running["score"] or (terms.foreign and SPREAD in running["filter"])
