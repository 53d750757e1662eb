"""Carries out each verb over HTTP. `ACTIONS` has one function for each type of `steps`.

An action ends when its request has been accepted, or, for nodes, when the nodes have the requested state. The step then
waits for the consequences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trimtab.api.documents import JSON, Document
from trimtab.api.selectors import Selector
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import AlreadyExists
from trimtab.kube.resources import Resource
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios import ages
from trimtab_lab.scenarios.kinds import KindLookup
from trimtab_lab.scenarios.observations import Observation
from trimtab_lab.scenarios.runs import Run
from trimtab_lab.scenarios.steps import (
    DEFAULT_TIMEOUT,
    Add,
    Age,
    Apply,
    Delete,
    NodeOperation,
    OperateNodes,
    Patch,
    Scale,
)
from trimtab_lab.scenarios.watcher import Watcher


class NodeActions(Protocol):
    """The operations on nodes that a story needs. Names are those of Node objects."""

    async def reshape(self, shape: Shape) -> None:
        """Have these nodes, and no others of this shape's name."""
        ...

    async def fail(self, names: Sequence[str]) -> None:
        """Make nodes fail."""
        ...

    async def recover(self, names: Sequence[str]) -> None:
        """Let nodes recover."""
        ...

    async def cordon(self, names: Sequence[str]) -> None:
        """Mark nodes as unschedulable."""
        ...

    async def uncordon(self, names: Sequence[str]) -> None:
        """Mark nodes as schedulable."""
        ...

    async def drain(self, names: Sequence[str]) -> None:
        """Cordon nodes and evict their pods."""
        ...


class StoryError(Exception):
    """A step that cannot be carried out: which, and why."""


@dataclass(slots=True)
class StoryContext:
    """Where a story runs: the cluster, and what has been created on it so far."""

    client: Client
    run: Run
    nodes: NodeActions
    watcher: Watcher
    kinds: KindLookup
    shape: Shape
    timeout: float = DEFAULT_TIMEOUT
    """The timeout for nodes, from the current step."""
    deleted: list[Selector] = field(default_factory=list)
    cluster_scoped: list[tuple[Resource[JSON], str]] = field(default_factory=list)
    """Objects that were created outside the namespace, and are not deleted with it."""

    async def carry_out(self, action: Any) -> None:
        """Carry out the action of a step."""
        await ACTIONS[type(action)](self, action)

    async def reshape(self, shape: Shape) -> None:
        """Have these nodes, and wait until all are ready."""
        self.shape = shape
        await self.nodes.reshape(shape)
        await self.until_ready(list(shape.nodes))

    async def until_ready(self, names: Sequence[str]) -> None:
        """Wait until these nodes are ready."""

        def ready(observation: Observation) -> bool:
            found = [observation.nodes.get(name) for name in names]
            return all(place is not None and place.ready for place in found)

        await self.watcher.until(ready, self.timeout)

    async def until_not_ready(self, names: Sequence[str]) -> None:
        """Wait until these nodes are not ready."""
        await self.watcher.until(lambda seen: not any(seen.nodes[name].ready for name in names), self.timeout)

    async def apply(self, document: Document) -> None:
        """Create an object, or patch it to the manifest."""
        tree = self.run.manifest(document)
        resource = await self.kinds.by_version(tree["apiVersion"], tree["kind"])
        namespace = self.run.name if resource.namespaced else ""
        name = tree["metadata"]["name"]
        try:
            await self.client.create(resource, tree, namespace=namespace)
        except AlreadyExists:
            if not namespace and (resource, name) not in self.cluster_scoped:
                raise  # another owner's object: a story changes only what it created
            await self.client.patch(resource, name, tree, namespace=namespace)
        else:
            if not namespace:
                self.cluster_scoped.append((resource, name))


async def _apply(context: StoryContext, action: Apply) -> None:
    for manifest in action.manifests:
        await context.apply(manifest)


async def _scale(context: StoryContext, action: Scale) -> None:
    resource = await context.kinds.by_name(action.target.kind)
    await context.client.resize(resource, action.target.name, action.replicas, namespace=context.run.name)


async def _patch(context: StoryContext, action: Patch) -> None:
    resource = await context.kinds.by_name(action.target.kind)
    namespace = context.run.name if resource.namespaced else ""
    await context.client.patch(resource, action.target.name, action.patch, how=action.how, namespace=namespace)


async def _delete(context: StoryContext, action: Delete) -> None:
    """Delete an object and its dependents; the pods of a workload are waited for by its selector."""
    resource = await context.kinds.by_name(action.target.kind)
    workload = context.watcher.cached().workloads.get(action.target.name)
    namespace = context.run.name if resource.namespaced else ""
    await context.client.delete(resource, action.target.name, namespace=namespace, propagation="Background")
    if workload is not None:
        context.deleted.append(workload.selector)


async def _add(context: StoryContext, action: Add) -> None:
    added = context.run.shape(action.shape)
    await context.reshape(replace(context.shape, nodes={**context.shape.nodes, **added.nodes}))


async def _operate(context: StoryContext, action: OperateNodes) -> None:
    names = context.run.chosen(action.selection, context.shape)
    if not names:
        known = ", ".join(name.removeprefix(context.run.prefix) for name in context.shape.nodes)
        raise StoryError(f"no node of the story matches {action.selection}; there are {known}")
    await _OPERATIONS[action.operation](context, names)


async def _fail(context: StoryContext, names: Sequence[str]) -> None:
    await context.nodes.fail(names)
    await context.until_not_ready(names)


async def _recover(context: StoryContext, names: Sequence[str]) -> None:
    await context.nodes.recover(names)
    await context.until_ready(names)


_OPERATIONS: Mapping[NodeOperation, Callable[[StoryContext, Sequence[str]], Awaitable[None]]] = {
    NodeOperation.FAIL: _fail,
    NodeOperation.RECOVER: _recover,
    NodeOperation.CORDON: lambda context, names: context.nodes.cordon(names),
    NodeOperation.UNCORDON: lambda context, names: context.nodes.uncordon(names),
    NodeOperation.DRAIN: lambda context, names: context.nodes.drain(names),
}


async def _age(context: StoryContext, action: Age) -> None:
    """Wait for time to pass. Pods may be created meanwhile, so check again afterwards."""
    clock = context.client.clock
    while True:
        seen = await context.watcher.read()
        times = ages.comparable_times(pod for pod in seen.pods if pod.active)
        now = clock.now()
        due = ages.next_common_scale(times, now) if action.at_least is None else ages.old_enough(times, action.at_least)
        if due <= now:
            return
        await clock.sleep((due - now) / SECOND)


ACTIONS: Mapping[type[Any], Callable[[StoryContext, Any], Awaitable[None]]] = {
    Apply: _apply,
    Scale: _scale,
    Patch: _patch,
    Delete: _delete,
    Add: _add,
    OperateNodes: _operate,
    Age: _age,
}
"""All verbs except `repeat`, which the runner unrolls."""
