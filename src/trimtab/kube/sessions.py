"""The transport on aiohttp: requests with credentials over TLS, and aiohttp's errors translated into ours.

Compression is not requested: inside a cluster, compressing a list costs the server more time than it saves. Redirects
are not followed, because they would send the token elsewhere. aiohttp's own retry of PUT and DELETE on a broken
keep-alive connection is disabled: only `retries` decides about retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

import trimtab
from trimtab.kube.credentials import Grant
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.errors import CredentialsError, Timeout, Unreachable, Untrusted
from trimtab.kube.tls import Contexts
from trimtab.kube.transport import Request, Response

_CONNECT_TIMEOUT = 10.0
_MAX_CONCURRENT = 64
"""The limit of concurrent requests; each uses a connection. Streams, which last minutes, do not count."""
_CHUNK = 1 << 18
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class Session:
    """A `Transport` to one API server. Use it with `async with`, or call `close`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._contexts = Contexts(endpoint.trust)
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._streams: weakref.WeakSet[AiohttpStream] = weakref.WeakSet()
        self._closed = False

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, request: Request) -> Response:
        """Send a request. A 401 is retried once if renewed credentials differ."""
        async with contextlib.nullcontext() if request.urgent else self._slots:
            response, grant = await self._exchange(request)
            if response.status == 401 and await self.endpoint.credentials.renew(grant):
                response, _ = await self._exchange(request)
            return response

    async def stream(self, request: Request) -> AiohttpStream:
        """Open a streaming response."""
        stream, grant = await self._open(request)
        if stream.status == 401 and await self.endpoint.credentials.renew(grant):
            await stream.close()
            stream, _ = await self._open(request)
        return stream

    async def close(self) -> None:
        """Close all connections. Readers of open streams, and later calls, get Unreachable."""
        self._closed = True
        for stream in list(self._streams):
            await stream.close()
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, request: Request) -> tuple[Response, Grant]:
        grant = await self.endpoint.credentials.grant()
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=_CONNECT_TIMEOUT)
        with _translated(request.call):
            async with self._connections().request(**self._arguments(request, grant), timeout=timeout) as response:
                body = await response.read()
        return Response(
            response.status, response.headers, body, tuple(_warnings(response.headers.getall("Warning", [])))
        ), grant

    async def _open(self, request: Request) -> tuple[AiohttpStream, Grant]:
        grant = await self.endpoint.credentials.grant()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=request.timeout)
        with _translated(request.call):
            response = await self._connections().request(**self._arguments(request, grant), timeout=timeout)
        stream = AiohttpStream(response, request.call)
        self._streams.add(stream)
        return stream, grant

    def _arguments(self, request: Request, grant: Grant) -> dict[str, Any]:
        query = urlencode(request.params, quote_via=quote)
        url = f"{self.endpoint.base}{request.path}{f'?{query}' if query else ''}"
        trust = self.endpoint.trust
        return {
            "method": request.method,
            "url": url,
            "data": request.body,
            "headers": self._headers(request, grant),
            "ssl": self._contexts.context(grant) if self.endpoint.is_encrypted else True,
            "server_hostname": (trust.server_name or None) if self.endpoint.is_encrypted else None,
            "proxy": self.endpoint.proxy or None,
            "allow_redirects": False,
        }

    def _headers(self, request: Request, grant: Grant) -> list[tuple[str, str]]:
        headers = [("Accept", "application/json"), ("Accept-Encoding", "identity")]
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        if grant.token:
            if not self.endpoint.can_send_credentials:
                raise CredentialsError("the token is not sent without TLS; use an https:// address of the server")
            headers.append(("Authorization", f"Bearer {_checked(grant.token)}"))
        for name, values in self.endpoint.impersonate.items():
            headers.extend((name, value) for value in values)
        return headers

    def _connections(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable("the session is closed", sent=False)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers={"User-Agent": f"trimtab/{trimtab.__version__}"},
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_CHUNK,
            )
            self._session._retry_connection = False  # noqa: SLF001 - see the module docstring; there is no public API
        return self._session


class AiohttpStream:
    """A streaming response."""

    def __init__(self, response: aiohttp.ClientResponse, call: str) -> None:
        self._response = response
        self._call = call

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers."""
        return self._response.headers

    async def read(self) -> bytes:
        """The data received since the last call."""
        with _translated(self._call):
            return await self._response.content.readany()

    async def close(self) -> None:
        """Close the connection; it is not reused, because more data may arrive on it.

        aiohttp would let a concurrent reader wait forever, so an exception is set first. The connection is aborted
        instead of closed: nothing awaits the TLS shutdown, and a process that exits would leave it half closed.
        """
        self._response.content.set_exception(aiohttp.ClientConnectionError("the stream was closed"))
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


@contextlib.contextmanager
def _translated(call: str) -> Iterator[None]:
    """Translate aiohttp's errors. None of them contains headers, so none contains credentials."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise Untrusted(f"TLS: {_tls_reason(error)}", call=call) from error
    except aiohttp.ClientHttpProxyError as error:
        raise Unreachable(
            f"the proxy refused the connection: {error.status} {error.message}", sent=False, call=call
        ) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(_reason(error), sent=False, call=call) from error
    except TimeoutError as error:
        raise Timeout("no response in time", call=call) from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(_reason(error), call=call) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__


def _tls_reason(error: aiohttp.ClientError) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {cause.verify_message}"
    return str(cause or error)


def _checked(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError(
            "the token contains characters that are not allowed in a token; check its file for spaces and line breaks"
        )
    return token


def _warnings(values: list[str]) -> Iterator[str]:
    """The messages of `Warning: 299 - "…"` headers."""
    for value in values:
        for match in _WARNING.finditer(value):
            yield re.sub(r"\\(.)", r"\1", match.group(1))
