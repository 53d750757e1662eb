"""Signals of sources outside the cluster: asking for them in the background, and keeping the last value of each pod.

A source is asked for the pods of one workload at a time, and what it reports of others is not used. A source that fails
or hangs stops no other one: each has a loop of its own, and a time limit.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.kube.clocks import SECOND, Clock, within
from trimtab.ranking.strategies import Factory
from trimtab.ranking.strategies.signals import Signal, signal_of
from trimtab.scaledown.sources.samples import Samples

LIMIT = 60.0
"""Seconds after which a source that has not answered is given up on."""
EAGER = 5.0
"""Seconds between two requests while there are pods that have not been asked for."""
AT_ONCE = 4
"""How many requests to a source are made at a time."""
_MOST = 1e15
"""The largest absolute value that is accepted."""

log = logging.getLogger(__name__)


class SourceError(Exception):
    """A source that has no values now, and why: authors of policies read it, so it must not quote other data."""


class Source(Protocol):
    """Reports values of pods."""

    async def sample(self, query: str, pods: Sequence[Pod]) -> Mapping[str, float]:
        """The values of these pods, all of one workload, by their names. Raises SourceError."""
        ...

    async def close(self) -> None:
        """Release what it holds. It may be asked again afterwards."""
        ...


SourceFactory = Callable[[Mapping[str, Any]], Source]
"""Makes a source from its settings in the configuration. Raises InvalidError with a path such as `args.url`."""


def signals_of(strategies: Iterable[StrategySpec], known: Mapping[str, Factory]) -> list[Signal]:
    """The signals by which strategies rank; none of those that are unknown or invalid, which a policy reports."""
    named = [spec for spec in strategies if spec.name in known]
    found = (_signal(known[spec.name], msgspec.json.encode(spec.args)) for spec in named)
    return [signal for signal in found if signal is not None]


@functools.lru_cache(maxsize=1024)
def _signal(factory: Factory, args: bytes) -> Signal | None:
    """Computed once for each strategy: it is needed every second, for every workload."""
    try:
        return signal_of(factory(msgspec.json.decode(args)))
    except Exception:  # noqa: BLE001 - a user's strategy: the policy's condition says what is wrong with it
        return None


@dataclass(frozen=True, slots=True)
class SignalRequest:
    """A signal, and the pods of one workload that it is needed for."""

    signal: Signal
    pods: Sequence[Pod]

    @property
    def key(self) -> tuple[Signal, str]:
        """The signal and the workload."""
        return self.signal, workload_of(self.pods)


def workload_of(pods: Sequence[Pod]) -> str:
    """The UID of the controller of these pods."""
    owner = pods[0].metadata.controller if pods else None
    return "" if owner is None else owner.uid


@dataclass(slots=True)
class _Attempt:
    """The last request for a signal of a workload: when, for which pods, and why it failed."""

    at: int
    uids: frozenset[str]
    problem: str = ""


@dataclass(slots=True)
class SignalSampler:
    """Asks one source."""

    name: str
    source: Source
    clock: Clock
    on_failure: Callable[[str], None] = lambda _: None
    samples: dict[Signal, Samples] = field(default_factory=dict)
    _attempts: dict[tuple[Signal, str], _Attempt] = field(default_factory=dict)

    def fresh(self, signal: Signal, pods: Iterable[Pod]) -> dict[str, float]:
        """The values of these pods that are not too old."""
        known = self.samples.get(signal)
        return {} if known is None else known.fresh(pods, now=self.clock.monotonic(), max_age=signal.max_age_seconds)

    def problem(self, signal: Signal, pods: Sequence[Pod]) -> str:
        """Why values of these pods are missing."""
        attempt = self._attempts.get((signal, workload_of(pods)))
        if not pods:
            return ""
        if attempt is None:
            return f"the source {self.name} has not been asked yet"
        if attempt.problem:
            return f"the source {self.name} has no values: {attempt.problem}"
        missing = [pod.metadata.name for pod in pods if pod.key not in self.fresh(signal, pods)]
        return f"the source {self.name} reports no value, or not one value, of {missing[0]}" if missing else ""

    def oldest(self) -> float:
        """The age of the oldest sample in seconds; 0 where there are none."""
        now = self.clock.monotonic()
        return max((samples.oldest(now) for samples in self.samples.values()), default=0.0)

    async def sample(self, requests: Sequence[SignalRequest]) -> None:
        """Ask for what is due, and drop what no policy needs any more."""
        self.keep(requests)
        due = [request for request in requests if request.pods and self._is_due(request)]
        slots = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._sample(request, slots) for request in due))

    def keep(self, requests: Iterable[SignalRequest]) -> None:
        """Drop the samples of all other signals and pods."""
        wanted: dict[Signal, set[str]] = {}
        keys = set()
        for request in requests:
            wanted.setdefault(request.signal, set()).update(pod.metadata.uid for pod in request.pods)
            keys.add(request.key)
        self.samples = {signal: known for signal, known in self.samples.items() if signal in wanted}
        for signal, known in self.samples.items():
            known.keep(frozenset(wanted[signal]))
        self._attempts = {key: attempt for key, attempt in self._attempts.items() if key in keys}

    def _is_due(self, request: SignalRequest) -> bool:
        attempt = self._attempts.get(request.key)
        if attempt is None:
            return True
        is_new = any(pod.metadata.uid not in attempt.uids for pod in request.pods)
        period = min(EAGER, request.signal.period_seconds) if is_new else request.signal.period_seconds
        return self.clock.monotonic() - attempt.at >= period * SECOND

    async def _sample(self, request: SignalRequest, slots: asyncio.Semaphore) -> None:
        async with slots:
            now = self.clock.monotonic()
            uids = frozenset(pod.metadata.uid for pod in request.pods)
            attempt = self._attempts[request.key] = _Attempt(now, uids)
            try:
                found = await within(self.clock, LIMIT, self.source.sample(request.signal.query, request.pods))
            except Exception as error:  # noqa: BLE001 - a user's source: it is counted, reported and asked again
                attempt.problem = self._reason(error)
                self.on_failure(self.name)
                return
        samples = self.samples.setdefault(request.signal, Samples())
        for pod in request.pods:
            value = found.get(pod.metadata.name)
            if value is not None and math.isfinite(value) and abs(value) <= _MOST:
                samples.put(pod, value, now)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, SourceError):
            return str(error)
        if isinstance(error, TimeoutError):
            return f"no answer within {LIMIT:g} s"
        log.error("the source %s failed", self.name, exc_info=error)
        return f"it failed with {type(error).__name__}; Trimtab's log says more"
