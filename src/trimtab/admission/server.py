"""The server that API servers send reviews to. It admits by default.

    POST /{hook}  →  is it a review?  →  the hook decides, within its budget  →  the answer, with the review's UID

**Never in anybody's way.** A hook that fails, or is not done when its budget is spent, is cancelled, and the request is
admitted untouched; a metric counts it and `let_go` is told. The same holds when too many reviews are under way. The API
server says in the query (`?timeout=3s`) how long it will wait: the budget is never longer than that and the way back.
Only what is no review at all is refused, with 400: no API server sends such a thing.

**Who may ask.** Anyone who reaches the port, unless `client_ca` names the authority that signed the API server's client
certificate. So a hook trusts nothing in a review that it acts upon; see `scale`.

**The end.** When `run` is cancelled the server takes no more reviews and answers those under way.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import web

from trimtab.admission.metrics import Metrics, Outcome
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, AdmissionReview, answer
from trimtab.api.errors import InvalidError
from trimtab.kube.clocks import SECOND, Clock, SystemClock, cancel, within

Decide = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]

MOST_UNDER_WAY = 512
"""How many reviews are looked at together; what comes beyond is admitted at once."""
LARGEST = 16 * 1024 * 1024
"""Two objects as large as an API server stores, and what surrounds them."""
_WAY_BACK = 0.25
"""Seconds that an answer may take to arrive."""
_GRACE = 5.0
"""Seconds that reviews under way are given when the server ends."""
_TIMEOUT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hook:
    """One kind of review: where it is sent, who decides, and how many seconds that may take.

    After the budget, or on any fault, the request is admitted untouched.
    """

    name: str
    path: str
    decide: Decide
    budget: float


LetGo = Callable[[Hook, AdmissionRequest, str], None]
"""Told of each request that was admitted without a decision, and why."""


class Certificates(Protocol):
    """What the server proves who it is with. The context may be given other certificates while it is in use."""

    @property
    def context(self) -> ssl.SSLContext:
        """For new connections."""
        ...

    @property
    def synced(self) -> bool:
        """Whether there is a certificate."""
        ...

    @property
    def problems(self) -> list[str]:
        """What is wrong with it, or will be."""
        ...

    async def ready(self) -> None:
        """Wait until there is a certificate."""
        ...

    async def run(self) -> None:
        """Keep it current until cancelled."""
        ...


def admitted(request: AdmissionRequest, *warnings: str) -> AdmissionResponse:
    """Yes, and what to tell the user."""
    return AdmissionResponse(uid=request.uid, allowed=True, warnings=warnings)


class Edge:
    """A TLS server with some hooks."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        *,
        certificates: Certificates,
        host: str,
        port: int,
        metrics: Metrics | None = None,
        let_go: LetGo | None = None,
        client_ca: Path | None = None,
        clock: Clock | None = None,
        most_under_way: int = MOST_UNDER_WAY,
    ) -> None:
        self.hooks = {hook.path: hook for hook in hooks}
        if len(self.hooks) != len(hooks):
            raise ValueError("two hooks have one path")
        self.port = port
        """Where it listens; known once it does, if any free port was asked for with 0."""
        self.metrics = metrics or Metrics()
        self._host = host
        self._certificates = certificates
        self._let_go = let_go
        self._client_ca = client_ca
        self._clock = clock or SystemClock()
        self._most = most_under_way
        self._under_way = 0
        self._listening = False
        self.metrics.watch_under_way(lambda: self._under_way)

    @property
    def synced(self) -> bool:
        """Whether it listens."""
        return self._listening

    @property
    def problems(self) -> list[str]:
        """What is wrong with its certificate."""
        return self._certificates.problems

    async def run(self) -> None:
        """Answer reviews until cancelled."""
        keeping = asyncio.ensure_future(self._certificates.run())
        serving = asyncio.ensure_future(self._serve())
        try:
            done, _ = await asyncio.wait((keeping, serving), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel(serving)
            await cancel(keeping)

    async def _serve(self) -> None:
        await self._certificates.ready()
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=_GRACE)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self._context()).start()
            self.port = runner.addresses[0][1]
            self._listening = True
            log.info("reviews on https://%s:%d", self._host, self.port)
            await asyncio.get_running_loop().create_future()
        finally:
            self._listening = False
            await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=LARGEST)
        for path in self.hooks:
            application.router.add_post(path, self._review)
        return application

    def _context(self) -> ssl.SSLContext:
        context = self._certificates.context
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def _review(self, http: web.Request) -> web.Response:
        hook = self.hooks[http.path]
        try:
            request = _read(await http.read())
        except InvalidError as error:
            self.metrics.answered(hook.name, Outcome.MALFORMED, 0.0)
            return web.Response(status=400, text=f"not an AdmissionReview: {error}\n")
        response = await self.decide(hook, request, patience=_patience(http.query.get("timeout", "")))
        return web.Response(body=codec.encode(answer(response)), content_type="application/json")

    async def decide(
        self, hook: Hook, request: AdmissionRequest, *, patience: float | None = None
    ) -> AdmissionResponse:
        """The hook's answer, or, if there is none in time, that the request is admitted."""
        if self._under_way >= self._most:
            return self._admit(hook, request, "too many reviews are under way", Outcome.BUSY, 0.0)
        budget = hook.budget if patience is None else min(hook.budget, max(patience - _WAY_BACK, 0.0))
        started = self._clock.monotonic()
        self._under_way += 1
        try:
            response = await within(self._clock, budget, _awaited(hook.decide(request)))
        except TimeoutError:
            reason = f"no decision within {budget:g} s"
            return self._admit(hook, request, reason, Outcome.LATE, self._since(started))
        except Exception as error:
            log.exception("%s failed for %s/%s", hook.name, request.namespace, request.name)
            return self._admit(hook, request, f"{type(error).__name__}: {error}", Outcome.FAILED, self._since(started))
        finally:
            self._under_way -= 1
        self.metrics.answered(hook.name, Outcome.of(allowed=response.allowed), self._since(started))
        return response

    def _admit(
        self, hook: Hook, request: AdmissionRequest, reason: str, outcome: Outcome, seconds: float
    ) -> AdmissionResponse:
        self.metrics.answered(hook.name, outcome, seconds)
        if self._let_go is not None:
            self._let_go(hook, request, reason)
        return admitted(request)

    def _since(self, started: int) -> float:
        return (self._clock.monotonic() - started) / SECOND


async def _awaited(decision: Awaitable[AdmissionResponse]) -> AdmissionResponse:
    return await decision


def _read(body: bytes) -> AdmissionRequest:
    review = codec.decode(body, AdmissionReview)
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise InvalidError("apiVersion", f'"{review.api_version}" is not admission.k8s.io/v1')
    if review.request is None:
        raise InvalidError("request", "is missing")
    return review.request


def _patience(text: str) -> float | None:
    """How long the API server will wait, as it writes durations (`10s`, `1m0s`); None where it does not say."""
    parts = _TIMEOUT.findall(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else None
