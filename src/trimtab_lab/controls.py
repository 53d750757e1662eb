"""The controls of a lab: what the buttons of its dashboard do. They listen on loopback, for the dashboard alone.

    POST /add-zone      {"zone": "zone-d", "nodes": 4}
    POST /fail-zone     {"zone": "zone-a"}           its nodes send no heartbeats any more
    POST /recover-zone  {"zone": "zone-a"}
    POST /scale         {"workload": "default/Deployment/web", "replicas": 20}

The dashboard passes requests on with a secret that the lab wrote into a file when it started. Each answer says which
command does the same, with the warnings that the API server returned.

Nodes of added zones are simulated here, under a shape of their own: the lab's shape is left as its file has it.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.nodes import ZONE, Node
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError
from trimtab_lab.nodes import operations, shapes
from trimtab_lab.nodes.service import Nodes

FILE = "controls.json"
"""The file with the address and the secret, in the folder of the lab."""
_HOST = "127.0.0.1"
_SHAPE = "added"
_MOST_NODES = 50
_MOST_ZONES = 20
_MOST_REPLICAS = 1000
_KINDS: Mapping[str, type[Any]] = {
    "Deployment": Deployment,
    "ReplicaSet": ReplicaSet,
    "ReplicationController": ReplicationController,
    "CloneSet": CloneSet,
}


class AddZone(Model, kw_only=True):
    """A zone with so many nodes."""

    zone: str
    nodes: int = 4


class ChosenZone(Model, kw_only=True):
    """A zone that exists."""

    zone: str


class ScaleTo(Model, kw_only=True):
    """A workload (`namespace/Kind/name`) and its size."""

    workload: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Address:
    """Where the controls listen, and the secret that callers need."""

    url: str
    secret: str

    @property
    def port(self) -> int:
        """The port."""
        return int(self.url.rpartition(":")[2])


def write_address(folder: Path, port: int) -> None:
    """Choose a secret, and write it with the address, for the two processes of the lab alone."""
    path = folder / FILE
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps({"url": f"http://{_HOST}:{port}", "secret": secrets.token_urlsafe(24)}))


def read_address(path: Path) -> Address:
    """The address of a file."""
    tree = json.loads(path.read_text())
    return Address(tree["url"], tree["secret"])


class Controls:
    """Carries the requests out."""

    def __init__(self, client: Client, secret: str) -> None:
        self._client = client
        self._secret = f"Bearer {secret}".encode()
        self._zones: dict[str, int] = {}
        self._nodes = Nodes(client, client.clock, shapes.read({"name": _SHAPE}), seed=0)

    async def run(self) -> None:
        """Simulate the nodes of added zones until cancelled. What an earlier process added is kept."""
        page = await self._client.list(Node, label_selector=f"lab.trimtab.dev/cluster={_SHAPE}")
        for node in page.items:
            zone = node.metadata.labels.get(ZONE, "")
            self._zones[zone] = self._zones.get(zone, 0) + 1
        await self._nodes.reshape(self._shape())
        await self._nodes.run()

    @asynccontextmanager
    async def served(self, port: int) -> AsyncIterator[int]:
        """Serve until the block ends, beside `run`; yields the port."""
        application = web.Application(client_max_size=4096)
        application.router.add_post("/add-zone", self._handler(AddZone, self.add_zone))
        application.router.add_post("/fail-zone", self._handler(ChosenZone, self.fail_zone))
        application.router.add_post("/recover-zone", self._handler(ChosenZone, self.recover_zone))
        application.router.add_post("/scale", self._handler(ScaleTo, self.scale))
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, _HOST, port).start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def add_zone(self, asked: AddZone) -> str:
        """Add nodes in a zone; to one that was added before, further nodes."""
        if not 1 <= asked.nodes <= _MOST_NODES:
            raise InvalidError("nodes", f"{asked.nodes} is not a number from 1 to {_MOST_NODES}")
        if asked.zone not in self._zones and len(self._zones) >= _MOST_ZONES:
            raise InvalidError("zone", f"there are {_MOST_ZONES} added zones already")
        taken = {node.metadata.labels.get(ZONE) for node in (await self._client.list(Node)).items}
        if asked.zone in taken - self._zones.keys():
            raise InvalidError("zone", f"{asked.zone} exists already; choose another name")
        before = dict(self._zones)
        self._zones[asked.zone] = self._zones.get(asked.zone, 0) + asked.nodes
        try:
            await self._nodes.reshape(self._shape())
        except InvalidError:
            self._zones = before
            raise
        return f"added {asked.nodes} nodes in {asked.zone}: kubectl get nodes -l {ZONE}={asked.zone}"

    async def fail_zone(self, asked: ChosenZone) -> str:
        """Let all nodes of a zone fail."""
        names = await self._names(asked.zone)
        await operations.fail(self._client, names)
        return f"{len(names)} nodes of {asked.zone} send no heartbeats any more: kubectl get nodes"

    async def recover_zone(self, asked: ChosenZone) -> str:
        """Let all nodes of a zone recover."""
        names = await self._names(asked.zone)
        await operations.recover(self._client, names)
        return f"{len(names)} nodes of {asked.zone} recover: kubectl get nodes"

    async def scale(self, asked: ScaleTo) -> str:
        """Scale a workload, as `kubectl scale` does."""
        namespace, kind, name = (*asked.workload.split("/"), "", "", "")[:3]
        model = _KINDS.get(kind)
        if model is None or not name:
            raise InvalidError("workload", f'"{asked.workload}" is not namespace/Kind/name')
        if not 0 <= asked.replicas <= _MOST_REPLICAS:
            raise InvalidError("replicas", f"{asked.replicas} is not a number from 0 to {_MOST_REPLICAS}")
        warnings: list[str] = []
        client = self._client.using(on_warning=warnings.append)
        await client.resize(model, name, asked.replicas, namespace=namespace)
        said = [f"kubectl scale -n {namespace} {kind.lower()}/{name} --replicas={asked.replicas}"]
        return "\n".join(said + [f"Warning: {each}" for each in warnings])

    def _shape(self) -> shapes.Shape:
        zones = [{"name": name, "nodes": count} for name, count in self._zones.items()]
        return shapes.read({"name": _SHAPE, "zones": zones})

    async def _names(self, zone: str) -> list[str]:
        found = [node.metadata.name for node in (await self._client.list(Node)).items if _zone_of(node) == zone]
        if not found:
            raise InvalidError("zone", f'there is no zone "{zone}"')
        return found

    def _handler(
        self, kind: type[Any], act: Callable[[Any], Awaitable[str]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            given = request.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, self._secret):
                return _answer(401, error="only the lab's dashboard may ask")
            try:
                return _answer(200, said=await act(codec.decode(await request.read(), kind)))
            except InvalidError as error:
                return _answer(400, error=str(error))
            except ApiError as error:
                return _answer(409, error=str(error))

        return handle


def _zone_of(node: Node) -> str:
    return node.metadata.labels.get(ZONE, "")


def _answer(status: int, **tree: str) -> web.Response:
    return web.Response(status=status, body=codec.encode(tree), content_type="application/json")
