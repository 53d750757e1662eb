"""The client: verbs on typed objects and on raw JSON, over any `Transport` (`calls` has retries and errors).

Each verb takes a type of `trimtab.api` (or a `Resource`) and returns that type. A partial type must never be written
back, so verbs write JSON or a patch, and `replace`, which overwrites the object, takes and returns raw JSON only.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from trimtab.api import codec
from trimtab.api.apps import Scale
from trimtab.api.documents import JSON, Document
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.kube import watches
from trimtab.kube.calls import SETTINGS, Caller, Observation, Settings
from trimtab.kube.errors import Gone, Malformed
from trimtab.kube.resources import Resource
from trimtab.kube.threads import LARGE_OBJECT, read_beside
from trimtab.kube.transport import Request, Response
from trimtab.kube.watches import Page, RejectedObject, WatchEvent

__all__ = ["PAGE", "SETTINGS", "Body", "Client", "Kind", "Observation", "PatchKind", "Settings"]

T = TypeVar("T")
Kind = type[T] | Resource[T]
Body = Mapping[str, Any] | Document | Model | bytes
"""What can be written: JSON, a document, or a typed object of a kind of which our type has every field."""

PAGE = 250
"""Objects of a page. Everything else in the process waits while it is decoded, about five milliseconds for pods; the
memory that this leaves behind grows with it, too."""
_LARGE_PAGE = 1 << 19
"""Bytes of a page that are decoded on the event loop at most."""
_RESTARTS = 3
_WATCH_SILENCE = 240.0
"""Seconds without data after which a watch counts as broken. API servers send a bookmark every minute."""


class PatchKind(enum.Enum):
    """The media type of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client(Caller):
    """The verbs of one API server."""

    async def get(
        self, kind: Kind[T], name: str, *, namespace: str = "", subresource: str = "", resource_version: str = ""
    ) -> T:
        """Read one object."""
        resource = _resource(kind)
        params = _params(resourceVersion=resource_version)
        response = await self.call("GET", resource.object(name, namespace, subresource), params=params)
        return await _read(response, resource.model)

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> Page[T]:
        """List all objects of a kind, consistently. Restarts if the continue token expires (410 Gone).

        Objects that cannot be read are skipped and reported; the page has them in `rejected`.
        """
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        for _ in range(_RESTARTS):
            try:
                return await _all_pages(self.pages(kind, namespace=namespace, limit=limit, **selectors))
            except Gone:
                continue
        return await _all_pages(self.pages(kind, namespace=namespace, limit=0, **selectors))

    async def pages(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[Page[T], None]:
        """List in parts of pages, consistently; other tasks run in between. Raises Gone if the token expires."""
        resource = _resource(kind)
        token = ""
        while True:
            params = _params(
                labelSelector=label_selector,
                fieldSelector=field_selector,
                limit=str(limit) if limit else "",
                **{"continue": token},
            )
            response = await self.call("GET", resource.collection(namespace), params=params)
            parts = watches.parts(response.body, resource.model)
            while (page := await read_beside(len(response.body), next, parts, None, limit=_LARGE_PAGE)) is not None:
                for rejected in page.rejected:
                    self.unreadable.report(resource, rejected)
                token = page.continue_token
                yield page
                await asyncio.sleep(0)
            if not token:
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
        """Watch changes since a version, with bookmarks, until the server ends the watch. An ERROR event is raised.

        There are no retries: only the reader of the events knows which one was the last.
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
        stream = await self.open_stream(Request("GET", path, tuple(params.items()), timeout=_WATCH_SILENCE))
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
        """Create an object."""
        resource = _resource(kind)
        if resource.namespaced and not namespace:
            raise ValueError(f"a {resource.kind} needs a namespace")
        params = self._write_params(dry_run, field_validation)
        response = await self.call("POST", resource.collection(namespace), params=params, body=_encoded(body))
        return await _read(response, resource.model)

    async def replace(
        self,
        resource: Resource[JSON],
        tree: JSON,
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: str = "",
    ) -> JSON:
        """Overwrite an object with a changed copy; if that has a resourceVersion, only if it is current."""
        metadata = tree["metadata"]
        path = resource.object(metadata["name"], metadata.get("namespace", ""), subresource)
        params = self._write_params(dry_run, field_validation)
        response = await self.call("PUT", path, params=params, body=_encoded(tree), repeatable=True)
        return await _read(response, resource.model)

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
            params=self._write_params(dry_run, field_validation, force="true" if force else ""),
            body=_encoded(patch),
            content_type=how.value,
            repeatable=how is not PatchKind.JSON,
        )
        return await _read(response, resource.model)

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
        """Delete an object; with `uid` or `resource_version` as precondition (Conflict if it does not hold)."""
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
        """Delete all objects that match."""
        params = _params(labelSelector=label_selector, fieldSelector=field_selector)
        body = _delete_options("", "", propagation, grace_period_seconds, dry_run)
        await self.call("DELETE", _resource(kind).collection(namespace), params=params, body=codec.encode(body))

    async def scale(self, kind: Kind[T], name: str, *, namespace: str) -> Scale:
        """Read the scale subresource of a workload."""
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
        """Set the replicas of a workload; with `resource_version` as precondition."""
        patch: JSON = {"spec": {"replicas": replicas}}
        if resource_version:
            patch["metadata"] = {"resourceVersion": resource_version}
        resource = _as(_resource(kind), Scale)
        return await self.patch(resource, name, patch, namespace=namespace, subresource="scale", dry_run=dry_run)

    async def bind(self, name: str, *, namespace: str, node: str, uid: str = "", dry_run: bool = False) -> None:
        """Bind a pod to a node; with `uid` as precondition."""
        metadata = {"name": name, "namespace": namespace} | ({"uid": uid} if uid else {})
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = Resource.of(Pod).object(name, namespace, "binding")
        await self.call("POST", path, params=self._write_params(dry_run, ""), body=codec.encode(body))

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Evict a pod. A disruption budget that refuses raises TooManyRequests with `by_budget`."""
        body: JSON = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, "", "", grace_period_seconds, dry_run),
        }
        path = Resource.of(Pod).object(name, namespace, "eviction")
        await self.call("POST", path, params=self._write_params(dry_run, ""), body=codec.encode(body))

    def _write_params(self, dry_run: bool, field_validation: str, **more: str) -> dict[str, str]:
        return _params(
            fieldManager=self.settings.field_manager,
            fieldValidation=field_validation,
            dryRun="All" if dry_run else "",
            **more,
        )


async def _all_pages(pages: AsyncIterator[Page[T]]) -> Page[T]:
    items: list[T] = []
    rejected: list[RejectedObject] = []
    version = ""
    async for page in pages:
        items += page.items
        rejected += page.rejected
        version = page.resource_version
    return Page(tuple(items), version, rejected=tuple(rejected))


def _resource(kind: Kind[T]) -> Resource[T]:
    return kind if isinstance(kind, Resource) else Resource.of(kind)


def _as(resource: Resource[Any], model: type[T]) -> Resource[T]:
    """The same paths with another type: a subresource returns an object of another kind."""
    return Resource(resource.group, resource.version, resource.kind, resource.plural, model, resource.namespaced)


def _params(**params: str) -> dict[str, str]:
    return {name: value for name, value in params.items() if value}


def _encoded(body: Body | Sequence[JSON]) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.text if isinstance(body, Document) else codec.encode(body)


async def _read(response: Response, model: type[T]) -> T:
    body = response.body
    try:
        return await read_beside(len(body), codec.decode_object, body, model, limit=LARGE_OBJECT)
    except InvalidError as error:
        raise Malformed(f"the response cannot be read: {error}", status=response.status) from error


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
