"""Calls on paths: rate limit, retries, warnings, errors. `client` adds the verbs on objects.

Which calls may be repeated when it is unknown whether they arrived (see `retries`): reads; patches that state a result
(merge, strategic, apply), but not JSON patches, which state operations; replace; and deleting one object by its UID,
because by its name alone a second attempt could delete a successor. Create may not be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from trimtab.api.annotations import FIELD_MANAGER
from trimtab.kube.clocks import SECOND, Clock, SystemClock
from trimtab.kube.dropped_events import DroppedEvents
from trimtab.kube.errors import ApiError, from_response
from trimtab.kube.limits import TokenBucket
from trimtab.kube.list_fallbacks import ListFallbacks
from trimtab.kube.retries import RETRIES, RetryPolicy
from trimtab.kube.server_time import CorrectedClock, ServerTime
from trimtab.kube.transport import Request, Response, Stream, Transport
from trimtab.kube.unreadable import UnreadableObjects


@dataclass(frozen=True, slots=True)
class Observation:
    """One attempt at a call, for metrics. `status` is 0 if there was no response."""

    method: str
    path: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Settings:
    """The behaviour of a client."""

    retry: RetryPolicy = RETRIES
    timeout: float = 30.0
    urgent: bool = False
    """Whether calls skip the rate limit and the limit of concurrent requests."""
    field_manager: str = FIELD_MANAGER
    on_warning: Callable[[str], None] | None = None
    on_attempt: Callable[[Observation], None] | None = None
    before_write: Callable[[], None] | None = None
    """Called before each attempt to write; raises if this process may no longer write (see `leases`)."""


SETTINGS = Settings()


class Caller:
    """Calls to one API server, with settings."""

    def __init__(
        self,
        transport: Transport,
        *,
        settings: Settings = SETTINGS,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        limiter: TokenBucket | None = None,
        server_time: ServerTime | None = None,
        unreadable: UnreadableObjects | None = None,
        list_fallbacks: ListFallbacks | None = None,
        dropped_events: DroppedEvents | None = None,
    ) -> None:
        self.transport = transport
        self.settings = settings
        self.clock = clock or SystemClock()
        self.server_time = server_time or ServerTime(self.clock)
        """The API server's clock, from all answers to this client and to those that `using` returns."""
        self.corrected_clock = CorrectedClock(self.clock, self.server_time)
        """For times that other processes read."""
        self.unreadable = unreadable or UnreadableObjects()
        """The objects that could not be read, by this client and by those that `using` returns."""
        self.list_fallbacks = list_fallbacks or ListFallbacks()
        """Reports lists that were read in pages, by this client and by those that `using` returns."""
        self.dropped_events = dropped_events or DroppedEvents()
        """Reports events that were not written, of recorders on this client and on those that `using` returns."""
        self._rng = rng or random.Random()  # noqa: S311 - jitter of retries, not a secret
        self._limiter = limiter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, which all clients returned by `using` share."""
        await self.transport.close()

    def using(self, *, limiter: TokenBucket | None = None, **changes: Any) -> Self:
        """A client with changed `Settings`, or with a rate limit of its own, on the same connections."""
        return type(self)(
            self.transport,
            settings=replace(self.settings, **changes),
            clock=self.clock,
            rng=self._rng,
            limiter=limiter or self._limiter,
            server_time=self.server_time,
            unreadable=self.unreadable,
            list_fallbacks=self.list_fallbacks,
            dropped_events=self.dropped_events,
        )

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        repeatable: bool | None = None,
    ) -> Response:
        """Send a request, with retries where they are safe; for paths without a method of their own."""
        request = Request(
            method,
            path,
            tuple((params or {}).items()),
            body,
            content_type,
            self.settings.timeout,
            self.settings.urgent,
        )
        repeatable = method == "GET" if repeatable is None else repeatable
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(request)
            except ApiError as error:
                wait = self.settings.retry.wait(error, attempt, repeatable=repeatable, rng=self._rng)
                if wait is None:
                    raise
            await self.clock.sleep(wait)

    async def _attempt(self, request: Request) -> Response:
        if self._limiter is not None and not request.urgent:
            await self._limiter.wait()
        if request.method != "GET" and self.settings.before_write is not None:
            self.settings.before_write()
        started = self.clock.monotonic()
        status = 0
        try:
            response = await self.transport.send(request)
            status = response.status
            self._observe_time(response.headers, started)
        finally:
            self._observe(request, status, started)
        for warning in response.warnings:
            if self.settings.on_warning is not None:
                self.settings.on_warning(warning)
        if not 200 <= status < 300:
            raise from_response(status, response.headers, response.body, call=request.call)
        return response

    async def open_stream(self, request: Request) -> Stream:
        """Open a watch. There are no retries: only its reader knows which event was the last."""
        if self._limiter is not None:
            await self._limiter.wait()
        started = self.clock.monotonic()
        status = 0
        try:
            stream = await self.transport.stream(request)
            status = stream.status
            self._observe_time(stream.headers, started)
        finally:
            self._observe(request, status, started)
        if status == 200:
            return stream
        try:
            body = b""
            while chunk := await stream.read():
                body += chunk
        finally:
            await stream.close()
        raise from_response(status, stream.headers, body, call=request.call)

    def _observe_time(self, headers: Mapping[str, str], sent: int) -> None:
        self.server_time.observe(headers.get("Date"), sent=sent, received=self.clock.monotonic())

    def _observe(self, request: Request, status: int, started: int) -> None:
        if self.settings.on_attempt is not None:
            seconds = (self.clock.monotonic() - started) / SECOND
            self.settings.on_attempt(Observation(request.method, request.path, status, seconds))
