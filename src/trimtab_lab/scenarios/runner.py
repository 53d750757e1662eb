"""Plays a story on a control plane, and tells what came of it.

A run makes a namespace and nodes of its own, does one step after the other, waits for each by watching, and notes how
the pods stood then. What is not as expected is noted, and the story goes on; what does not come to pass in time ends
it, for what follows would mean nothing. Whatever happens, everything that was made is removed in the end, unless it is
to be kept.

A story that comes out differently is a result. Only what keeps it from being played at all is raised: an API server
that refuses a manifest, a kind that it does not have.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.errors import AlreadyExists, ApiError, KubeError, NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.resources import untyped
from trimtab_lab.nodes.nodegroups import CLUSTER
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios import kinds, observations, runs
from trimtab_lab.scenarios.actions import StoryContext, StoryError
from trimtab_lab.scenarios.observations import Observation, PodDistribution
from trimtab_lab.scenarios.runs import Run
from trimtab_lab.scenarios.simulation import NodeSimulator
from trimtab_lab.scenarios.steps import Compare, Repeat, Step, Wait
from trimtab_lab.scenarios.stories import Story
from trimtab_lab.scenarios.timelines import Change, StepMark, Timeline
from trimtab_lab.scenarios.watcher import Watcher

SERVICE_ACCOUNTS = untyped("v1", "ServiceAccount", "serviceaccounts")
ALL = ""
"""The name under which the pods of all workloads together are recorded."""

_CLEANUP_TIMEOUT = 60.0
_EXAMPLES = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How to play."""

    keep: bool = False
    """Leave everything as it is at the end, to be looked at."""
    scheduler: str = ""
    """The scheduler of pods that name none."""
    setup_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class StepRecord:
    """How a step ended."""

    number: int
    title: str
    at: float
    took: float
    distributions: dict[str, PodDistribution]
    failures: tuple[str, ...] = ()
    compare: Compare = Compare.EXACT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a story."""

    story: Story
    run: Run
    records: tuple[StepRecord, ...]
    timeline: Timeline
    leftovers: tuple[str, ...] = ()
    """What could not be removed, or was to be kept."""

    @property
    def complete(self) -> bool:
        """Whether the story came to its end."""
        return len(self.records) == len(list(unroll(self.story.steps))) and not self.unfinished

    @property
    def unfinished(self) -> bool:
        """Whether the last step was not over in time."""
        return bool(self.records) and not self.records[-1].distributions

    @property
    def failures(self) -> list[str]:
        """Everything that was not as expected, with the step it was in."""
        return [f"step {record.number} ({record.title}): {each}" for record in self.records for each in record.failures]


@dataclass(frozen=True, slots=True)
class Message:
    """Progress: something that is no step."""

    text: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """Progress: a step of so many began."""

    number: int
    of: int
    title: str


@dataclass(frozen=True, slots=True)
class PodChanged:
    """Progress: a pod changed."""

    change: Change


@dataclass(frozen=True, slots=True)
class StepEnded:
    """Progress: a step ended like this."""

    record: StepRecord


Progress = Message | StepStarted | PodChanged | StepEnded


@dataclass(slots=True)
class Runner:
    """Plays stories on one control plane."""

    client: Client
    simulate: NodeSimulator
    options: Options = field(default_factory=Options)
    report: Callable[[Progress], None] = lambda _: None
    rng: random.Random = field(default_factory=random.SystemRandom)

    async def play(self, story: Story) -> Outcome:
        """Play a story from its beginning to its end, and clean up."""
        run = Run(story, runs.suffix(self.rng), self.options.scheduler)
        shape = run.shape(story.cluster)
        records: list[StepRecord] = []
        watching = Watcher(
            self.client, run, kinds.watched_workloads(story), lambda change: self.report(PodChanged(change))
        )
        async with self.simulate(shape) as nodes:
            context = StoryContext(self.client, run, nodes, watching, kinds.KindLookup(self.client, story), shape)
            try:
                async with watching:
                    await self._prepare(context)
                    await self._steps(context, records)
            finally:
                left = await self._clean(context)
        return Outcome(story, run, tuple(records), watching.timeline, left)

    async def _prepare(self, context: StoryContext) -> None:
        """A namespace, nodes that answer, and the workloads. Nothing is waited for but the nodes."""
        run = context.run
        self.report(Message(f"namespace {run.name}, {len(run.story.cluster.nodes)} nodes"))
        await self.client.create(
            Namespace, {"metadata": {"name": run.name, "labels": dict(run.story.namespace_labels)}}
        )
        await self._service_account(run.name)
        context.timeout = self.options.setup_timeout
        try:
            await context.until_ready(list(context.shape.nodes))
        except TimeoutError as error:
            raise StoryError(f"the story's nodes are not ready {error}{_because(context.watching.problem)}") from error
        for manifest in run.story.workloads:
            await context.apply(manifest)

    async def _service_account(self, namespace: str) -> None:
        """Pods need one. Where a controller makes it, it may come late, and the first pods would be refused."""
        try:
            await self.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=namespace)
        except AlreadyExists:
            log.debug("%s has its service account", namespace)

    async def _steps(self, context: StoryContext, records: list[StepRecord]) -> None:
        steps = list(unroll(context.run.story.steps))
        for number, step in enumerate(steps, 1):
            self.report(StepStarted(number, len(steps), str(step)))
            context.watching.timeline.marks.append(StepMark(context.watching.elapsed, number, str(step)))
            record = await _step(context, number, step)
            records.append(record)
            self.report(StepEnded(record))
            if not record.distributions:
                return

    async def _clean(self, context: StoryContext) -> tuple[str, ...]:
        """Remove what was made. What cannot be removed is told, and hides nothing that went wrong before."""
        if self.options.keep:
            return (context.run.name,)
        self.report(Message("cleaning up"))
        left: list[str] = []
        for what, work in (
            *((f"{resource.kind} {name}", self._delete(resource, name)) for resource, name in context.cluster_scoped),
            (f"namespace {context.run.name}", self._remove_namespace(context.run.name)),
            (f"nodes of {context.run.name}", self._remove_nodes(context)),
        ):
            try:
                await within(self.client.clock, _CLEANUP_TIMEOUT, work)
            except (KubeError, TimeoutError) as error:
                log.warning("%s could not be removed: %s", what, error)
                left.append(what)
        return tuple(left)

    async def _delete(self, kind: Any, name: str, **how: Any) -> None:
        try:
            await self.client.delete(kind, name, **how)
        except NotFound:
            log.debug("%s is gone already", name)

    async def _remove_namespace(self, name: str) -> None:
        """With everything in it. Pods go at once: some may be on nodes that will never confirm it."""
        await self._delete(Namespace, name)
        await self.client.delete_all(Pod, namespace=name, grace_period_seconds=0)
        spaces = Informer(self.client, Namespace, field_selector=f"metadata.name={name}")
        await _until(spaces, lambda: not any(space.metadata.name == name for space in spaces.store))

    async def _remove_nodes(self, context: StoryContext) -> None:
        cluster = context.run.name
        await context.nodes.reshape(Shape(name=cluster))
        nodes = Informer(self.client, Node, label_selector=f"{CLUSTER}={cluster}")
        await _until(nodes, lambda: not any(node.metadata.labels.get(CLUSTER) == cluster for node in nodes.store))


async def _until(informer: Informer[Any], condition: Callable[[], bool]) -> None:
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        await informer.wait_for(lambda _: condition())
    finally:
        await cancel(task)


def unroll(steps: tuple[Step, ...], note: str = "") -> Iterator[Step]:
    """The steps as they happen: those of a repetition as often as it says, each told which time it is."""
    for step in steps:
        if isinstance(step.action, Repeat):
            for time in range(1, step.action.times + 1):
                yield from unroll(step.action.steps, f"{note}, {time} of {step.action.times}")
        elif note:
            yield replace(step, title=f"{step}{note}")
        else:
            yield step


async def _step(context: StoryContext, number: int, step: Step) -> StepRecord:
    """Do, wait, look."""
    started = context.watching.elapsed
    wait = step.wait or Wait()
    context.timeout = wait.within
    try:
        if step.action is not None:
            await context.do(step.action)
        observation = await context.watching.until(
            lambda seen: observations.is_satisfied(wait, seen, deleted=context.deleted), wait.within
        )
    except TimeoutError as error:
        return _overdue(context, number, step, started, f"{error}: {_missing(context, wait)}")
    except (ApiError, LookupError) as error:
        raise StoryError(f"{step.path} ({step}): {error}") from error
    distributions = _distributions(context, observation)
    failures = [
        each
        for expectation in step.expect
        for each in observations.failures(
            expectation, observation.distribution(context.run.story.topology, expectation.of)
        )
    ]
    took = context.watching.elapsed - started
    return StepRecord(number, str(step), started, took, distributions, tuple(failures), step.compare)


def _distributions(context: StoryContext, observation: Observation) -> dict[str, PodDistribution]:
    """All pods together, and, where there are several workloads, each of them."""
    topology = context.run.story.topology
    names = list(observation.workloads) if len(observation.workloads) > 1 else []
    return {name: observation.distribution(topology, name) for name in (ALL, *names)}


def _overdue(context: StoryContext, number: int, step: Step, started: float, failure: str) -> StepRecord:
    return StepRecord(number, str(step), started, context.watching.elapsed - started, {}, (failure,), step.compare)


def _missing(context: StoryContext, wait: Wait) -> str:
    """What was waited for, and what there was instead."""
    seen = context.watching.seen()
    counts = ", ".join(f"{name} {number}" for name, number in seen.counts(wait.of).items())
    problems = [] if wait.counts else observations.unsettled(seen, wait.of, deleted=context.deleted)
    reasons = "; ".join([*problems, *_examples(seen)])
    return f"waited for {wait}; seen {counts}{_because(reasons)}{_because(context.watching.problem)}"


def _examples(seen: Observation) -> list[str]:
    """Why pods have no node, as the scheduler says it, each reason once."""
    conditions = (pod.status.condition("PodScheduled") for pod in seen.pods if observations.is_unschedulable(pod))
    return list(dict.fromkeys(each.message for each in conditions if each is not None))[:_EXAMPLES]


def _because(text: str) -> str:
    return f"; {text}" if text else ""
