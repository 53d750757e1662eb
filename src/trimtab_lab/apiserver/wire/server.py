"""The server: HTTPS on loopback, one handler for all paths.

It uses aiohttp's low-level handler, without routes and middlewares: a dictionary decides what a path means (`paths`),
and the steps of a request stand here in their order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11

from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.admission.webhook_client import Resolver, WebhookClient
from trimtab_lab.apiserver.controllers import bootstrap
from trimtab_lab.apiserver.controllers.definitions import DefinitionController
from trimtab_lab.apiserver.controllers.garbage_collector import GarbageCollector
from trimtab_lab.apiserver.controllers.namespaces import NamespaceController
from trimtab_lab.apiserver.kinds.errors import (
    StatusError,
    bad_request,
    method_not_allowed,
    path_not_found,
    status_error,
    unauthorized,
)
from trimtab_lab.apiserver.kinds.serialization import decoding
from trimtab_lab.apiserver.storage.broadcaster import BOOKMARK_INTERVAL
from trimtab_lab.apiserver.storage.store import HISTORY, Tree, encode
from trimtab_lab.apiserver.verbs import access_reviews
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.encoding import StreamedBody
from trimtab_lab.apiserver.verbs.negotiation import JSON
from trimtab_lab.apiserver.verbs.options import check_timeout, flag, read_query
from trimtab_lab.apiserver.verbs.requests import Request, Response
from trimtab_lab.apiserver.verbs.watches import Watch
from trimtab_lab.apiserver.wire import discovery, openapi, routes
from trimtab_lab.apiserver.wire.authentication import Authenticator
from trimtab_lab.apiserver.wire.certificates import Identity
from trimtab_lab.apiserver.wire.faults import NO_FAULT, Faults, Injection
from trimtab_lab.apiserver.wire.openapi import OpenAPIDocuments
from trimtab_lab.apiserver.wire.paths import PathParser, split_version

_log = logging.getLogger(__name__)

HEALTH = ("/healthz", "/livez", "/readyz")
_NO_CACHE = "no-cache, private"
_SHUTDOWN = 0.5
_CLOSE_ITERATIONS = 3
_SETTLE_INTERVAL = 0.002


class Server:
    """An API server in this process: a context manager, or to be started and stopped.

    `folder` keeps the certificates and the kubeconfig; `tokens` are accepted besides client certificates. `history` is
    the number of events that each collection keeps, and `resolver` finds the Services that webhooks name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: Mapping[str, User] | None = None,
        clock: Callable[[], int] = time.time_ns,
        history: int = HISTORY,
        bookmark_interval: float = BOOKMARK_INTERVAL,
        resolver: Resolver | None = None,
        seed: int | None = None,
    ) -> None:
        self.identity = Identity(folder)
        self.faults = Faults()
        self._webhook_client = WebhookClient(resolver)
        self.cluster = Cluster(
            clock=clock, call=self._webhook_client, history=history, bookmark_interval=bookmark_interval, seed=seed
        )
        self.authenticator = Authenticator(tokens, self.cluster.tokens.user)
        authority = self.identity.authority.decode()
        self._controllers = (
            GarbageCollector(self.cluster),
            NamespaceController(self.cluster, authority),
            DefinitionController(self.cluster),
        )
        self._paths = PathParser(self.cluster.registry)
        self._documents = OpenAPIDocuments(self.cluster.registry)
        self._address = host, port
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        host, port = self._address
        return f"https://{host}:{port}"

    @property
    def kubeconfig(self) -> Path:
        """The path of the kubeconfig, which is written when the server starts."""
        return self.identity.folder / "kubeconfig"

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Create the first objects, listen, and write the kubeconfig."""
        await bootstrap.create_default_objects(self.cluster)
        await self.settled()
        server = web.Server(self._handle, request_factory=_request, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN)
        await self._runner.setup()
        host, port = self._address
        site = web.TCPSite(self._runner, host, port, ssl_context=self.identity.ssl_context(), backlog=1024)
        await site.start()
        self._address = host, int(self._runner.addresses[0][1])
        self.identity.write_kubeconfig(self.kubeconfig, self.url)

    async def stop(self) -> None:
        """End all watches, stop the controllers, close all connections."""
        self.cluster.broadcaster.close()
        for controller in self._controllers:
            await controller.close()
        if self._runner is not None:
            await _end(self._runner)
            self._runner = None
        await self._webhook_client.close()

    async def settled(self) -> None:
        """Wait until the controllers have nothing left to do."""
        while not all(controller.idle for controller in self._controllers):
            await asyncio.sleep(_SETTLE_INTERVAL)

    # --- a request, from top to bottom -------------------------------------------------------------------------------

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        path, _, query = http.raw_path.partition("?")
        warnings: list[str] = []
        try:
            return await self._authenticate(http, path, query, warnings)
        except StatusError as error:
            return _error_response(error, warnings)
        except web.HTTPRequestEntityTooLarge:
            return _error_response(decoding.too_large(), warnings)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 – no request may end the server
            _log.exception("%s %s", http.method, path)
            return _error_response(status_error(500, "Internal error occurred", reason="InternalError"), warnings)

    async def _authenticate(
        self, http: web.BaseRequest, path: str, query: str, warnings: list[str]
    ) -> web.StreamResponse:
        headers, transport = http.headers, http.transport
        certificate: Mapping[str, Any] | None = transport.get_extra_info("peercert") if transport else None
        user = self.authenticator.user(headers.get(hdrs.AUTHORIZATION), certificate)
        if user is None:
            if path in HEALTH and http.method == "GET":
                return _text("ok")
            raise unauthorized()
        parameters = read_query(query)
        if not flag(parameters, "watch"):
            check_timeout(parameters)
        target = self._paths.find(path)
        if target is None:
            return await self._serve_document(http, path, user)
        request = Request(
            target,
            parameters,
            user,
            content_type=headers.get(hdrs.CONTENT_TYPE, ""),
            accept=headers.get(hdrs.ACCEPT, JSON),
            warnings=warnings,
        )
        if target.kind.custom is not None and target.kind.custom.deprecation:
            warnings.append(target.kind.custom.deprecation)
        return await self._serve(http, path, request)

    async def _serve(self, http: web.BaseRequest, path: str, request: Request) -> web.StreamResponse:
        method = http.method
        watch = method == "GET" and routes.is_watch(request)
        injection = NO_FAULT
        if self.faults:
            injection = await self._inject_fault(method, path, watch=watch)
        if watch:
            return await self._watch(http, request, injection)
        if method == "GET":
            response = routes.read(request)(self.cluster, request)
        else:
            handler = routes.write(method, request)
            request.body = await http.read()
            response = await handler(self.cluster, request)
        if isinstance(response.body, StreamedBody):
            return await _send(http, response, response.body, request.warnings)
        return _http_response(response, request.warnings)

    async def _inject_fault(self, method: str, path: str, *, watch: bool) -> Injection:
        injection = self.faults.inject(method, path, watch=watch)
        if injection.delay:
            await asyncio.sleep(injection.delay)
        if injection.error is not None:
            raise injection.error
        return injection

    async def _watch(self, http: web.BaseRequest, request: Request, injection: Injection) -> web.StreamResponse:
        if http.version < HttpVersion11:
            raise bad_request("a watch needs HTTP/1.1")
        watch = Watch(self.cluster, request)
        transport = http.transport
        if transport is None:
            raise ConnectionResetError
        response = web.StreamResponse(headers=_headers(JSON))
        _add_warnings(response, request.warnings)
        response.enable_chunked_encoding()
        await response.prepare(http)
        await watch.run(response.write, transport, injection.cut_after)
        return response

    # --- paths that are not objects ----------------------------------------------------------------------------------

    async def _serve_document(self, http: web.BaseRequest, path: str, user: User) -> web.StreamResponse:
        if http.method == "POST":
            body, content_type = await http.read(), http.headers.get(hdrs.CONTENT_TYPE, "")
            review = access_reviews.respond(path, body, content_type, user, self.cluster.now())
            if review is not None:
                return _json(access_reviews.shape(review, http.headers.get(hdrs.ACCEPT, JSON)), 201)
        found = self._document(path, http.headers.get(hdrs.ACCEPT, ""))
        if found is None:
            raise path_not_found()
        if http.method != "GET":
            raise method_not_allowed()
        return found

    def _document(self, path: str, accept: str) -> web.StreamResponse | None:
        plain = path.rstrip("/") or "/"
        if plain in HEALTH or plain.startswith(tuple(f"{name}/" for name in HEALTH)):
            return _text("ok")
        if plain.startswith("/openapi"):
            return self._openapi(plain, accept)
        if plain in ("/api", "/apis"):
            return self._discovery(plain, accept)
        tree = self._tree(plain)
        return None if tree is None else _json(tree)

    def _tree(self, path: str) -> Tree | None:
        registry = self.cluster.registry
        if path == "/version":
            return discovery.version()
        if path == "/":
            served = {kind.path for kind in registry}
            return {"paths": sorted(["/api", "/apis", "/version", "/openapi/v2", "/openapi/v3", *HEALTH, *served])}
        api_version, rest = split_version(path)
        if api_version and not rest:
            return discovery.resources(registry, api_version)
        if path.startswith("/apis/"):
            return discovery.group(registry, path.removeprefix("/apis/"))
        return None

    def _discovery(self, path: str, accept: str) -> web.StreamResponse:
        version = discovery.aggregated_version(accept)
        core = path == "/api"
        if version:
            tree = discovery.aggregated(self.cluster.registry, version, core=core)
            media_type = f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            return _http_response(Response(200, encode(tree), media_type), [])
        host, port = self._address
        return _json(discovery.core_versions(f"{host}:{port}") if core else discovery.groups(self.cluster.registry))

    def _openapi(self, path: str, accept: str) -> web.StreamResponse | None:
        if path == "/openapi/v2":
            if accept.startswith(openapi.PROTOBUF):
                return _http_response(Response(200, openapi.EMPTY, openapi.PROTOBUF.replace("@", ".")), [])
            if accept and JSON not in accept and "*/*" not in accept:
                raise status_error(406, f"only the following media types are accepted: {JSON}")
            return _http_response(Response(200, self._documents.v2()), [])
        if path == "/openapi/v3":
            return _http_response(Response(200, self._documents.index()), [])
        api_version, rest = split_version(path.removeprefix("/openapi/v3"))
        document = self._documents.v3(api_version) if api_version and not rest else None
        return None if document is None else _http_response(Response(200, document), [])


async def _end(runner: web.ServerRunner) -> None:
    """Stop listening; connections that the client does not close are aborted."""
    transports = [connection.transport for connection in runner.server.connections] if runner.server else []
    await runner.cleanup()
    for transport in transports:
        if transport is not None:
            transport.abort()
    for _ in range(_CLOSE_ITERATIONS):
        await asyncio.sleep(0)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=decoding.MAX_BODY_SIZE)


def _headers(media_type: str) -> dict[str, str]:
    return {"Content-Type": media_type, "Cache-Control": _NO_CACHE}


def _add_warnings(response: web.StreamResponse, warnings: list[str]) -> None:
    for warning in dict.fromkeys(warnings):
        response.headers.add("Warning", f'299 - "{_escape_warning(warning)}"')


def _escape_warning(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def _http_response(response: Response, warnings: list[str]) -> web.Response:
    sent = web.Response(body=response.body, status=response.status, headers=_headers(response.media_type))
    _add_warnings(sent, warnings)
    return sent


async def _send(
    http: web.BaseRequest, response: Response, body: StreamedBody, warnings: list[str]
) -> web.StreamResponse:
    """Send a body in pieces: the client reads one while the next is encrypted."""
    stream = web.StreamResponse(status=response.status, headers=_headers(response.media_type))
    _add_warnings(stream, warnings)
    stream.content_length = body.length
    await stream.prepare(http)
    for piece in body.pieces:
        await stream.write(piece)
    return stream


def _json(tree: Tree, status: int = 200) -> web.Response:
    return _http_response(Response(status, encode(tree)), [])


def _text(text: str) -> web.Response:
    return _http_response(Response(200, text.encode(), "text/plain; charset=utf-8"), [])


def _error_response(error: StatusError, warnings: list[str]) -> web.Response:
    response = _http_response(Response(error.code, encode(error.status)), warnings)
    if error.retry_after:
        response.headers["Retry-After"] = str(error.retry_after)
    return response
