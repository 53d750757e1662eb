"""Signals: asking sources in the background, and the registry of sources."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.unit.kube.fakes import ScriptedTransport
from trimtab.api import configuration
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.app.dependencies import sources as configured_sources
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies import STRATEGIES, Factory, Ranks, Signal, View
from trimtab.scaledown.continuous.assessment import is_sampled
from trimtab.scaledown.sources import SourceError
from trimtab.scaledown.sources.registry import ENTRY_POINTS, SOURCES, make_sources, registry
from trimtab.scaledown.sources.sampling import Sources, Target
from trimtab.scaledown.sources.signals import LIMIT
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import cluster, pod
from trimtab.testing.clocks import VirtualClock


@dataclass
class Queues:
    """A source of a company's own: how many messages wait for each pod."""

    values: dict[str, float] = field(default_factory=dict)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    error: Exception | None = None
    hangs: bool = False
    closed: int = 0

    async def sample(self, query: str, pods: Sequence[Pod]) -> Mapping[str, float]:
        """The values, or the error."""
        self.asked.append((query, sorted(pod.metadata.name for pod in pods)))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.values

    async def close(self) -> None:
        """Count it."""
        self.closed += 1


@dataclass(frozen=True)
class Waiting:
    """A strategy of a company's own, by that source."""

    name: ClassVar[str] = "Waiting"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False
    signal: ClassVar[Signal] = Signal("Queues", "orders", period_seconds=20, max_age_seconds=60)

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The fewer wait, the sooner."""
        return 0.0 - view.signal(rows, self.signal)


KNOWN: Mapping[str, Factory] = {**STRATEGIES, "Waiting": lambda _: Waiting()}
WAITING = (StrategySpec(name="Waiting"),)


def web(name: str, owner: str = "web") -> Pod:
    """A pod of a workload."""
    return pod(name).on("a").owned_by(owner).build()


@dataclass
class World:
    """Sources that ask `queues` for the pods of workloads."""

    queues: Queues
    clock: VirtualClock
    workloads: list[list[Pod]]
    failures: list[str]
    sources: Sources

    @classmethod
    def of(cls, *workloads: list[Pod], **more: Any) -> World:
        """A cluster with these workloads."""
        queues, clock, listed = Queues(**more), VirtualClock(), list(workloads)
        failures: list[str] = []
        sources = Sources(
            Client(ScriptedTransport(), clock=clock),
            lambda: [Target(WAITING, pods) for pods in listed],
            sources={"Queues": queues},
            registry=KNOWN,
            on_failure=failures.append,
        )
        return cls(queues, clock, listed, failures, sources)

    def values(self, pods: Sequence[Pod]) -> Mapping[str, float]:
        """The fresh values of these pods."""
        return self.sources.values(WAITING, pods).signals[Waiting().signal]


async def test_a_signal_ranks_pods() -> None:
    """From the source, through the values of a policy, to the ranks of a strategy."""
    group = cluster("z: a").with_pods(pod("p").on("a").owned_by("web"), pod("q").on("a").owned_by("web"))
    world = World.of(group.pods(), values={"p": 3.0, "q": 1.0, "other": 9.0})
    await world.sources.ask()
    assert world.values(group.pods()) == {"default/p": 3.0, "default/q": 1.0}
    policy = world.sources.values(WAITING, group.pods()).apply_to(Policy.of(WAITING, KNOWN))
    assert policy.rank(group.snapshot(), np.array([0, 1]), 0).total.tolist() == [-3, -1]


async def test_each_workload_is_asked_for_on_its_own_and_in_its_period() -> None:
    """And what a source says of another workload's pods is not used."""
    first, second = [web("p")], [web("q", "api")]
    cluster = World.of(first, second, values={"p": 1.0, "q": 2.0})
    await cluster.sources.ask()
    assert cluster.queues.asked == [("orders", ["p"]), ("orders", ["q"])]
    await cluster.clock.advance(19)
    await cluster.sources.ask()
    assert len(cluster.queues.asked) == 2
    await cluster.clock.advance(1)
    await cluster.sources.ask()
    assert len(cluster.queues.asked) == 4


async def test_new_pods_are_asked_for_early() -> None:
    """After five seconds, once."""
    pods = [web("p")]
    cluster = World.of(pods, values={"p": 1.0})
    await cluster.sources.ask()
    pods.append(web("q"))
    for _ in range(15):
        await cluster.clock.advance(1)
        await cluster.sources.ask()
    assert [asked for _, asked in cluster.queues.asked] == [["p"], ["p", "q"]]


async def test_a_stale_value_counts_as_none() -> None:
    """It grows old from when it was asked for; a source that fails is counted, and says why."""
    pods = [web("p")]
    cluster = World.of(pods, values={"p": 1.0})
    await cluster.sources.ask()
    cluster.queues.error = SourceError("it is being moved")
    for _ in range(3):
        await cluster.clock.advance(20)
        await cluster.sources.ask()
    assert cluster.values(pods) == {"default/p": 1.0}
    await cluster.clock.advance(1)
    assert cluster.values(pods) == {}
    assert cluster.failures == ["Queues"] * 3
    assert cluster.sources.problem(WAITING, pods) == "the source Queues has no values: it is being moved"
    assert cluster.sources.ages()["Queues"]() == 61


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e16])
async def test_an_impossible_value_is_none(value: float) -> None:
    """The pod is unranked, and the condition names it."""
    pods = [web("p")]
    cluster = World.of(pods, values={"p": value})
    await cluster.sources.ask()
    assert cluster.values(pods) == {}
    assert "reports no value, or not one value, of p" in cluster.sources.problem(WAITING, pods)


async def test_a_source_that_breaks_says_nothing_of_what_broke() -> None:
    """A user's own code: its exception may have anything in it; the log has it."""
    pods = [web("p")]
    cluster = World.of(pods, error=ValueError("password=hunter2"))
    await cluster.sources.ask()
    problem = cluster.sources.problem(WAITING, pods)
    assert "it failed with ValueError; Trimtab's log says more" in problem
    assert "hunter2" not in problem


async def test_a_source_that_hangs_is_given_up_on() -> None:
    """So that it is asked again."""
    pods = [web("p")]
    cluster = World.of(pods, hangs=True)
    asking = asyncio.ensure_future(cluster.sources.ask())
    await cluster.clock.advance(LIMIT)
    assert asking.done()
    assert f"no answer within {LIMIT:g} s" in cluster.sources.problem(WAITING, pods)
    assert cluster.failures == ["Queues"]


async def test_what_no_policy_needs_is_dropped() -> None:
    """The policy has gone."""
    pods = [web("p")]
    cluster = World.of(pods, values={"p": 1.0})
    await cluster.sources.ask()
    cluster.workloads.clear()
    await cluster.sources.ask()
    assert cluster.values(pods) == {}
    assert "has not been asked yet" in cluster.sources.problem(WAITING, pods)


async def test_a_source_that_is_not_configured_is_named() -> None:
    """The policy's condition says what to ask the administrator for."""
    sources = Sources(Client(ScriptedTransport(), clock=VirtualClock()), list, registry=KNOWN)
    assert sources.problem(WAITING, [web("p")]) == (
        "the source Queues is not configured; ask for scaleDown.sources.Queues"
    )
    assert sources.values(WAITING, [web("p")]).signals == {}


async def test_sources_are_asked_while_sources_run_and_closed_afterwards() -> None:
    """In the background, as everything that is sampled."""
    pods = [web("p")]
    cluster = World.of(pods, values={"p": 1.0})
    running = asyncio.ensure_future(cluster.sources.run())
    await cluster.clock.advance(2)
    assert cluster.values(pods) == {"default/p": 1.0}
    await cancel(running)
    assert cluster.queues.closed == 1
    assert cluster.values(pods) == {}


@pytest.mark.parametrize(
    ("strategies", "sampled"),
    [
        pytest.param(WAITING, True, id="a company's own signal"),
        pytest.param((StrategySpec(name="Prometheus"),), True, id="Prometheus"),
        pytest.param((StrategySpec(name="Idle"),), True, id="usage"),
        pytest.param((StrategySpec(name="Youngest"), StrategySpec(name="unknown")), False, id="the cluster alone"),
    ],
)
def test_signals_are_sampled(strategies: tuple[StrategySpec, ...], sampled: bool) -> None:
    """So their ranks are rounded, and computed often."""
    assert is_sampled(strategies, KNOWN) is sampled


# The registry.


def point(name: str, value: str) -> EntryPoint:
    """An entry point as an installed package would offer it."""
    return EntryPoint(name=name, value=value, group=ENTRY_POINTS)


def test_an_entry_point_adds_a_source() -> None:
    """Which is used if the configuration has settings for it."""
    found = registry([point("Queues", f"{__name__}:queues")])
    assert set(found) == {*SOURCES, "Queues"}
    made = make_sources({"Queues": {"values": {"p": 1.0}}}, found)
    assert isinstance(made["Queues"], Queues)


def test_the_source_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry point in the metadata of the package."""
    record = tmp_path / "queues-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: queues\nVersion: 1.0\n", encoding="utf-8")
    (record / "entry_points.txt").write_text(f"[trimtab.sources]\nQueues = {__name__}:queues\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made = configured_sources(configuration.read({"scaleDown": {"sources": {"Queues": {"values": {"p": 1.0}}}}}))
    assert isinstance(made["Queues"], Queues)


def queues(args: Mapping[str, Any]) -> Queues:
    """A factory, as an entry point names it."""
    if "values" not in args:
        raise InvalidError("args.values", "is missing")
    return Queues(dict(args["values"]))


@pytest.mark.parametrize(
    ("points", "words"),
    [
        pytest.param([point("Prometheus", "json:loads")], 'source "Prometheus" is there twice', id="a name twice"),
        pytest.param([point("Mine", "no_such_module:x")], "cannot be loaded", id="no module"),
        pytest.param([point("Mine", "json:__name__")], "is no factory", id="no factory"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named(points: list[EntryPoint], words: str) -> None:
    """At the start, with where it comes from."""
    with pytest.raises(InvalidError, match=words):
        registry(points)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        pytest.param({"Prometheus": {"url": "x"}}, "scaleDown.sources.Prometheus.url", id="an address"),
        pytest.param({"Prometheus": {}}, "scaleDown.sources.Prometheus.url", id="no address"),
        pytest.param({"Prometheos": {}}, "scaleDown.sources.Prometheos", id="a name"),
    ],
)
def test_a_mistake_in_the_configuration_is_named_from_the_top(settings: dict[str, Any], path: str) -> None:
    """As it stands in the file."""
    with pytest.raises(InvalidError) as error:
        configured_sources(configuration.read({"scaleDown": {"sources": settings}}))
    assert error.value.path == path
