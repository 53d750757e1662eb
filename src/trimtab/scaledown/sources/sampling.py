"""Samples the values that policies need, for as long as a policy needs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.components import run_together
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies import STRATEGIES, Factory, Signal
from trimtab.ranking.strategies.idle import Idle
from trimtab.ranking.strategies.probe import Probe
from trimtab.ranking.strategies.scheduled import Scheduled
from trimtab.ranking.strategies.view import Scores, no_scores
from trimtab.scaledown.sources.answers import AnswerSource, Fetch, HttpFetch, Network, ProbeRequest
from trimtab.scaledown.sources.samples import Samples
from trimtab.scaledown.sources.scores import NodeScores, ProfileOf
from trimtab.scaledown.sources.signals import SignalRequest, SignalSampler, Source, signals_of
from trimtab.scaledown.sources.usage import EAGER, PERIOD, UsageSource

S = TypeVar("S", Idle, Probe, Scheduled)

_CHECK = 1.0
"""Seconds between two checks for pods that are due."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Pods that one policy applies to, and its strategies."""

    strategies: tuple[StrategySpec, ...]
    pods: Sequence[Pod]


@dataclass(frozen=True, slots=True)
class Values:
    """Sampled values of pods, by `namespace/name`: as `ranking.Policy` takes them."""

    usage: Mapping[str, float] = field(default_factory=dict)
    stated: Mapping[str, float] = field(default_factory=dict)
    scores: Scores = no_scores
    signals: Mapping[Signal, Mapping[str, float]] = field(default_factory=dict)

    def apply_to(self, policy: Policy) -> Policy:
        """A policy with these values."""
        return replace(policy, usage=self.usage, stated=self.stated, scores=self.scores, signals=self.signals)


class Sources:
    """All values that strategies need from outside the cache. `targets` returns the pods that policies apply to."""

    def __init__(
        self,
        client: Client,
        targets: Callable[[], Iterable[Target]],
        *,
        fetch: Fetch | None = None,
        networks: Sequence[Network] = (),
        profile_of: ProfileOf | None = None,
        sources: Mapping[str, Source] | None = None,
        registry: Mapping[str, Factory] = STRATEGIES,
        on_failure: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`sources` are those of signals, by name; `on_failure` is called with the name of one that fails."""
        self.usage = UsageSource(client)
        self._http = HttpFetch()
        self.answers = AnswerSource(client.clock, fetch or self._http, networks=networks)
        self._profile_of = profile_of
        self._clock = client.clock
        self._targets = targets
        self._registry = registry
        self.signals = {
            name: SignalSampler(name, source, client.clock, on_failure) for name, source in (sources or {}).items()
        }
        self._measured: frozenset[str] = frozenset()
        self._measured_at = self._clock.monotonic() - round(PERIOD * SECOND)

    def values(self, strategies: Sequence[StrategySpec], pods: Sequence[Pod]) -> Values:
        """The fresh values that these strategies need. Returns at once."""
        now = self._clock.monotonic()
        idle, probe = _configured(strategies, Idle), _configured(strategies, Probe)
        usage = self.usage.samples.fresh(pods, now=now, max_age=idle.settings.max_age_seconds) if idle else {}
        stated = self.answers.samples.fresh(pods, now=now, max_age=probe.settings.max_age_seconds) if probe else {}
        scores: Scores = no_scores if self._profile_of is None else NodeScores(self._profile_of)
        return Values(usage, stated, scores, self._signals(strategies, pods))

    def _signals(self, strategies: Sequence[StrategySpec], pods: Sequence[Pod]) -> dict[Signal, dict[str, float]]:
        wanted = signals_of(strategies, self._registry)
        return {each: self.signals[each.source].fresh(each, pods) for each in wanted if each.source in self.signals}

    def problem(self, strategies: Sequence[StrategySpec], pods: Iterable[Pod] = ()) -> str:
        """Why values that these strategies need are missing, as far as that is known."""
        pods = list(pods)
        if _configured(strategies, Idle):
            fresh = self.values(strategies, pods).usage
            missing = next((pod.key for pod in pods if pod.key not in fresh), "")
            if self.usage.problem or missing:
                return self.usage.problem or f"metrics.k8s.io has no metrics of {missing}, or no recent ones"
        if _configured(strategies, Probe):
            for pod in pods:
                refusal = self.answers.refusals.get(pod.metadata.uid)
                if refusal is not None:
                    return f"{pod.key} was probed and gave no answer: {refusal}"
        if self._profile_of is not None and _configured(strategies, Scheduled):
            problem = NodeScores(self._profile_of).problem(pods)
            if problem:
                return problem
        return self._signal_problem(strategies, pods)

    def _signal_problem(self, strategies: Sequence[StrategySpec], pods: Sequence[Pod]) -> str:
        for signal in signals_of(strategies, self._registry):
            sampler = self.signals.get(signal.source)
            if sampler is None:
                return f"the source {signal.source} is not configured; ask for scaleDown.sources.{signal.source}"
            if problem := sampler.problem(signal, pods):
                return problem
        return ""

    def ages(self) -> Mapping[str, Callable[[], float]]:
        """Functions that return the age of the oldest sample of each source, in seconds."""
        known = {"usage": self.usage.samples, "answers": self.answers.samples}
        ages = {name: partial(self._oldest, samples) for name, samples in known.items()}
        return ages | {name: sampler.oldest for name, sampler in self.signals.items()}

    def _oldest(self, samples: Samples) -> float:
        return samples.oldest(self._clock.monotonic())

    async def run(self) -> None:
        """Sample until cancelled."""
        works: list[Callable[[], Any]] = [self.measure, self.probe]
        works += [partial(self._ask, sampler) for sampler in self.signals.values()]
        try:
            await run_together(self._repeat(work) for work in works)
        finally:
            await self._http.close()
            for sampler in self.signals.values():
                await sampler.source.close()
            self._forget()

    def _forget(self) -> None:
        """Drop all samples: they are not refreshed any more."""
        self.usage.samples.keep(frozenset())
        self.answers.keep(frozenset())
        for sampler in self.signals.values():
            sampler.keep(())

    async def measure(self) -> None:
        """Sample usage, if it is due; earlier, if there are pods without a sample."""
        wanted = [pod for target in self._targets() if _configured(target.strategies, Idle) for pod in target.pods]
        uids = frozenset(pod.metadata.uid for pod in wanted)
        self.usage.samples.keep(uids)
        elapsed = (self._clock.monotonic() - self._measured_at) / SECOND
        if not wanted or elapsed < (EAGER if uids - self._measured else PERIOD):
            return
        self._measured_at = self._clock.monotonic()
        await self.usage.sample(wanted)
        self._measured = frozenset() if self.usage.problem else uids

    async def probe(self) -> None:
        """Probe the pods that are due."""
        requests = list(_probe_requests(self._targets()))
        self.answers.keep(frozenset(request.pod.metadata.uid for request in requests))
        await self.answers.probe(requests)

    async def ask(self) -> None:
        """Ask all sources for the signals that are due."""
        await asyncio.gather(*(self._ask(sampler) for sampler in self.signals.values()))

    async def _ask(self, sampler: SignalSampler) -> None:
        requests = [
            SignalRequest(signal, target.pods)
            for target in self._targets()
            for signal in dict.fromkeys(signals_of(target.strategies, self._registry))
            if signal.source == sampler.name
        ]
        await sampler.sample(requests)

    async def _repeat(self, work: Callable[[], Any]) -> None:
        while True:
            await _logged(work)
            await self._clock.sleep(_CHECK)


async def _logged(work: Callable[[], Any]) -> None:
    """Log an error and go on: it is tried again at the next check."""
    try:
        await work()
    except Exception:
        log.exception("sampling failed")


def _probe_requests(targets: Iterable[Target]) -> Iterable[ProbeRequest]:
    for target in targets:
        probe = _configured(target.strategies, Probe)
        if probe is not None:
            for pod in target.pods:
                if pod.active and pod.status.phase == "Running":
                    yield ProbeRequest(pod, probe.settings)


def _configured(strategies: Sequence[StrategySpec], kind: type[S]) -> S | None:
    """The first strategy of a kind with its arguments; None where there is none, or its arguments are invalid."""
    for spec in strategies:
        if spec.name == kind.name:
            try:
                return kind.configured(spec.args)
            except InvalidError:
                return None
    return None
