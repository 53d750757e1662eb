"""Samples whatever some policy needs, for as long as one does, and nothing else."""

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
from trimtab.kube.clocks import SECOND, cancel
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies.idle import Idle
from trimtab.ranking.strategies.probe import Probe
from trimtab.ranking.strategies.scheduled import Scheduled
from trimtab.scaledown.sources.answers import AnswerSource, Fetch, HttpFetch, Network, Question
from trimtab.scaledown.sources.samples import Samples
from trimtab.scaledown.sources.scores import MAX_AGE, ScoreSource
from trimtab.scaledown.sources.usage import EAGER, PERIOD, UsageSource

S = TypeVar("S", Idle, Probe, Scheduled)

_TURN = 1.0
"""Seconds between looks for pods whose turn it is."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Pods that one policy speaks for, and its strategies."""

    strategies: tuple[StrategySpec, ...]
    pods: Sequence[Pod]


@dataclass(frozen=True, slots=True)
class Values:
    """What was found out about pods, by `namespace/name`: as `ranking.Policy` takes it."""

    usage: Mapping[str, float] = field(default_factory=dict)
    stated: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    def given_to(self, policy: Policy) -> Policy:
        """A policy that knows all this."""
        return replace(policy, usage=self.usage, stated=self.stated, scores=self.scores)


class Sources:
    """Everything that strategies need from outside. `targets` says, whenever it is asked, whom policies speak for."""

    def __init__(
        self,
        client: Client,
        targets: Callable[[], Iterable[Target]],
        *,
        fetch: Fetch | None = None,
        networks: Sequence[Network] = (),
        scores: ScoreSource | None = None,
    ) -> None:
        self.usage = UsageSource(client)
        self._http = HttpFetch()
        self.answers = AnswerSource(client.clock, fetch or self._http, networks=networks)
        self.scores = scores
        self._clock = client.clock
        self._targets = targets
        self._measured: frozenset[str] = frozenset()
        self._measured_at = self._clock.monotonic() - round(PERIOD * SECOND)

    def values(self, strategies: Sequence[StrategySpec], pods: Sequence[Pod]) -> Values:
        """What is known and fresh of what these strategies look at. Answers at once."""
        now = self._clock.monotonic()
        idle, probe = _found(strategies, Idle), _found(strategies, Probe)
        usage = self.usage.samples.fresh(pods, now=now, max_age=idle.settings.max_age_seconds) if idle else {}
        stated = self.answers.samples.fresh(pods, now=now, max_age=probe.settings.max_age_seconds) if probe else {}
        scored = self.scores is not None and _found(strategies, Scheduled)
        scores = self.scores.samples.fresh(pods, now=now, max_age=MAX_AGE) if self.scores and scored else {}
        return Values(usage, stated, scores)

    def problem(self, strategies: Sequence[StrategySpec], pods: Iterable[Pod] = ()) -> str:
        """Why something that these strategies need cannot be had, as far as that is known."""
        pods = list(pods)
        if _found(strategies, Idle):
            fresh = self.values(strategies, pods).usage
            silent = next((pod.key for pod in pods if pod.key not in fresh), "")
            if self.usage.problem or silent:
                return self.usage.problem or f"metrics.k8s.io says nothing of {silent}, or nothing new"
        if _found(strategies, Probe):
            for pod in pods:
                refusal = self.answers.refusals.get(pod.metadata.uid)
                if refusal is not None:
                    return f"{pod.key} was asked and gave no answer: {refusal}"
        return ""

    def ages(self) -> Mapping[str, Callable[[], float]]:
        """How old the oldest sample of each source is, in seconds, whenever it is asked."""
        known = {"usage": self.usage.samples, "answers": self.answers.samples}
        known |= {"scores": self.scores.samples} if self.scores is not None else {}
        return {name: partial(self._oldest, samples) for name, samples in known.items()}

    def _oldest(self, samples: Samples) -> float:
        return samples.oldest(self._clock.monotonic())

    async def run(self) -> None:
        """Sample until cancelled."""
        works = (self.measure, self.ask, self.score)
        tasks = [asyncio.ensure_future(self._repeat(work)) for work in works]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel(*tasks)
            await self._http.close()
            self._forget()

    def _forget(self) -> None:
        """Samples that nobody takes any more would only grow old."""
        self.usage.samples.keep(frozenset())
        self.answers.keep(frozenset())
        if self.scores is not None:
            self.scores.keep(frozenset())

    async def measure(self) -> None:
        """Take a sample of usage, if it is time; a little earlier, if there are pods of which none was ever taken."""
        wanted = [pod for target in self._targets() if _found(target.strategies, Idle) for pod in target.pods]
        uids = frozenset(pod.metadata.uid for pod in wanted)
        self.usage.samples.keep(uids)
        elapsed = (self._clock.monotonic() - self._measured_at) / SECOND
        if not wanted or elapsed < (EAGER if uids - self._measured else PERIOD):
            return
        self._measured_at = self._clock.monotonic()
        await self.usage.sample(wanted)
        self._measured = frozenset() if self.usage.problem else uids

    async def ask(self) -> None:
        """Ask the pods whose turn it is."""
        questions = list(_questions(self._targets()))
        self.answers.keep(frozenset(question.pod.metadata.uid for question in questions))
        await self.answers.ask(questions)

    async def score(self) -> None:
        """Score the pods whose turn it is."""
        if self.scores is not None:
            wanted = [pod for target in self._targets() if _found(target.strategies, Scheduled) for pod in target.pods]
            self.scores.keep(frozenset(pod.metadata.uid for pod in wanted))
            await self.scores.score(wanted)

    async def _repeat(self, work: Callable[[], Any]) -> None:
        while True:
            await _logged(work)
            await self._clock.sleep(_TURN)


async def _logged(work: Callable[[], Any]) -> None:
    """What fails once is tried again the next time: sampling never ends because of it."""
    try:
        await work()
    except Exception:
        log.exception("sampling failed")


def _questions(targets: Iterable[Target]) -> Iterable[Question]:
    for target in targets:
        probe = _found(target.strategies, Probe)
        if probe is not None:
            for pod in target.pods:
                if pod.active and pod.status.phase == "Running":
                    yield Question(pod, probe.settings)


def _found(strategies: Sequence[StrategySpec], kind: type[S]) -> S | None:
    """The first strategy of a kind as it is set up; None where there is none, or its settings make no sense."""
    for spec in strategies:
        if spec.name == kind.name:
            try:
                return kind.configured(spec.args)
            except InvalidError:
                return None
    return None
