"""A plain HTTP client for tests of the lab, with access to every byte that is sent and received."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from trimtab_lab.apiserver.wire.server import Server

Tree = dict[str, Any]

TOKEN = "let-me-in"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Reply:
    """A response; `tree` is the body, if that is JSON."""

    status: int
    tree: Tree
    text: str
    headers: Mapping[str, str]
    warnings: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.tree.get("reason", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        """The fields of a Status of 422, each with its reason."""
        return [(cause["field"], cause["reason"]) for cause in self.tree["details"]["causes"]]


class Stream:
    """The events of a watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._content = response.content

    async def event(self) -> Tree:
        """The next event."""
        line = await asyncio.wait_for(self._content.readline(), 10)
        if not line:
            raise EOFError
        event: Tree = json.loads(line)
        return event

    async def events(self, count: int) -> list[tuple[str, str]]:
        """The next few events, as type and name."""
        found = [await self.event() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]

    async def rest(self) -> list[Tree]:
        """Everything until the server ends the watch."""
        found = []
        try:
            while True:
                found.append(await self.event())
        except (EOFError, aiohttp.ClientError):
            return found


class Wire:
    """A client of one server, authenticated by default."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        token: str | None = TOKEN,
    ) -> Reply:
        """One request. A body that is not text or bytes is sent as JSON."""
        data = None if body is None else io.BytesIO(_bytes(body))
        headers = {"Accept": accept} | ({"Content-Type": content} if data is not None else {})
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.request(method, self.url + path, data=data, headers=headers) as response:
            text = (await response.read()).decode()
            is_json = response.content_type == "application/json" and text[:1] == "{"
            tree = json.loads(text) if is_json else {}
            return Reply(response.status, tree, text, response.headers, response.headers.getall("Warning", []))

    async def create(self, path: str, body: Any) -> Tree:
        """Create an object; must succeed."""
        reply = await self.call("POST", path, body)
        assert reply.status == 201, reply.text
        return reply.tree

    async def patch(self, path: str, change: Any, content: str = MERGE_PATCH) -> Tree:
        """Patch an object; must succeed."""
        reply = await self.call("PATCH", path, change, content=content)
        assert reply.status == 200, reply.text
        return reply.tree

    async def get(self, path: str) -> Tree:
        """Get an object; must succeed."""
        reply = await self.call("GET", path)
        assert reply.status == 200, reply.text
        return reply.tree

    async def names(self, path: str) -> list[str]:
        """The names of the objects in a list."""
        return [item["metadata"]["name"] for item in (await self.get(path))["items"]]

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "application/json") -> AsyncIterator[Stream]:
        """A watch, as a context manager."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept}
        async with self.session.get(self.url + path, headers=headers) as response:
            yield Stream(response)


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Wire]:
    """A client of a server."""
    trust = ssl.create_default_context(cadata=server.identity.authority.decode())
    connector = aiohttp.TCPConnector(ssl=trust, limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=2**22) as session:
        yield Wire(session, server.url)


def pod(name: str = "web", **spec: Any) -> Tree:
    """The smallest pod."""
    containers = [{"name": "main", "image": "example.com/web:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def config_map(name: str, **labels: str) -> Tree:
    """The smallest object."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def deployment(name: str = "web", replicas: int = 3) -> Tree:
    """A Deployment of the smallest pods."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def owned_by(owner: Tree, tree: Tree, *, block: bool = True) -> Tree:
    """An object with an owner."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": block,
    }
    return {**tree, "metadata": {**tree["metadata"], "ownerReferences": [reference]}}


CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
CONFIG_MAPS = f"{CORE}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
