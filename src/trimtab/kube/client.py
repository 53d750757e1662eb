"""The client: calls on typed objects and on raw JSON, over any `Transport`.

Each call takes a type of `trimtab.api` (or a `Resource`), and answers with that type. A partial type must never be
written back, so what is written is JSON or a patch, and `replace`, which overwrites, takes and gives raw JSON only.

Which calls may be made again when nobody knows whether they arrived (see `retries`): reading; a patch that says what
should be (merge, strategic, apply), but not one that says what to do (JSON patch); replacing; and deleting one object
that is named by its UID, because by its name alone a second attempt could meet a successor. Creating may not.
"""

from __future__ import annotations

import enum
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

from trimtab.api import codec
from trimtab.api.apps import Scale
from trimtab.api.documents import JSON, Document
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.kube import watches
from trimtab.kube.clocks import SECOND, Clock, SystemClock
from trimtab.kube.errors import ApiError, Gone, Malformed, from_response
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Resource
from trimtab.kube.retries import RETRIES, RetryPolicy
from trimtab.kube.transport import Request, Response, Stream, Transport
from trimtab.kube.watches import Page, WatchEvent

T = TypeVar("T")
Kind = type[T] | Resource[T]
Body = Mapping[str, Any] | Document | Model | bytes
"""What can be written: JSON, a document, or a typed object of a kind that is wholly ours."""

PAGE = 500
_RESTARTS = 3
_WATCH_SILENCE = 240.0
"""Seconds without a word after which a watch counts as dead. API servers send a bookmark a minute."""


class PatchKind(enum.Enum):
    """How a patch is written."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Observation:
    """One attempt at a call, for whoever counts them. `status` is 0 where there was no answer."""

    method: str
    path: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Settings:
    """How a client behaves."""

    retry: RetryPolicy = RETRIES
    timeout: float = 30.0
    urgent: bool = False
    """Whether calls pass those that wait for a free connection, or for the limiter."""
    field_manager: str = "trimtab"
    on_warning: Callable[[str], None] | None = None
    on_attempt: Callable[[Observation], None] | None = None
    before_write: Callable[[], None] | None = None
    """Called before each attempt to write; raises if writing is not allowed any more (see `leases`)."""


SETTINGS = Settings()


class Client:
    """Calls to one API server."""

    def __init__(
        self,
        transport: Transport,
        *,
        settings: Settings = SETTINGS,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        limiter: TokenBucket | None = None,
    ) -> None:
        self.transport = transport
        self.settings = settings
        self.clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._limiter = limiter

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, also those of clients made by `using`."""
        await self.transport.close()

    def using(self, **changes: Any) -> Client:
        """A client that behaves differently (see `Settings`) over the same connections."""
        return Client(
            self.transport,
            settings=replace(self.settings, **changes),
            clock=self.clock,
            rng=self._rng,
            limiter=self._limiter,
        )

    async def get(
        self, kind: Kind[T], name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> T:
        """One object."""
        resource = _resource(kind)
        params = _params(resourceVersion=resource_version)
        response = await self.call("GET", resource.object(name, namespace, subresource), params=params)
        return _read(response, resource.model)

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> Page[T]:
        """All objects of a kind, as of one moment. Begins anew where the list grows too old while it is read."""
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        for _ in range(_RESTARTS):
            try:
                return await _whole(self.pages(kind, namespace=namespace, limit=limit, **selectors))
            except Gone:
                continue
        return await _whole(self.pages(kind, namespace=namespace, limit=0, **selectors))

    async def pages(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[Page[T], None]:
        """A list part by part, all of one moment. Raises Gone where the server has forgotten that moment."""
        resource = _resource(kind)
        following = ""
        while True:
            params = _params(
                labelSelector=label_selector,
                fieldSelector=field_selector,
                limit=str(limit) if limit else "",
                **{"continue": following},
            )
            response = await self.call("GET", resource.collection(namespace), params=params)
            part = watches.page(response.body, resource.model)
            yield part
            following = part.continue_token
            if not following:
                return

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Changes since a version, with bookmarks, until the server ends them. What an ERROR event says is raised.

        Nothing is tried again here: only who reads the events knows which one was the last.
        """
        resource = _resource(kind)
        params = _params(
            watch="true",
            resourceVersion=resource_version,
            allowWatchBookmarks="true",
            timeoutSeconds=str(timeout_seconds),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        path = resource.collection(namespace)
        stream = await self._stream(Request("GET", path, tuple(params.items()), timeout=_WATCH_SILENCE))
        try:
            yield watches.Watch(stream, resource.model)
        finally:
            await stream.close()

    async def create(
        self,
        kind: Kind[T],
        body: Body,
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_validation: str = "",
    ) -> T:
        """Make an object."""
        resource = _resource(kind)
        if resource.namespaced and not namespace:
            raise ValueError(f"a {resource.kind} needs a namespace")
        params = self._writing(dry_run, field_validation)
        response = await self.call("POST", resource.collection(namespace), params=params, body=_written(body))
        return _read(response, resource.model)

    async def replace(
        self,
        resource: Resource[JSON],
        tree: JSON,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: str = "",
    ) -> JSON:
        """Overwrite an object with a changed copy; where that holds a resourceVersion, only if it is current."""
        metadata = tree["metadata"]
        path = resource.object(metadata["name"], metadata.get("namespace", ""), subresource)
        params = self._writing(dry_run, field_validation)
        response = await self.call("PUT", path, params=params, body=_written(tree), repeatable=True)
        return _read(response, resource.model)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Body | Sequence[JSON],
        *,
        how: PatchKind = PatchKind.MERGE,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        force: bool = False,
        field_validation: str = "",
    ) -> T:
        """Change parts of an object. `force` takes fields over from other managers (apply only)."""
        resource = _resource(kind)
        response = await self.call(
            "PATCH",
            resource.object(name, namespace, subresource),
            params=self._writing(dry_run, field_validation, force="true" if force else ""),
            body=_written(patch),
            content_type=how.value,
            repeatable=how is not PatchKind.JSON,
        )
        return _read(response, resource.model)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for an object to go; with `uid` or `resource_version`, only if it is that one still (else Conflict)."""
        body = _delete_options(uid, resource_version, propagation, grace_period_seconds, dry_run)
        path = _resource(kind).object(name, namespace)
        await self.call("DELETE", path, body=codec.encode(body), repeatable=bool(uid))

    async def delete_all(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        propagation: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for all objects that match to go."""
        params = _params(labelSelector=label_selector, fieldSelector=field_selector)
        body = _delete_options("", "", propagation, grace_period_seconds, dry_run)
        await self.call("DELETE", _resource(kind).collection(namespace), params=params, body=codec.encode(body))

    async def scale(self, kind: Kind[T], name: str, *, namespace: str) -> Scale:
        """The size of a workload."""
        return await self.get(_as(_resource(kind), Scale), name, namespace=namespace, subresource="scale")

    async def resize(
        self,
        kind: Kind[T],
        name: str,
        replicas: int,
        *,
        namespace: str,
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Scale:
        """Set the size of a workload; with `resource_version`, only if nobody has changed it since."""
        patch: JSON = {"spec": {"replicas": replicas}}
        if resource_version:
            patch["metadata"] = {"resourceVersion": resource_version}
        resource = _as(_resource(kind), Scale)
        return await self.patch(resource, name, patch, namespace=namespace, subresource="scale", dry_run=dry_run)

    async def bind(self, name: str, *, namespace: str, node: str, uid: str = "", dry_run: bool = False) -> None:
        """Put a pod on a node; with `uid`, only if it is that pod still."""
        metadata = {"name": name, "namespace": namespace} | ({"uid": uid} if uid else {})
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = Resource.of(Pod).object(name, namespace, "binding")
        await self.call("POST", path, params=self._writing(dry_run, ""), body=codec.encode(body))

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for a pod to go, if budgets allow: TooManyRequests with `by_budget` where they do not."""
        body: JSON = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, "", "", grace_period_seconds, dry_run),
        }
        path = Resource.of(Pod).object(name, namespace, "eviction")
        await self.call("POST", path, params=self._writing(dry_run, ""), body=codec.encode(body))

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
        """Any call, tried again where that is right; for paths that have no method of their own here."""
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
        finally:
            self._observe(request, status, started)
        for warning in response.warnings:
            if self.settings.on_warning is not None:
                self.settings.on_warning(warning)
        if not 200 <= status < 300:
            raise from_response(status, response.headers, response.body, call=request.call)
        return response

    async def _stream(self, request: Request) -> Stream:
        if self._limiter is not None:
            await self._limiter.wait()
        started = self.clock.monotonic()
        status = 0
        try:
            stream = await self.transport.stream(request)
            status = stream.status
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

    def _observe(self, request: Request, status: int, started: int) -> None:
        if self.settings.on_attempt is not None:
            seconds = (self.clock.monotonic() - started) / SECOND
            self.settings.on_attempt(Observation(request.method, request.path, status, seconds))

    def _writing(self, dry_run: bool, field_validation: str, **more: str) -> dict[str, str]:
        return _params(
            fieldManager=self.settings.field_manager,
            fieldValidation=field_validation,
            dryRun="All" if dry_run else "",
            **more,
        )


async def _whole(parts: AsyncIterator[Page[T]]) -> Page[T]:
    items: list[T] = []
    version = ""
    async for part in parts:
        if part.rejected:
            raise Malformed(f"{part.rejected[0].key} cannot be read: {part.rejected[0].error}")
        items += part.items
        version = part.resource_version
    return Page(tuple(items), version)


def _resource(kind: Kind[T]) -> Resource[T]:
    return kind if isinstance(kind, Resource) else Resource.of(kind)


def _as(resource: Resource[Any], model: type[T]) -> Resource[T]:
    """The same paths read into another type: what a subresource answers is not of the resource's own kind."""
    return Resource(resource.group, resource.version, resource.kind, resource.plural, model, resource.namespaced)


def _params(**params: str) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}


def _written(body: Body | Sequence[JSON]) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.text if isinstance(body, Document) else codec.encode(body)


def _read(response: Response, model: type[T]) -> T:
    try:
        return codec.decode(response.body, model)
    except InvalidError as error:
        raise Malformed(f"the answer cannot be read: {error}", status=response.status) from error


def _delete_options(
    uid: str, resource_version: str, propagation: str, grace_period_seconds: int | None, dry_run: bool
) -> JSON:
    options: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = _params(uid=uid, resourceVersion=resource_version)
    if preconditions:
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return options
