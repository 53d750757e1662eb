"""Runs a story on a control plane and returns its outcome.

A run creates its own namespace and nodes, carries out one step after the other, waits for each by watching, and records
the distribution of the pods. A failed expectation is recorded, and the story continues; a timeout ends it, because
later steps would mean nothing. In every case all created objects are removed at the end, unless they are to be kept.

A story with another outcome than expected is a result. Exceptions are for stories that cannot be run: an API server
that refuses a manifest, a kind that it does not serve.
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
    """Options of a run."""

    keep: bool = False
    """Keep all objects at the end."""
    scheduler: str = ""
    """The scheduler of pods that name none."""
    setup_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The result of a step."""

    number: int
    title: str
    at: float
    took: float
    distributions: dict[str, PodDistribution]
    failures: tuple[str, ...] = ()
    compare: Compare = Compare.EXACT


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a story."""

    story: Story
    run: Run
    records: tuple[StepRecord, ...]
    timeline: Timeline
    leftovers: tuple[str, ...] = ()
    """Objects that could not be removed, or were kept."""

    @property
    def complete(self) -> bool:
        """Whether all steps were carried out."""
        return len(self.records) == len(list(unroll(self.story.steps))) and not self.unfinished

    @property
    def unfinished(self) -> bool:
        """Whether the last step timed out."""
        return bool(self.records) and not self.records[-1].distributions

    @property
    def failures(self) -> list[str]:
        """All failed expectations, with their steps."""
        return [f"step {record.number} ({record.title}): {each}" for record in self.records for each in record.failures]


@dataclass(frozen=True, slots=True)
class Message:
    """Progress: a message that is not about a step."""

    text: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """Progress: a step has started."""

    number: int
    of: int
    title: str


@dataclass(frozen=True, slots=True)
class PodChanged:
    """Progress: a pod has changed."""

    change: Change


@dataclass(frozen=True, slots=True)
class StepEnded:
    """Progress: a step has ended."""

    record: StepRecord


Progress = Message | StepStarted | PodChanged | StepEnded


@dataclass(slots=True)
class Runner:
    """Runs stories on one control plane."""

    client: Client
    simulate: NodeSimulator
    options: Options = field(default_factory=Options)
    report: Callable[[Progress], None] = lambda _: None
    rng: random.Random = field(default_factory=random.SystemRandom)

    async def play(self, story: Story) -> Outcome:
        """Run a story and clean up."""
        run = Run(story, runs.suffix(self.rng), self.options.scheduler)
        shape = run.shape(story.cluster)
        records: list[StepRecord] = []
        watcher = Watcher(
            self.client, run, kinds.watched_workloads(story), lambda change: self.report(PodChanged(change))
        )
        async with self.simulate(shape) as nodes:
            context = StoryContext(self.client, run, nodes, watcher, kinds.KindLookup(self.client, story), shape)
            try:
                async with watcher:
                    await self._prepare(context)
                    await self._steps(context, records)
            finally:
                left = await self._clean(context)
        return Outcome(story, run, tuple(records), watcher.timeline, left)

    async def _prepare(self, context: StoryContext) -> None:
        """Create the namespace, the nodes and the workloads. Only the nodes are waited for."""
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
            raise StoryError(f"the story's nodes are not ready {error}{_suffix(context.watcher.problem)}") from error
        for manifest in run.story.workloads:
            await context.apply(manifest)

    async def _service_account(self, namespace: str) -> None:
        """Create the default service account: a controller may create it late, and the first pods would be refused."""
        try:
            await self.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=namespace)
        except AlreadyExists:
            log.debug("%s already has its service account", namespace)

    async def _steps(self, context: StoryContext, records: list[StepRecord]) -> None:
        steps = list(unroll(context.run.story.steps))
        for number, step in enumerate(steps, 1):
            self.report(StepStarted(number, len(steps), str(step)))
            context.watcher.timeline.marks.append(StepMark(context.watcher.elapsed, number, str(step)))
            record = await _run_step(context, number, step)
            records.append(record)
            self.report(StepEnded(record))
            if not record.distributions:
                return

    async def _clean(self, context: StoryContext) -> tuple[str, ...]:
        """Remove all created objects; returns those that could not be removed."""
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
            log.debug("%s is already deleted", name)

    async def _remove_namespace(self, name: str) -> None:
        """Delete a namespace. Its pods are deleted without grace period: some may be on failed nodes."""
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
    """The steps in order of execution: those of a repetition several times, with a number in their titles."""
    for step in steps:
        if isinstance(step.action, Repeat):
            for time in range(1, step.action.times + 1):
                yield from unroll(step.action.steps, f"{note}, {time} of {step.action.times}")
        elif note:
            yield replace(step, title=f"{step}{note}")
        else:
            yield step


async def _run_step(context: StoryContext, number: int, step: Step) -> StepRecord:
    """Carry out a step, wait, and check the expectations."""
    started = context.watcher.elapsed
    wait = step.wait or Wait()
    context.timeout = wait.within
    try:
        if step.action is not None:
            await context.carry_out(step.action)
        observation = await context.watcher.until(
            lambda seen: observations.is_satisfied(wait, seen, deleted=context.deleted), wait.within
        )
    except TimeoutError as error:
        return _timed_out(context, number, step, started, f"{error}: {_missing(context, wait)}")
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
    took = context.watcher.elapsed - started
    return StepRecord(number, str(step), started, took, distributions, tuple(failures), step.compare)


def _distributions(context: StoryContext, observation: Observation) -> dict[str, PodDistribution]:
    """The distribution of all pods, and, if there are several workloads, of each."""
    topology = context.run.story.topology
    names = list(observation.workloads) if len(observation.workloads) > 1 else []
    return {name: observation.distribution(topology, name) for name in (ALL, *names)}


def _timed_out(context: StoryContext, number: int, step: Step, started: float, failure: str) -> StepRecord:
    return StepRecord(number, str(step), started, context.watcher.elapsed - started, {}, (failure,), step.compare)


def _missing(context: StoryContext, wait: Wait) -> str:
    """What was waited for, and what was observed."""
    seen = context.watcher.cached()
    counts = ", ".join(f"{name} {number}" for name, number in seen.counts(wait.of).items())
    problems = [] if wait.counts else observations.unsettled(seen, wait.of, deleted=context.deleted)
    reasons = "; ".join([*problems, *_examples(seen)])
    return f"waited for {wait}; seen {counts}{_suffix(reasons)}{_suffix(context.watcher.problem)}"


def _examples(seen: Observation) -> list[str]:
    """The scheduler's messages for unschedulable pods, each once."""
    conditions = (pod.status.condition("PodScheduled") for pod in seen.pods if observations.is_unschedulable(pod))
    return list(dict.fromkeys(each.message for each in conditions if each is not None))[:_EXAMPLES]


def _suffix(text: str) -> str:
    return f"; {text}" if text else ""
