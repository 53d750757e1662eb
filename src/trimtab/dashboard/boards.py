"""Boards: the state of each view, shared by its viewers and kept current while it has any.

A view is what one caller looks at: its rights, the workload that it has chosen, and the key that nodes are grouped by.
Without viewers nothing is computed. After a change every board is built again, at most some times a second, and less
often where that takes long: boards never keep the process busy for more than a part of the time. Rows that stay the
same are shared with the state before (see `differences`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.dashboard.decisions import DecisionRow
from trimtab.dashboard.differences import State, settled
from trimtab.dashboard.overview_cache import OverviewCache, find_workload, owner_key
from trimtab.dashboard.rights import EVERYTHING, Rights
from trimtab.dashboard.rows import (
    LISTED,
    StatusRow,
    WorkloadRow,
    node_rows,
    pod_rows,
    topology_keys,
    workload_key,
    zones,
)
from trimtab.dashboard.sources import ClusterSource
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.overviews import TopologyOverview, pods_under, topology_members, topology_overview
from trimtab.kube.clocks import SECOND
from trimtab.subsets.members import Member

TICK = 0.25
"""Seconds between two states of a board."""
REST = 3.0
"""How many times as long as building the boards took nothing is built."""
_IDLE = 10.0
"""Seconds after which boards are built again without a change: ages decide, too."""


@dataclass(frozen=True, slots=True)
class View:
    """What a caller looks at."""

    rights: Rights = EVERYTHING
    workload: str = ""
    """`namespace/Kind/name`; empty where none is chosen."""
    topology_key: str = ZONE


@dataclass(slots=True)
class Board:
    """The state of one view."""

    view: View
    state: State = field(default_factory=dict)
    viewers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    building: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while its first state is built: viewers who come meanwhile wait for the same one."""

    def replace(self, state: State) -> None:
        """Take over a new state, and wake whoever waits for one."""
        after = settled(self.state, state)
        if all(rows is self.state.get(name) for name, rows in after.items()):
            return
        self.state = after
        woken, self.changed = self.changed, asyncio.Event()
        woken.set()


class Boards:
    """All boards of a server."""

    def __init__(self, source: ClusterSource, *, is_lab: bool = False) -> None:
        self._source = source
        self._is_lab = is_lab
        self._boards: dict[View, Board] = {}
        self._refreshes = 0
        """How many times all boards with a state were built again."""

    @property
    def viewers(self) -> int:
        """How many viewers there are."""
        return sum(board.viewers for board in self._boards.values())

    @asynccontextmanager
    async def joined(self, view: View) -> AsyncIterator[Board]:
        """The board of a view, while someone looks at it."""
        board = self._boards.setdefault(view, Board(view))
        board.viewers += 1
        try:
            async with board.building:
                await self._build_first(board)
            yield board
        finally:
            board.viewers -= 1
            if not board.viewers:
                del self._boards[view]

    async def state(self, view: View) -> State:
        """The state of a view at this moment, without looking at it any longer."""
        board = Board(view)
        await self._build(board, limited=False)
        return board.state

    async def _build_first(self, board: Board) -> None:
        """Build a board that has no state yet; again soon if others were built for a change that came meanwhile."""
        if board.state:
            return
        refreshes = self._refreshes
        if await self._build(board) or self._refreshes != refreshes:
            self._source.changed.set()

    async def run(self) -> None:
        """Keep the boards current until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_IDLE):
                    await self._source.changed.wait()
            self._source.changed.clear()
            busy = await self._refresh()
            await self._source.clock.sleep(max(TICK, REST * busy))

    async def _refresh(self) -> float:
        """Build every board again, other work in between; the seconds that building took."""
        busy = 0
        self._refreshes += 1
        for board in list(self._boards.values()):
            if not board.state:
                continue  # its first viewer builds it
            started = self._source.clock.monotonic()
            if await self._build(board):
                self._source.changed.set()
            busy += self._source.clock.monotonic() - started
        return busy / SECOND

    async def _build(self, board: Board, *, limited: bool = True) -> bool:
        """Build a board from what is now; whether some overviews are still to be computed.

        Other work goes on between its steps, in which the cluster may change: what is computed in them is cached, and
        the state is put together at the end in one go.
        """
        part, key = await self._source.parts.of(board.view.rights), board.view.workload
        cache = part.overviews
        for _ in cache.update(part.now, *part.stale.take(), limited=limited):
            await asyncio.sleep(0)
        for _ in cache.rank(part.now, key, _listed_workloads(part.now())):
            await asyncio.sleep(0)
        topologies: dict[str, TopologyOverview] = {}
        for each in part.now().all(UnitedTopology):
            members: list[Member] = []
            for some in topology_members(part.now, each):
                members += some
                await asyncio.sleep(0)
            topologies[f"{each.metadata.namespace}/{each.metadata.name}"] = topology_overview(part.now(), each, members)
            await asyncio.sleep(0)
        board.replace({**self._state(part.now(), board.view, cache), "topologies": topologies})
        return cache.is_behind

    def _state(self, cluster: Cluster, view: View, cache: OverviewCache) -> State:
        chosen = find_workload(cluster, view.workload)
        chosen_pods = [] if chosen is None else pods_under(cluster, chosen)
        is_aggregated = _is_aggregated(cluster)
        listed = _with_owners(cluster, chosen_pods[:LISTED] if is_aggregated else cluster.all(Pod))
        status = StatusRow(
            origin=cluster.origin,
            live=self._source.is_live,
            nodes=len(cluster.all(Node)),
            pods=_count_pods(cluster),
            workloads=len(cache.overviews),
            aggregated=is_aggregated,
            topology_key=view.topology_key,
            topology_keys=topology_keys(cluster, cache.overviews),
            gaps=tuple(gap.sentence() for gap in cluster.gaps),
            problems=tuple(self._source.problems) if view.rights.everything else (),
            lab=self._is_lab,
            zones=zones(cluster) if self._is_lab else (),
        )
        return {
            "status": {"cluster": status},
            "nodes": node_rows(cluster, view.topology_key, chosen_pods),
            "pods": pod_rows(listed, cache.places),
            "workloads": _workloads(cache, self._source.decisions.last_scale_downs(cluster, view.rights)),
            "decisions": self._source.decisions.rows(cluster, view.rights),
        }


def _workloads(cache: OverviewCache, last: Mapping[tuple[str, str], DecisionRow]) -> dict[str, WorkloadRow]:
    found: dict[str, WorkloadRow] = {}
    for key in sorted(cache.overviews):
        namespace, _, workload = key.partition("/")
        ended = last.get((namespace, workload))
        found[key] = WorkloadRow(overview=cache.overviews[key], last_scale_down="" if ended is None else ended.sentence)
    return found


def _count_pods(cluster: Cluster) -> int:
    """The number of pods, without a look at each of them."""
    return len(cluster.snapshot.pods.rows.index)


def _is_aggregated(cluster: Cluster) -> bool:
    return _count_pods(cluster) > LISTED


def _listed_workloads(cluster: Cluster) -> list[str]:
    """The workloads whose pods are listed; of a large cluster only the chosen one is, which is not among these."""
    return [] if _is_aggregated(cluster) else [workload_key(each) for each in cluster.workloads()]


def _with_owners(cluster: Cluster, pods: Sequence[Pod]) -> Iterator[tuple[Pod, str]]:
    for pod in pods:
        yield pod, owner_key(cluster, pod)
