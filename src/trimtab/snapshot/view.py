"""The snapshot: the view of the cluster that events keep current and decisions scan.

snapshot = Snapshot()
snapshot.put(node)                      # any watched object, added or updated
snapshot.put(pod)
snapshot.drop(Pod, "default", "web-1")
with snapshot.with_assumed(placed=[(pod, "node-a")], gone=["default/web-2"]):
    ...                                 # the view with these assumptions
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec

from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.pooling import PodPool
from trimtab.api.selectors import MAX_ENTRIES, Selector
from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.counts import TallyBook, TallyKey
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.pods import NOWHERE, PodTable, Position, cells_of, columns_of, state_cells_of
from trimtab.snapshot.requests import Requests, RequestsBook
from trimtab.snapshot.shapes import HostPort, Shape, ShapeBook
from trimtab.snapshot.terms import TermBook
from trimtab.snapshot.usages import Usage, UsageBook

Group = Service | ReplicationController | ReplicaSet | StatefulSet | CloneSet
"""Services and workloads, from whose selectors default constraints take theirs."""
Watched = Pod | Node | Namespace | Group
MIRRORED: tuple[type[Any], ...] = (Pod, Node, Namespace, Service, ReplicationController, ReplicaSet, StatefulSet)
"""The kinds that decisions about existing pods scan. Placement also takes selectors from CloneSets."""
OnIgnored = Callable[[Pod | Service, str], None]
G = TypeVar("G", Service, ReplicationController, ReplicaSet, StatefulSet, CloneSet)


class Snapshot:
    """Pods, nodes, namespaces, services and workloads as last observed, and assumed pods."""

    def __init__(self, pool: PodPool | None = None) -> None:
        """`pool` is that of the process, if its pods are in several snapshots."""
        self.pool = PodPool() if pool is None else pool
        """Keeps one copy of the parts that pods have in common."""
        self.nodes = NodeTable()
        self.pods = PodTable()
        self.namespaces: dict[str, Namespace] = {}
        self.tallies = TallyBook(self.pods, self.nodes)
        self.terms = TermBook(self.nodes)
        self.ports: dict[tuple[str, int], dict[int, Counter[HostPort]]] = {}
        self._groups: dict[type, dict[str, dict[str, Group]]] = {}
        self._requests = RequestsBook()
        self._shapes = ShapeBook()
        self._usages = UsageBook(self._requests.of, self._shapes.of)
        self._counted: list[Usage | None] = []
        """The usage with which the pod of each row is counted, beside its columns; None if it is not."""
        self._on_ignored: OnIgnored | None = None

    def report_ignored_to(self, on_ignored: OnIgnored | None) -> None:
        """Call a function with the reason for Services whose selector is ignored, and for the first pod of each
        template (in each namespace) whose affinity terms or host ports are (see `Shape.problem`)."""
        self._on_ignored = on_ignored
        self._shapes.on_problem = None if on_ignored is None else partial(_report_pod, on_ignored)

    def copy(self) -> Snapshot:
        """The same cluster, for a decision that takes long and is made in another thread while events go on.

        Objects are shared: they are immutable. Tallies are counted again when they are requested.
        """
        made = Snapshot()
        made.nodes, made.pods = self.nodes.copy(), self.pods.copy()
        made.tallies, made.terms = TallyBook(made.pods, made.nodes), self.terms.copy(made.nodes)
        made.namespaces = dict(self.namespaces)
        made.ports = {
            port: {node: Counter(taken) for node, taken in by_node.items()} for port, by_node in self.ports.items()
        }
        made._groups = {
            kind: {namespace: dict(found) for namespace, found in of_kind.items()}
            for kind, of_kind in self._groups.items()
        }
        made._counted = list(self._counted)
        return made

    def put(self, watched: Watched) -> None:
        """Add or update an object."""
        match watched:
            case Pod():
                self._put_pod(watched, assumed=False)
            case Node():
                self.nodes.put(watched)
            case Namespace():
                self.namespaces[watched.metadata.name] = watched
            case _:
                self._put_group(watched)

    def put_all(self, watched: Sequence[Watched]) -> None:
        """Add several objects of a list: as `put` for each, with one write to each column of pods.

        If a pod is invalid, no pod is added. The informer has adopted the pods (see `pool`).
        """
        pods = [each for each in watched if isinstance(each, Pod)]
        keys = {pod.key: None for pod in pods}
        are_new = len(keys) == len(watched) and self.pods.rows.index.keys().isdisjoint(keys)
        if pods and are_new:
            self._add_pods(list(keys), pods)
            return
        for each in watched:
            self.put(each)

    def drop(self, kind: type[Watched], namespace: str, name: str) -> None:
        """Delete an object. Deleting an unknown one changes nothing: events may come twice."""
        if kind is Pod:
            self._drop_pod(f"{namespace}/{name}")
        elif kind is Node:
            self.nodes.drop(name)
        elif kind is Namespace:
            self.namespaces.pop(name, None)
        else:
            self._groups.get(kind, {}).get(namespace, {}).pop(name, None)

    def groups(self, kind: type[G], namespace: str) -> Iterable[G]:
        """The services or workloads of one kind in a namespace."""
        found = self._groups.get(kind, {}).get(namespace, {})
        return [group for group in found.values() if isinstance(group, kind)]

    def group(self, kind: type[G], namespace: str, name: str) -> G | None:
        """A service or workload by name."""
        found = self._groups.get(kind, {}).get(namespace, {}).get(name)
        return found if isinstance(found, kind) else None

    def pod(self, key: str) -> Pod | None:
        """A pod by `namespace/name`."""
        row = self.pods.rows.index.get(key)
        return None if row is None else self.pods.objects[row]

    def node(self, name: str) -> Node | None:
        """A node by name."""
        row = self.nodes.rows.index.get(name)
        return None if row is None else self.nodes.objects[row]

    def matching(self, namespace: str, selector: Selector) -> IntColumn:
        """The number of matching pods of a namespace on each node, without terminating ones."""
        return self.tallies.per_node(TallyKey(frozenset((namespace,)), selector, terminating=False))

    def requests(self, pod: Pod) -> Requests:
        """The requests of a pod, computed once for all pods of its template."""
        return self._requests.of(pod)

    def shape(self, pod: Pod) -> Shape:
        """The shape of a pod, computed once for all pods of its template."""
        return self._shapes.of(pod)

    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod on a node before it is observed there. The next event of the pod replaces the assumption."""
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        self._put_pod(msgspec.structs.replace(pod, spec=spec), assumed=True)

    @contextmanager
    def with_assumed(self, *, placed: Iterable[tuple[Pod, str]] = (), gone: Iterable[str] = ()) -> Iterator[Snapshot]:
        """Assume pods on nodes and others deleted, within a `with` block."""
        before: dict[str, tuple[Pod | None, bool]] = {}
        try:
            for key in gone:
                self._remember(key, before)
                self._drop_pod(key)
            for pod, node in placed:
                self._remember(pod.key, before)
                self.assume(pod, node)
            yield self
        finally:
            for key, (was, assumed) in reversed(before.items()):
                if was is None:
                    self._drop_pod(key)
                else:
                    self._put_pod(was, assumed=assumed)

    def _remember(self, key: str, before: dict[str, tuple[Pod | None, bool]]) -> None:
        row = self.pods.rows.index.get(key)
        known = (None, False) if row is None else (self.pods.objects[row], self.pods.is_assumed(row))
        before.setdefault(key, known)

    def _put_group(self, group: Group) -> None:
        metadata = group.metadata
        named = self._groups.setdefault(type(group), {}).setdefault(metadata.namespace, {})
        former, named[metadata.name] = named.get(metadata.name), group
        if isinstance(group, Service) and (size := len(group.spec.selector)) > MAX_ENTRIES:
            is_known = isinstance(former, Service) and former.spec.selector == group.spec.selector
            if self._on_ignored is not None and not is_known:
                reason = f"spec.selector: has {size:,} labels, and {MAX_ENTRIES:,} is the most"
                self._on_ignored(group, reason)

    def _put_pod(self, pod: Pod, *, assumed: bool) -> None:
        pods = self.pods
        self.pool.adopt(pod)
        key = pod.key
        row = pods.rows.index.get(key)
        former = None if row is None else pods.objects[row]
        if row is not None and former is not None and not assumed and self._stays(row, former, pod):
            self._update_pod(row, former, pod)
            return
        usage, cells = self._usages.of(pod), cells_of(pod)  # first: invalid quantities and times must change nothing
        if row is None:
            (row,), before = self._take_all((key,)), None
        else:
            before = pods.position(row)
        after = self._refer(pod)
        self._update_counts(row, usage, before, after)
        pods.write(row, pod, cells, node=after.node, labels=after.labels, assumed=assumed)
        if before is not None:
            self._release_references(before)

    def _stays(self, row: int, former: Pod, pod: Pod) -> bool:
        """Whether a pod is observed on the same node as before, with the same labels and owner, and not terminating."""
        before, after = former.metadata, pod.metadata
        return (
            pod.spec is former.spec
            and before.labels is after.labels
            and before.owner_references is after.owner_references
            and before.deletion_timestamp is None
            and after.deletion_timestamp is None
            and (before.uid, before.creation_timestamp) == (after.uid, after.creation_timestamp)
            and not self.pods.is_assumed(row)
        )

    def _update_pod(self, row: int, former: Pod, pod: Pod) -> None:
        """Update a pod that stays where it is counted: most events are of this kind."""
        if pod.status is former.status and pod.metadata.annotations is former.metadata.annotations:
            self.pods.objects[row] = pod
            return
        usage, cells = self._usages.of(pod), state_cells_of(pod)
        if usage is not self._counted[row]:
            position = self.pods.position(row)
            self._update_counts(row, usage, position, position)
        self.pods.rewrite(row, pod, cells)

    def _add_pods(self, keys: Sequence[str], pods: Sequence[Pod]) -> None:
        usages, cells = [self._usages.of(pod) for pod in pods], columns_of(pods)  # first, as above
        rows, nodes = self._take_all(keys), self._refer_nodes(pods)
        labels = [self.pods.labels.take(pod.metadata.namespace, pod.metadata.labels) for pod in pods]
        self.pods.write_all(rows, pods, cells, nodes, labels)
        charges = []
        is_tallied = len(self.tallies) > 0
        for row, usage, node, number, pod in zip(rows, usages, nodes, labels, pods, strict=True):
            self._counted[row] = usage
            if usage is not None:
                charges.append((node, usage.requests))
                if is_tallied or usage.shape.terms or usage.shape.ports:
                    self._apply_labels_and_shape(usage, Position(node, number, pod.terminating), 1)
        self.nodes.charge_all(charges)

    def _refer(self, pod: Pod) -> Position:
        """The position of a pod, with one more reference to its node and its labels."""
        node = self.nodes.refer(pod.spec.node_name) if pod.spec.node_name else NOWHERE
        return Position(node, self.pods.labels.take(pod.metadata.namespace, pod.metadata.labels), pod.terminating)

    def _refer_nodes(self, pods: Sequence[Pod]) -> list[int]:
        """The nodes of several pods, with one more reference for each pod."""
        named = iter(self.nodes.refer_all([pod.spec.node_name for pod in pods if pod.spec.node_name]))
        return [next(named) if pod.spec.node_name else NOWHERE for pod in pods]

    def _take_all(self, keys: Sequence[str]) -> list[int]:
        rows = self.pods.take_all(keys)
        self._counted += [None] * (len(self.pods) - len(self._counted))
        return rows

    def _drop_pod(self, key: str) -> None:
        row = self.pods.rows.index.get(key)
        if row is None:
            return
        position = self.pods.position(row)
        self._update_counts(row, None, position, position)
        self.pods.release(key)
        self._release_references(position)

    def _release_references(self, position: Position) -> None:
        if position.node != NOWHERE:
            self.nodes.unrefer(position.node)
        if self.pods.labels.release(position.labels):
            self.tallies.forget_labels(position.labels)

    def _update_counts(self, row: int, usage: Usage | None, before: Position | None, after: Position) -> None:
        """Update the counts for a pod; most events change none of them. Its columns have what is counted so far."""
        counted, self._counted[row] = self._counted[row], usage
        if before == after and (counted is usage or _counts_alike(counted, usage)):
            return
        if counted is not None and before is not None:
            self._apply(counted, before, -1)
        if usage is not None:
            self._apply(usage, after, 1)

    def _apply(self, usage: Usage, position: Position, sign: int) -> None:
        self.nodes.charge(position.node, usage.requests, sign)
        self._apply_labels_and_shape(usage, position, sign)

    def _apply_labels_and_shape(self, usage: Usage, position: Position, sign: int) -> None:
        node = position.node
        self.tallies.adjust(position.labels, node, terminating=position.terminating, sign=sign)
        for held in usage.shape.terms:
            self.terms.adjust(held, node, sign)
        for port in usage.shape.ports:
            self._count_port(port, node, sign)

    def _count_port(self, port: HostPort, node: int, sign: int) -> None:
        by_node = self.ports.setdefault((port.protocol, port.port), {})
        taken = by_node.setdefault(node, Counter())
        taken[port] += sign
        if not taken[port]:
            del taken[port]
        if not taken:
            del by_node[node]
        if not by_node:
            del self.ports[(port.protocol, port.port)]


def _counts_alike(one: Usage | None, other: Usage | None) -> bool:
    return one is not None and other is not None and one.requests is other.requests and one.shape is other.shape


def _report_pod(on_ignored: OnIgnored, pod: Pod, problem: str) -> None:
    on_ignored(pod, f"{problem}; other pods are treated as if it did not have them")
