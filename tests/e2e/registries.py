"""A registry of images on loopback, to which podman pushes: the part of the OCI distribution API that a push calls.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md. Blobs are checked against their digest, and a
manifest is stored when everything that it names is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from aiohttp import web

from trimtab.api.documents import JSON
from trimtab_lab.supervisor import find_free_port


@dataclass(slots=True)
class Registry:
    """The images that were pushed."""

    folder: Path
    port: int = field(default_factory=find_free_port)
    manifests: dict[str, JSON] = field(default_factory=dict)
    """By name and tag."""

    @property
    def host(self) -> str:
        """The registry in the name of an image."""
        return f"127.0.0.1:{self.port}"

    def blob(self, digest: str) -> Path:
        """Where a blob is kept."""
        return self.folder / digest.replace(":", "-")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        name, _, reference = request.path.removeprefix("/v2/").rpartition("/")
        if "/manifests" in name:
            return await self._manifest(request, name.removesuffix("/manifests"), reference)
        if request.method == "POST":
            return _accepted(202, f"{request.path}{uuid4()}")
        if "/uploads" in name:
            return await self._upload(request, self.folder / reference)
        is_there = request.path == "/v2/" or self.blob(reference).is_file()
        return web.Response(status=200 if is_there else 404)

    async def _upload(self, request: web.Request, part: Path) -> web.Response:
        """Store what is sent; with the digest the blob is complete."""
        with part.open("ab") as file:
            async for chunk in request.content.iter_any():
                file.write(chunk)
        if request.method == "PATCH":
            return _accepted(202, request.path, Range=f"0-{part.stat().st_size - 1}")
        if f"sha256:{hashlib.sha256(part.read_bytes()).hexdigest()}" != request.query["digest"]:
            return web.Response(status=400)
        part.rename(self.blob(request.query["digest"]))
        return _accepted(201, request.path)

    async def _manifest(self, request: web.Request, name: str, tag: str) -> web.Response:
        if request.method != "PUT":
            return web.Response(status=200 if f"{name}:{tag}" in self.manifests else 404)
        body = await request.read()
        manifest = json.loads(body)
        if not all(self.blob(each["digest"]).is_file() for each in (manifest["config"], *manifest["layers"])):
            return web.Response(status=400)
        self.manifests[f"{name}:{tag}"] = manifest
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        return _accepted(201, request.path, **{"Docker-Content-Digest": digest})


def _accepted(status: int, location: str, **headers: str) -> web.Response:
    return web.Response(status=status, headers={"Location": location, **headers})


@asynccontextmanager
async def registry(folder: Path) -> AsyncIterator[Registry]:
    """Serve a registry, which keeps its blobs in a folder."""
    made = Registry(folder)
    application = web.Application()
    application.router.add_route("*", "/v2/{path:.*}", made.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", made.port).start()
        yield made
    finally:
        await runner.cleanup()
