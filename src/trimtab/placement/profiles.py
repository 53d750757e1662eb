"""Profiles: which plugins filter and score, in which order and with which weights.

A configuration starts from kube-scheduler's defaults and changes them. Rules, which tests cite:

1. `multiPoint` speaks for all extension points that a plugin has. The defaults are `multiPoint` plugins.
2. What is enabled comes after the defaults, in the order written; a default that is enabled again keeps its place and
   takes the weight that is written there (1, if none is).
3. `disabled` takes defaults away, `*` all of them. What is enabled at the same place stays.
4. At one point, plugins that are enabled both there and by `multiPoint` come first, then those of `multiPoint`, then
   those enabled there alone. The weight written at the point wins.
5. A plugin that filters or scores may need its `preFilter` or `preScore`. kube-scheduler would start without, and then
   fail on every pod; here it is an error.

Plugins that Trimtab has no part in may be named and are listed in `Profile.left_out`; unknown names are errors. Every
error says where: `profiles[0].plugins.score.enabled[1].name: …`.

Default constraints and the old SelectorSpread are two ways to the same end. Which combinations make sense is a table of
the default-spreading proposal, `SPREADING` below.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.schedulerconfig import (
    KIND,
    V1,
    PluginConfig,
    PluginReference,
    Plugins,
    PluginSet,
    PodTopologySpreadArgs,
    ProposalConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
)
from trimtab.placement import defaults
from trimtab.placement.framework import Filter, Score
from trimtab.placement.plugins import DEFAULTS, KINDS, Kind

DEFAULT_SCHEDULER = "default-scheduler"

_SPREAD = "PodTopologySpread"
_ALL = "*"
_MULTI_POINT = "multiPoint"
_WEIGHTS = range(2**31)
_PERCENTAGES = range(101)

_SETS = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}
"""The extension points as they are written, and the fields that hold what is said of them."""
POINTS = tuple(point for point in _SETS if point != _MULTI_POINT)


@dataclass(frozen=True, slots=True)
class Profile:
    """One way of placing pods, for the pods that name it in `spec.schedulerName`.

    `left_out` are plugins that the configuration enables and Trimtab has no part in: for the caller to say in its log.
    `default_constraints` are what pods without constraints are spread by; their selectors are deduced for each pod.
    """

    name: str
    filters: tuple[Filter, ...]
    scores: tuple[tuple[Score, int], ...]
    left_out: tuple[str, ...] = ()
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Spreading:
    """What pods without constraints are spread by, or why a combination makes no sense."""

    by: str = ""
    problem: str = ""


_TWO_MASTERS = Spreading(
    problem="SelectorSpread cannot be enabled beside default constraints of your own: they may contradict it; "
    "disable it, or leave defaultConstraints out"
)
_NO_BASIS = Spreading(
    problem="SelectorSpread needs PodTopologySpread among the plugins that score; enable both or none"
)

SPREADING: Mapping[tuple[bool, bool, bool], Spreading] = {
    (False, True, False): Spreading(by="default"),
    (False, True, True): Spreading(by="operator"),
    (True, True, False): Spreading(by="default"),
    (True, True, True): _TWO_MASTERS,
    (False, False, False): Spreading(by="nothing"),
    (False, False, True): Spreading(by="nothing"),
    (True, False, False): _NO_BASIS,
    (True, False, True): _NO_BASIS,
}
"""By whether SelectorSpread scores, whether PodTopologySpread scores, and whether an operator lists constraints."""


def profiles(configuration: SchedulerConfiguration | ProposalConfiguration) -> dict[str, Profile]:
    """All profiles of a configuration by name. Raises InvalidError with the path of what is wrong."""
    if isinstance(configuration, ProposalConfiguration):
        return {DEFAULT_SCHEDULER: _proposed(configuration)}
    _check(configuration)
    written = configuration.profiles or (SchedulerProfile(),)
    made: dict[str, Profile] = {}
    for index, each in enumerate(written):
        name = each.scheduler_name or (DEFAULT_SCHEDULER if len(written) == 1 else "")
        with _under(f"profiles[{index}]"):
            if not name:
                raise InvalidError("schedulerName", "is missing: where there are several profiles, each needs a name")
            if name in made:
                raise InvalidError("schedulerName", f'"{name}" is the name of an earlier profile')
            if (each.plugins or Plugins()).queue_sort != (written[0].plugins or Plugins()).queue_sort:
                raise InvalidError("plugins.queueSort", "must be the same in all profiles: they share one queue")
            made[name] = _profile(name, each, dict(_arguments(each.plugin_config)))
    return made


def default_profile(args: PodTopologySpreadArgs | None = None) -> Profile:
    """The profile of an empty configuration; with other default constraints, if they are given."""
    return _profile(DEFAULT_SCHEDULER, SchedulerProfile(), {} if args is None else {_SPREAD: args})


def _proposed(configuration: ProposalConfiguration) -> Profile:
    """The profile of a configuration in the proposal's own form: its defaults, unless it lists others."""
    if configuration.kind not in ("", KIND):
        raise InvalidError("kind", f'"{configuration.kind}" is not "{KIND}"')
    constraints = configuration.default_topology_spread_constraints
    defaults.check_list(constraints, "defaultTopologySpreadConstraints", any_key=True)
    if constraints:
        return default_profile(PodTopologySpreadArgs(defaulting_type="List", default_constraints=constraints))
    return default_profile(PodTopologySpreadArgs(defaulting_type="Proposal"))


def _check(configuration: SchedulerConfiguration) -> None:
    """What kube-scheduler checks beyond profiles."""
    if configuration.parallelism <= 0:
        raise InvalidError("parallelism", f"{configuration.parallelism} is not greater than 0")
    _check_percentage(configuration.percentage_of_nodes_to_score)
    initial, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if initial <= 0:
        raise InvalidError("podInitialBackoffSeconds", f"{initial} is not greater than 0")
    if longest < initial:
        raise InvalidError("podMaxBackoffSeconds", f"{longest} is less than podInitialBackoffSeconds, {initial}")
    election = configuration.leader_election
    if election.leader_elect and election.resource_lock != "leases":
        raise InvalidError("leaderElection.resourceLock", f'"{election.resource_lock}" is not "leases"')
    if configuration.extenders:
        raise InvalidError("extenders", "are not supported by Trimtab: it would place pods without asking them")


def _check_percentage(percentage: int | None) -> None:
    if percentage is not None and percentage not in _PERCENTAGES:
        raise InvalidError("percentageOfNodesToScore", f"{percentage} is not from 0 to 100")


def _profile(name: str, written: SchedulerProfile, args: Mapping[str, Any]) -> Profile:
    _check_percentage(written.percentage_of_nodes_to_score)
    sets = written.plugins or Plugins()
    for point in _SETS:
        with _under(f"plugins.{point}"):
            _check_set(_set(sets, point), point)
    everywhere = _merged(sets.multi_point)
    running = {point: _running(point, _set(sets, point), everywhere) for point in POINTS}
    _check_needs(running)
    made = {plugin: made for plugin, kind in KINDS.items() if (made := _made(plugin, kind, args, written)) is not None}
    weights = _weights(sets.score, everywhere)
    spread_args = args.get(_SPREAD) or PodTopologySpreadArgs()
    _check_spreading(running["score"], spread_args)
    return Profile(
        name=name,
        filters=tuple(made[plugin] for plugin in running["filter"] if plugin in made),
        scores=tuple((made[plugin], weights[plugin]) for plugin in running["score"] if plugin in made),
        left_out=tuple(_left_out(running)),
        default_constraints=defaults.constraints(spread_args) if _spreads(running) else (),
    )


def _set(sets: Plugins, point: str) -> PluginSet:
    found: PluginSet = getattr(sets, _SETS[point])
    return found


def _check_set(given: PluginSet, point: str) -> None:
    seen: set[str] = set()
    for index, reference in enumerate(given.enabled):
        with _under(f"enabled[{index}]"):
            _check_enabled(reference, point, seen)
        seen.add(reference.name)
    for index, reference in enumerate(given.disabled):
        if reference.name != _ALL:
            with _under(f"disabled[{index}]"):
                _known(reference.name)


def _check_enabled(reference: PluginReference, point: str, seen: set[str]) -> None:
    kind = _known(reference.name)
    if point != _MULTI_POINT and point not in kind.points:
        raise InvalidError("name", f'"{reference.name}" has no {point}; it has {", ".join(kind.points)}')
    if reference.name in seen:
        raise InvalidError("name", f'"{reference.name}" is enabled twice')
    if reference.weight not in _WEIGHTS:
        raise InvalidError("weight", f"{reference.weight} is not from 0 to {_WEIGHTS[-1]}")


def _known(name: str) -> Kind:
    kind = KINDS.get(name)
    if kind is not None:
        return kind
    near = difflib.get_close_matches(name, KINDS, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise InvalidError("name", f'"{name}" is not a plugin that Trimtab knows{hint}')


def _merged(given: PluginSet) -> tuple[PluginReference, ...]:
    """The `multiPoint` plugins: the defaults as changed by what is given (rules 2 and 3)."""
    disabled = {reference.name for reference in given.disabled}
    again = {reference.name: reference for reference in given.enabled}
    kept = [] if _ALL in disabled else [again.get(d.name, d) for d in DEFAULTS if d.name not in disabled]
    names = {reference.name for reference in kept}
    return (*kept, *(reference for reference in given.enabled if reference.name not in names))


def _running(point: str, given: PluginSet, everywhere: Iterable[PluginReference]) -> list[str]:
    """The plugins at one point, in order (rules 3 and 4)."""
    here = [reference.name for reference in given.enabled]
    disabled = {reference.name for reference in given.disabled}
    if _ALL in disabled:
        return here
    general = [r.name for r in everywhere if point in KINDS[r.name].points and r.name not in disabled]
    both = [name for name in here if name in general]
    return both + [name for name in general if name not in here] + [name for name in here if name not in general]


def _check_needs(running: Mapping[str, list[str]]) -> None:
    for before, after in (("preFilter", "filter"), ("preScore", "score")):
        for name in running[after]:
            if before in KINDS[name].needs and name not in running[before]:
                raise InvalidError(f"plugins.{before}", f'"{name}" needs it in order to {after}; disable both or none')


def _arguments(given: Iterable[PluginConfig]) -> Iterator[tuple[str, Any]]:
    """The arguments of each plugin that has some."""
    seen: set[str] = set()
    for index, config in enumerate(given):
        with _under(f"pluginConfig[{index}]"):
            kind = _known(config.name)
            if config.name in seen:
                raise InvalidError("name", f'"{config.name}" is configured twice')
            seen.add(config.name)
            if kind.args is not None:
                with _under("args"):
                    yield config.name, _decoded(config, kind.args)
            elif config.args:
                raise InvalidError("args", f'must be left out: "{config.name}" takes none')


def _decoded(config: PluginConfig, of: type[Any]) -> Any:
    args = codec.convert(dict(config.args), of)
    if args.api_version != V1:
        raise InvalidError("apiVersion", f'"{args.api_version}" is not "{V1}"')
    if args.kind not in ("", f"{config.name}Args"):
        raise InvalidError("kind", f'"{args.kind}" is not "{config.name}Args"')
    check = KINDS[config.name].check
    if check is not None:
        check(args)
    return args


def _made(plugin: str, kind: Kind, args: Mapping[str, Any], written: SchedulerProfile) -> Any:
    """The plugin; None if it is left out. Its constructor checks its arguments."""
    if kind.make is None:
        return None
    places = [index for index, config in enumerate(written.plugin_config) if config.name == plugin]
    with _under(f"pluginConfig[{places[0]}].args" if places else ""):
        return kind.make(args.get(plugin))


def _weights(given: PluginSet, everywhere: Iterable[PluginReference]) -> dict[str, int]:
    """What each plugin's score counts; the first mention decides (rule 4)."""
    weights: dict[str, int] = {}
    for reference in (*given.enabled, *everywhere):
        weights.setdefault(reference.name, reference.weight or 1)
    return weights


def _check_spreading(scoring: list[str], args: PodTopologySpreadArgs) -> None:
    operator = args.defaulting_type == "List" and bool(args.default_constraints)
    row = SPREADING["SelectorSpread" in scoring, _SPREAD in scoring, operator]
    if row.problem:
        raise InvalidError("plugins.score", row.problem)


def _spreads(running: Mapping[str, list[str]]) -> bool:
    return _SPREAD in running["filter"] or _SPREAD in running["score"]


def _left_out(running: Mapping[str, list[str]]) -> Iterator[str]:
    enabled = {name for names in running.values() for name in names}
    return (name for name, kind in KINDS.items() if kind.make is None and name in enabled)


@contextmanager
def _under(path: str) -> Iterator[None]:
    """Errors from inside say that they are at this path."""
    try:
        yield
    except InvalidError as error:
        raise (error.under(path) if path else error) from None
