"""The HTTPS server that API servers send admission reviews to. It admits by default.

    POST /{hook}  →  decode the review  →  the hook decides, within its budget  →  the answer, with the review's UID

**Requests are never blocked by a fault of ours.** When a hook fails, or is not done within its budget, it is cancelled
and the request is admitted unchanged; a metric counts it and `on_skip` is called. The same happens when too many
reviews are in flight or the event loop is late, and while the feature behind the hook is not ready: each feature is
ready by itself. The API server's own timeout (`?timeout=3s`) shortens the budget, less the time for the answer to
arrive; both count from the arrival of the request's first byte (see `deadlines`), and reading the review counts too
(see `reading`). Only a body that is no AdmissionReview is refused, with 400. `connections` has the limits on
connections, headers and bodies.

**Callers** are not authenticated, unless `client_ca` names the authority that signed the API server's client
certificate. So a hook does not trust what a review says; it reads the objects that it acts on.

**Readiness** includes a call to ourselves (`self_check`), which `POST /ping` answers: a review that is admitted without
a hook, and not counted.

**Shutdown.** When `run` is cancelled the server accepts no more reviews and answers those in flight.
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

import msgspec
from aiohttp import web

from trimtab.admission import self_check
from trimtab.admission.connections import Connection, Connections, Limits, Refusal
from trimtab.admission.deadlines import Deadlines
from trimtab.admission.metrics import Metrics, ReviewOutcome
from trimtab.admission.reading import ReviewReader
from trimtab.admission.self_check import SelfCheck
from trimtab.admission.tracing import TRACEPARENT, Tracing
from trimtab.api import admission, codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, Status, UnreadableObjectError, answer
from trimtab.api.errors import InvalidError
from trimtab.kube.clocks import SECOND, Clock, SystemClock
from trimtab.kube.components import run_together
from trimtab.kube.threads import LARGE_OBJECT, LARGE_REVIEW

Decide = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]

MAX_IN_FLIGHT = 512
"""How many reviews are decided at the same time; further requests are admitted without a decision."""
_OVERLOADED = 0.5
"""Seconds: a loop that is later than this cannot keep the budget of more requests."""
_ANSWER_TIME = 0.25
"""Seconds reserved for the answer to arrive."""
_GRACE = 5.0
"""Seconds that reviews in flight may take when the server stops."""
_TIMEOUT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}

LIMITS = Limits()

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hook:
    """One kind of review: its path, the function that decides, and how many seconds that may take.

    After the budget, or on any error, the request is admitted unchanged.
    """

    name: str
    path: str
    decide: Decide
    budget: float
    is_ready: Callable[[], bool] = lambda: True
    """Whether the feature that decides is ready; until then requests are admitted without a decision."""
    refuses_unreadable: bool = False
    """Whether an object that cannot be read is refused, and not admitted without a decision."""
    skip_warning: str = ""
    """For the user of a request that is admitted without a decision; the reason is appended."""


OnSkip = Callable[[Hook, AdmissionRequest, str, ReviewOutcome], None]
"""Called for each request that is admitted without a decision, with the reason and the outcome."""


def size_of(request: AdmissionRequest) -> int:
    """The bytes of the objects of a review."""
    return sum(len(each.text) for each in (request.object, request.old_object, request.options) if each is not None)


def is_large(request: AdmissionRequest) -> bool:
    """Whether its objects are so large that reading them on the event loop would take more than ten milliseconds."""
    return size_of(request) > LARGE_OBJECT


class Certificates(Protocol):
    """The source of the serving certificate. It may load other certificates into the context while that is in use."""

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context for new connections."""
        ...

    @property
    def synced(self) -> bool:
        """Whether there is a certificate."""
        ...

    @property
    def problems(self) -> list[str]:
        """Why API servers cannot trust the certificate."""
        ...

    async def ready(self) -> None:
        """Wait until there is a certificate."""
        ...

    async def run(self) -> None:
        """Keep the certificate current until cancelled."""
        ...


def admitted(request: AdmissionRequest, *warnings: str) -> AdmissionResponse:
    """An answer that admits the request, with warnings for the user."""
    return AdmissionResponse(uid=request.uid, allowed=True, warnings=warnings)


class AdmissionServer:
    """An HTTPS server for some hooks."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        *,
        certificates: Certificates,
        host: str,
        port: int,
        metrics: Metrics | None = None,
        on_skip: OnSkip | None = None,
        client_ca: Path | None = None,
        clock: Clock | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        check: SelfCheck | None = None,
        limits: Limits = LIMITS,
        lag: Callable[[], float] = lambda: 0.0,
        tracing: Tracing | None = None,
    ) -> None:
        """`lag` is how many seconds the event loop is late."""
        self.hooks = {hook.path: hook for hook in hooks}
        if len(self.hooks) != len(hooks):
            raise ValueError("two hooks have the same path")
        self.port = port
        """The port it listens on; where 0 was asked for, the actual one once `synced`."""
        self.metrics = metrics or Metrics()
        self._host = host
        self._certificates = certificates
        self._on_skip = on_skip
        self._client_ca = client_ca
        self._clock = clock or SystemClock()
        self._max_in_flight = max_in_flight
        self._deadlines = Deadlines(self._clock)
        self._reader = ReviewReader(self._deadlines)
        self._in_flight = 0
        self._check = check
        self._limits = limits
        self._lag = lag
        self._tracing = tracing
        self._listening = False
        self.metrics.watch_in_flight(lambda: self._in_flight)

    @property
    def synced(self) -> bool:
        """Whether the server listens."""
        return self._listening

    @property
    def problems(self) -> list[str]:
        """Why API servers cannot trust its certificate, or cannot call it."""
        return self._certificates.problems or (self._check.problems if self._check is not None else [])

    async def run(self) -> None:
        """Answer reviews until cancelled."""
        try:
            await run_together([self._serve()], [self._certificates.run()])
        finally:
            self._reader.close()
            await self._deadlines.close()

    async def _serve(self) -> None:
        await self._certificates.ready()
        connections = Connections(
            self._answer,
            clock=self._clock,
            limits=self._limits,
            lag=self._lag,
            on_close=self.metrics.closed,
        )
        async with connections.listening(self._host, self.port, self._context(), grace=_GRACE) as (host, port, *_):
            self.port = port
            self._listening = True
            log.info("admission reviews are served on https://%s:%d", self._host, self.port)
            try:
                if self._check is not None:
                    await self._check.run(*self_check.own_address(host, port))
                await asyncio.get_running_loop().create_future()
            finally:
                self._listening = False

    def _context(self) -> ssl.SSLContext:
        context = self._certificates.context
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def _answer(self, http: web.BaseRequest, connection: Connection, body: bytes) -> web.Response:
        if http.path != self_check.PATH and http.path not in self.hooks:
            raise Refusal(404, "there is no such webhook")
        if http.method != "POST":
            raise Refusal(405, "webhooks are called with POST")
        if http.path == self_check.PATH:
            return _ping(body)
        hook = self.hooks[http.path]
        timeout = _timeout(http.query.get("timeout", ""))
        arrived = self._clock.monotonic() if connection.arrived is None else connection.arrived
        try:
            request = await self._reader.read(body, _budget(hook, timeout), arrived)
        except TimeoutError:
            return _answered(self._answer_unread(hook, body, _budget(hook, timeout), arrived))
        except UnreadableObjectError as error:
            return _answered(self._answer_unreadable(hook, error))
        except InvalidError as error:
            self.metrics.answered(hook.name, ReviewOutcome.MALFORMED, 0.0)
            return _malformed(error)
        decision = self.decide(hook, request, timeout=timeout, arrived=arrived)
        if self._tracing is None:
            return _answered(await decision)
        with self._tracing.review(hook.name, request, http.headers.get(TRACEPARENT, "")) as record:
            response = await decision
            record(response)
            return _answered(response)

    def _answer_unread(self, hook: Hook, body: bytes, budget: float, arrived: int) -> AdmissionResponse:
        request = admission.read_head(body)
        if request is None:  # an API server would have sent it first
            raise Refusal(503, "there was no time to read the review")
        return self._admit(hook, request, _late(budget), ReviewOutcome.LATE, self._since(arrived))

    def _answer_unreadable(self, hook: Hook, error: UnreadableObjectError) -> AdmissionResponse:
        if not hook.refuses_unreadable or error.was_stored:
            return self._admit(hook, error.request, str(error), ReviewOutcome.FAILED, 0.0)
        self.metrics.answered(hook.name, ReviewOutcome.DENIED, 0.0)
        status = Status(status="Failure", message=str(error), reason="Invalid", code=422)
        return AdmissionResponse(uid=error.request.uid, allowed=False, status=status)

    async def decide(
        self, hook: Hook, request: AdmissionRequest, *, timeout: float | None = None, arrived: int | None = None
    ) -> AdmissionResponse:
        """The hook's answer; if there is none within the budget, an answer that admits the request.

        The budget counts from when the request arrived.
        """
        if self._in_flight >= self._max_in_flight:
            return self._admit(hook, request, "too many reviews are in flight", ReviewOutcome.BUSY, 0.0)
        if self._lag() > _OVERLOADED:
            return self._admit(hook, request, "Trimtab is overloaded", ReviewOutcome.BUSY, 0.0)
        if not hook.is_ready():
            return self._admit(hook, request, "the caches have not synced yet", ReviewOutcome.NOT_READY, 0.0)
        budget = _budget(hook, timeout)
        started = self._clock.monotonic() if arrived is None else arrived
        self._in_flight += 1
        try:
            if self._since(started) >= budget:
                raise TimeoutError
            timed = msgspec.structs.replace(request, arrived=started)
            response = await self._deadlines.within(budget, started, hook.decide(timed))
        except TimeoutError:
            return self._admit(hook, request, _late(budget), ReviewOutcome.LATE, self._since(started))
        except Exception as error:
            log.exception("the %s hook failed for %s/%s", hook.name, request.namespace, request.name)
            reason = f"{type(error).__name__}: {error}"
            return self._admit(hook, request, reason, ReviewOutcome.FAILED, self._since(started))
        finally:
            self._in_flight -= 1
        self.metrics.answered(hook.name, ReviewOutcome.of(allowed=response.allowed), self._since(started))
        return response

    def _admit(
        self, hook: Hook, request: AdmissionRequest, reason: str, outcome: ReviewOutcome, seconds: float
    ) -> AdmissionResponse:
        self.metrics.answered(hook.name, outcome, seconds)
        try:
            if self._on_skip is not None:
                self._on_skip(hook, request, reason, outcome)
        except Exception:  # a report that fails blocks no request either
            log.exception("the report of %s/%s failed, which was admitted", request.namespace, request.name)
        return admitted(request, *([f"{hook.skip_warning}: {reason}"] if hook.skip_warning else []))

    def _since(self, started: int) -> float:
        return (self._clock.monotonic() - started) / SECOND


def _budget(hook: Hook, timeout: float | None) -> float:
    """The seconds that the hook may take, if the API server waits for so many."""
    return hook.budget if timeout is None else min(hook.budget, max(timeout - _ANSWER_TIME, 0.0))


def _late(budget: float) -> str:
    return f"no decision within {budget:g} s"


def _ping(body: bytes) -> web.Response:
    """Admit a review of our own `SelfCheck`, which is short."""
    if len(body) > LARGE_REVIEW:
        raise Refusal(413, "the body is too large")
    try:
        return _answered(admitted(admission.read_review(body)))
    except InvalidError as error:
        return _malformed(error)


def _malformed(error: InvalidError) -> web.Response:
    return web.Response(status=400, text=f"not an AdmissionReview: {error}\n")


def _answered(response: AdmissionResponse) -> web.Response:
    return web.Response(body=codec.encode(answer(response)), content_type="application/json")


def _timeout(text: str) -> float | None:
    """Seconds that the API server waits, from a duration like `10s` or `1m0s`; None if it does not say."""
    parts = _TIMEOUT.findall(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else None
