"""Profiles: which plugins filter and score, in which order and with which weights.

A configuration starts from kube-scheduler's defaults and changes them. Rules, which tests cite:

1. `multiPoint` applies to all extension points that a plugin has. The defaults are `multiPoint` plugins.
2. Enabled plugins come after the defaults, in the order of the configuration; a default that is enabled again keeps its
   position and takes the configured weight (1 by default).
3. `disabled` removes defaults, `*` all of them. Plugins that the same set enables stay.
4. At one point, plugins that are enabled both there and by `multiPoint` come first, then those of `multiPoint`, then
   those enabled there alone. The weight configured at the point wins.
5. A plugin that filters or scores may need its `preFilter` or `preScore`. kube-scheduler would start without, and then
   fail on every pod; here it is an error.

Plugins that Trimtab does not run may be named and are listed in `Profile.left_out`; unknown names are errors. Every
error has a path: `profiles[0].plugins.score.enabled[1].name: …`.

Which default constraints apply, and when, is in `spreading`.
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
from trimtab.placement import defaults, spreading
from trimtab.placement.framework import Filter, PluginKind, Score
from trimtab.placement.plugins import DEFAULT_PLUGINS, PLUGINS
from trimtab.placement.spreading import SPREAD, TERMS, Terms

DEFAULT_SCHEDULER = "default-scheduler"

_ALL = "*"
_MULTI_POINT = "multiPoint"
_WEIGHTS = range(2**31)
_PERCENTAGES = range(101)

_SETS = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}
"""The extension points by their names in a configuration, and the fields that hold their plugin sets."""
POINTS = tuple(point for point in _SETS if point != _MULTI_POINT)


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins that place the pods which name the profile in `spec.schedulerName`.

    `left_out` are plugins that the configuration enables and Trimtab does not run, for the caller to log.
    `default_constraints` apply to pods without constraints; their selectors are deduced for each pod.
    """

    name: str
    filters: tuple[Filter, ...]
    scores: tuple[tuple[Score, int], ...]
    left_out: tuple[str, ...] = ()
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


def profiles(configuration: SchedulerConfiguration | ProposalConfiguration, terms: Terms = TERMS) -> dict[str, Profile]:
    """All profiles of a configuration by name. Raises InvalidError with the path of the invalid field."""
    if isinstance(configuration, ProposalConfiguration):
        return {DEFAULT_SCHEDULER: _proposed(configuration, terms)}
    _check(configuration)
    listed = spreading.listed_args(configuration)
    configured = configuration.profiles or (SchedulerProfile(),)
    by_name: dict[str, Profile] = {}
    for index, each in enumerate(configured):
        name = each.scheduler_name or (DEFAULT_SCHEDULER if len(configured) == 1 else "")
        with _under(f"profiles[{index}]"):
            if not name:
                raise InvalidError("schedulerName", "is missing: with several profiles, each needs a name")
            if name in by_name:
                raise InvalidError("schedulerName", f'"{name}" is the name of an earlier profile')
            if (each.plugins or Plugins()).queue_sort != (configured[0].plugins or Plugins()).queue_sort:
                raise InvalidError("plugins.queueSort", "must be the same in all profiles: they share one queue")
            by_name[name] = _profile(name, each, dict(_arguments(each.plugin_config)) | listed, terms)
    return by_name


def default_profile(args: PodTopologySpreadArgs | None = None) -> Profile:
    """The profile of an empty configuration, with other default constraints if these are given."""
    return _default_profile(args, TERMS)


def _default_profile(args: PodTopologySpreadArgs | None, terms: Terms) -> Profile:
    return _profile(DEFAULT_SCHEDULER, SchedulerProfile(), {} if args is None else {SPREAD: args}, terms)


def _proposed(configuration: ProposalConfiguration, terms: Terms) -> Profile:
    """The profile of a configuration in the proposal's own form: with its defaults, unless it lists others."""
    if configuration.kind not in ("", KIND):
        raise InvalidError("kind", f'"{configuration.kind}" is not "{KIND}"')
    constraints = configuration.default_topology_spread_constraints
    defaults.check_list(constraints, "defaultTopologySpreadConstraints", any_key=True)
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=constraints)
    return _default_profile(args if constraints else PodTopologySpreadArgs(defaulting_type="Proposal"), terms)


def _check(configuration: SchedulerConfiguration) -> None:
    """Check what kube-scheduler checks outside of profiles."""
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
        raise InvalidError("extenders", "are not supported by Trimtab: it would place pods without calling them")


def _check_percentage(percentage: int | None) -> None:
    if percentage is not None and percentage not in _PERCENTAGES:
        raise InvalidError("percentageOfNodesToScore", f"{percentage} is not from 0 to 100")


def _profile(name: str, profile: SchedulerProfile, args: Mapping[str, Any], terms: Terms) -> Profile:
    _check_percentage(profile.percentage_of_nodes_to_score)
    sets = profile.plugins or Plugins()
    for point in _SETS:
        with _under(f"plugins.{point}"):
            _check_set(_set(sets, point), point)
    everywhere = _merged(sets.multi_point)
    running = {point: _running(point, _set(sets, point), everywhere) for point in POINTS}
    _check_needs(running)
    weights = _weights(sets.score, everywhere)
    spread_args = args.get(SPREAD) or PodTopologySpreadArgs()
    if not terms.spreading:
        running = {point: [each for each in names if each != SPREAD] for point, names in running.items()}
    spreading.check(running["score"], spread_args, terms)
    if not spreading.has_defaults(running, terms):
        spread_args = PodTopologySpreadArgs(defaulting_type="List")
    plugins = _plugins({**args, SPREAD: spread_args}, profile)
    return Profile(
        name=name,
        filters=tuple(plugins[each] for each in running["filter"] if each in plugins),
        scores=tuple((plugins[each], weights[each]) for each in running["score"] if each in plugins),
        left_out=tuple(_left_out(running)),
        default_constraints=defaults.constraints(spread_args),
    )


def _set(sets: Plugins, point: str) -> PluginSet:
    plugin_set: PluginSet = getattr(sets, _SETS[point])
    return plugin_set


def _check_set(plugin_set: PluginSet, point: str) -> None:
    seen: set[str] = set()
    for index, reference in enumerate(plugin_set.enabled):
        with _under(f"enabled[{index}]"):
            _check_enabled(reference, point, seen)
        seen.add(reference.name)
    for index, reference in enumerate(plugin_set.disabled):
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


def _known(name: str) -> PluginKind:
    kind = PLUGINS.get(name)
    if kind is not None:
        return kind
    near = difflib.get_close_matches(name, PLUGINS, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise InvalidError("name", f'"{name}" is not a plugin that Trimtab knows{hint}')


def _merged(plugin_set: PluginSet) -> tuple[PluginReference, ...]:
    """The `multiPoint` plugins: the defaults as changed by this set (rules 2 and 3)."""
    disabled = {reference.name for reference in plugin_set.disabled}
    overrides = {reference.name: reference for reference in plugin_set.enabled}
    kept = [] if _ALL in disabled else [overrides.get(d.name, d) for d in DEFAULT_PLUGINS if d.name not in disabled]
    names = {reference.name for reference in kept}
    return (*kept, *(reference for reference in plugin_set.enabled if reference.name not in names))


def _running(point: str, plugin_set: PluginSet, everywhere: Iterable[PluginReference]) -> list[str]:
    """The plugins at one point, in order (rules 3 and 4)."""
    here = [reference.name for reference in plugin_set.enabled]
    disabled = {reference.name for reference in plugin_set.disabled}
    if _ALL in disabled:
        return here
    general = [r.name for r in everywhere if point in PLUGINS[r.name].points and r.name not in disabled]
    both = [name for name in here if name in general]
    return both + [name for name in general if name not in here] + [name for name in here if name not in general]


def _check_needs(running: Mapping[str, list[str]]) -> None:
    for before, after in (("preFilter", "filter"), ("preScore", "score")):
        for name in running[after]:
            if before in PLUGINS[name].needs and name not in running[before]:
                raise InvalidError(f"plugins.{before}", f'"{name}" needs it in order to {after}; disable both or none')


def _arguments(configs: Iterable[PluginConfig]) -> Iterator[tuple[str, Any]]:
    """The arguments of each plugin that takes arguments."""
    seen: set[str] = set()
    for index, config in enumerate(configs):
        with _under(f"pluginConfig[{index}]"):
            kind = _known(config.name)
            if config.name in seen:
                raise InvalidError("name", f'"{config.name}" is configured twice')
            seen.add(config.name)
            if kind.args is not None:
                with _under("args"):
                    yield config.name, _decoded(config, kind.args)
            elif config.args:
                raise InvalidError("args", f'must be empty: "{config.name}" takes no arguments')


def _decoded(config: PluginConfig, of: type[Any]) -> Any:
    args = codec.convert(dict(config.args), of)
    if args.api_version != V1:
        raise InvalidError("apiVersion", f'"{args.api_version}" is not "{V1}"')
    if args.kind not in ("", f"{config.name}Args"):
        raise InvalidError("kind", f'"{args.kind}" is not "{config.name}Args"')
    check = PLUGINS[config.name].check
    if check is not None:
        check(args)
    return args


def _plugins(args: Mapping[str, Any], profile: SchedulerProfile) -> dict[str, Any]:
    """The plugins that Trimtab runs, by name. Their constructors check their arguments."""
    paths = {config.name: f"pluginConfig[{index}].args" for index, config in enumerate(profile.plugin_config)}
    plugins: dict[str, Any] = {}
    for name, kind in PLUGINS.items():
        if kind.make is not None:
            with _under(paths.get(name, "")):
                plugins[name] = kind.make(args.get(name))
    return plugins


def _weights(plugin_set: PluginSet, everywhere: Iterable[PluginReference]) -> dict[str, int]:
    """The weight of each plugin's score; the first mention decides (rule 4)."""
    weights: dict[str, int] = {}
    for reference in (*plugin_set.enabled, *everywhere):
        weights.setdefault(reference.name, reference.weight or 1)
    return weights


def _left_out(running: Mapping[str, list[str]]) -> Iterator[str]:
    enabled = {name for names in running.values() for name in names}
    return (name for name, kind in PLUGINS.items() if kind.make is None and name in enabled)


@contextmanager
def _under(path: str) -> Iterator[None]:
    """Add this path to errors that are raised inside."""
    try:
        yield
    except InvalidError as error:
        raise (error.under(path) if path else error) from None
