"""The pods that have to be sampled: those to which a policy with sampled strategies applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock
from trimtab.placement.profiles import DEFAULT_SCHEDULER, default_profile
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.continuous.assessment import is_sampled
from trimtab.scaledown.policy.defaults import Defaults
from trimtab.scaledown.policy.groups import GroupKey, Groups
from trimtab.scaledown.sources.sampling import Sources, Target
from trimtab.scaledown.sources.scores import ProfileOf
from trimtab.scaledown.view import View

TARGETS_FOR = 3.0
"""Seconds for which targets are cached: less than the shortest sampling period."""


def sources_for(
    client: Client,
    view: View,
    defaults: Callable[[], Defaults],
    *,
    profile_of: ProfileOf | None = None,
    registry: Mapping[str, Factory] = STRATEGIES,
    **settings: Any,
) -> Sources:
    """Sources for all policies in a view.

    `profile_of` finds how the scheduler of a name places pods, `registry` has the strategies. `defaults` is called
    again and again: pods to which no policy applies any more are not sampled.
    """
    profiles: ProfileOf = profile_of or {DEFAULT_SCHEDULER: default_profile()}.get
    targets = Targets(client.clock, view, defaults, registry)
    return Sources(client, targets, profile_of=profiles, registry=registry, **settings)


class Targets:
    """The targets of sampling, looked up every few seconds, and only in namespaces with sampled strategies."""

    def __init__(
        self,
        clock: Clock,
        view: View,
        defaults: Callable[[], Defaults],
        registry: Mapping[str, Factory] = STRATEGIES,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._view = view
        self._defaults = defaults
        self._groups = Groups(view, defaults())
        self._targets: tuple[Target, ...] = ()
        self._until = 0

    def __call__(self) -> Sequence[Target]:
        now = self._clock.monotonic()
        if now >= self._until:
            self._targets = tuple(self._look_up())
            self._until = now + round(TARGETS_FOR * SECOND)
        return self._targets

    def _look_up(self) -> Iterable[Target]:
        self._groups.defaults = self._defaults()
        for key in self._keys():
            group = self._groups.get(key)
            if group is not None and group.spec is not None and self._is_sampled(group.spec):
                yield Target(group.spec.strategies, self._groups.pods(group))

    def _keys(self) -> Iterable[GroupKey]:
        if any(self._is_sampled(each.spec) for each in self._groups.defaults.policies):
            return self._groups.all_keys()
        policies = self._view.policies.store
        namespaces = {policy.metadata.namespace for policy in policies if self._is_sampled(policy.spec)}
        return [key for namespace in sorted(namespaces) for key in self._groups.keys_in(namespace)]

    def _is_sampled(self, spec: ScaleDownPolicySpec) -> bool:
        return is_sampled(spec.strategies, self._registry)
