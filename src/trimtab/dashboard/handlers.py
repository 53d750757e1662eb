"""The paths of the dashboard: the pages, the state as server-sent events, and explanations as JSON.

GET /                                  the page; its parts are under /assets/
GET /api/events?workload=&key=         the state, then its differences, as server-sent events
GET /api/state?workload=&key=          the state once
GET /api/plan?workload=&replicas=      what `trimtab plan -o json` prints
GET /api/rank?workload=                what `trimtab rank -o json` prints
GET /api/explain?pod=                  what `trimtab explain -o json` prints, and sentences of it
POST /api/lab/{action}                 in the lab only

Workloads are `namespace/Kind/name`, pods `namespace/name`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from typing import Any

from aiohttp import web

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.dashboard.access import MOST_VIEWERS, Access, UnauthenticatedError
from trimtab.dashboard.boards import Board, Boards, View
from trimtab.dashboard.differences import State, difference
from trimtab.dashboard.guards import RIGHTS, bearer, failure
from trimtab.dashboard.metrics import Metrics, Refusal
from trimtab.dashboard.overview_cache import find_workload
from trimtab.dashboard.sources import ClusterSource
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.explanations import explain_pod
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.ranks import rank_workload
from trimtab.inspection.settings import Settings
from trimtab.kube.errors import KubeError

KEEP_ALIVE = 15.0
"""Seconds without a difference after which a viewer is sent an empty comment, and its rights are checked again."""
SLOWEST = 60.0
"""Seconds in which a viewer must have read what is sent."""
_LONGEST = 512
"""Characters of a query parameter."""
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Handlers:
    """The handlers of all paths."""

    def __init__(
        self, source: ClusterSource, boards: Boards, settings: Settings, access: Access, metrics: Metrics
    ) -> None:
        self._source = source
        self._boards = boards
        self._settings = settings
        self._access = access
        self._metrics = metrics
        self._assets = read_assets()
        self._open: Counter[str] = Counter()
        """How many streams each token has open."""

    async def page(self, _: web.Request) -> web.Response:
        """The page."""
        return self._asset("index.html")

    async def asset(self, request: web.Request) -> web.Response:
        """A part of the page."""
        return self._asset(request.match_info["name"])

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The state of a view and its differences, until the viewer leaves, stops reading or loses its rights."""
        caller = bearer(request)
        refusal = self._refusal(caller)
        if refusal is not None:
            self._metrics.refuse(refusal)
            return failure(503, "too many pages are open already; close one, or try again later")
        self._open[caller] += 1
        try:
            return await self._send(request)
        finally:
            self._open[caller] -= 1
            self._open += Counter()  # callers without a page are forgotten

    def _refusal(self, caller: str) -> Refusal | None:
        """Why another page of a caller is refused; None where it is not."""
        if self._boards.viewers >= MOST_VIEWERS:
            return Refusal.SERVER_LIMIT
        return Refusal.CALLER_LIMIT if self._open[caller] >= self._access.most_streams else None

    async def _send(self, request: web.Request) -> web.StreamResponse:
        """Send the whole state, and differences as they come. Rights are checked before anything is sent."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        with suppress(ConnectionError):
            async with self._boards.joined(_view(request)) as board:
                await response.prepare(request)
                sent: State | None = None
                while await self._is_still_allowed(request):
                    current = board.state
                    if not await _is_taken(request, response, _message(sent, current)):
                        self._metrics.refuse(Refusal.NOT_READ)
                        break
                    sent = current
                    await _wait_changed(board, sent)
        return response

    async def state(self, request: web.Request) -> web.Response:
        """The state of a view, once."""
        while True:
            state = await self._boards.state(_view(request))
            if await self._has_same_rights(request):
                return _json(state)

    async def plan(self, request: web.Request) -> web.Response:
        """The plan for a workload and a size."""
        cluster = await self._cluster(request)
        workload = _workload(cluster, request)
        text = request.query.get("replicas", "")
        if not text.isdecimal() or len(text) > len(str(2**31)):
            raise InvalidError("replicas", f'"{text[:20]}" is not a size; write a number from 0 on')
        return _json(plan_workload(cluster, workload, int(text), self._settings))

    async def rank(self, request: web.Request) -> web.Response:
        """The pods of a workload in the order in which they are deleted."""
        cluster = await self._cluster(request)
        return _json(rank_workload(cluster, _workload(cluster, request), self._settings))

    async def explain(self, request: web.Request) -> web.Response:
        """A pod, explained."""
        cluster = await self._cluster(request)
        namespace, _, name = _parameter(request, "pod").partition("/")
        pod = cluster.find(Pod, namespace, name)
        if pod is None:
            raise web.HTTPNotFound(reason="there is no such pod")
        explained = explain_pod(cluster, pod, self._settings)
        answer = {"sentence": explained.sentence(), "placement": explained.placement_sentence()}
        return _json({**answer, "explanation": codec.to_tree(explained)})

    def _asset(self, name: str) -> web.Response:
        found = self._assets.get(name)
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found, content_type=_TYPES[name[name.rindex(".") :]], charset="utf-8")

    async def _cluster(self, request: web.Request) -> Cluster:
        """What the caller may see now: use it before the next `await`."""
        while True:
            part = await self._source.parts.of(request[RIGHTS])
            if await self._has_same_rights(request):
                return part.now()

    async def _has_same_rights(self, request: web.Request) -> bool:
        """Whether the caller's rights are still the same after something that took long; takes new ones over."""
        before, request[RIGHTS] = request[RIGHTS], await self._access.rights(bearer(request))
        return request[RIGHTS] == before

    async def _is_still_allowed(self, request: web.Request) -> bool:
        """Whether the caller's rights are what they were; if not, the stream ends and the page connects again."""
        try:
            return await self._access.rights(bearer(request)) == request[RIGHTS]
        except (UnauthenticatedError, KubeError):
            return False


async def _is_taken(request: web.Request, response: web.StreamResponse, message: bytes) -> bool:
    """Send something; false where the viewer does not read it. Such a connection is cut, with all that waits in it."""
    try:
        async with asyncio.timeout(SLOWEST):
            await response.write(message)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        return False
    return True


def _message(sent: State | None, current: State) -> bytes:
    """The whole state at first, then what has changed since; without a change, a comment."""
    if sent is None:
        return _event("state", current)
    found = difference(sent, current)
    return _event("change", found) if found else b": still here\n\n"


async def _wait_changed(board: Board, sent: State) -> None:
    """Wait for another state than the one that was sent, for a while."""
    if board.state is not sent:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(KEEP_ALIVE):
            await board.changed.wait()


def read_assets() -> Mapping[str, bytes]:
    """The files of the page, by name. Only these are served: a name is never a path."""
    folder = resources.files("trimtab.dashboard") / "assets"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))}


def _view(request: web.Request) -> View:
    return View(request[RIGHTS], _parameter(request, "workload"), _parameter(request, "key") or ZONE)


def _parameter(request: web.Request, name: str) -> str:
    text = request.query.get(name, "")
    if len(text) > _LONGEST:
        raise InvalidError(name, f"is longer than {_LONGEST} characters")
    return text


def _workload(cluster: Cluster, request: web.Request) -> Workload:
    found = find_workload(cluster, _parameter(request, "workload"))
    if found is None:
        raise web.HTTPNotFound(reason="there is no such workload; write namespace/Kind/name")
    return found


def _json(value: Any) -> web.Response:
    return web.Response(body=codec.encode(value), content_type="application/json")


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + codec.encode(value) + b"\n\n"
