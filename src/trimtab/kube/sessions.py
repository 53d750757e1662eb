"""The one place that knows aiohttp: requests with credentials over TLS, and its errors translated into ours.

Compression is not asked for: inside a cluster, packing a list costs the server more time than it saves on the way.
Redirects are not followed, for they would carry the token elsewhere. aiohttp would on its own accord send PUT and
DELETE again when a kept-alive connection turns out dead; that is switched off, because only `retries` decides about
trying again.
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
_AT_ONCE = 64
"""Requests under way at one time; each is a connection. Streams do not count: they stay for minutes."""
_CHUNK = 1 << 18
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class Session:
    """A `Transport` to one API server. Use it with `async with`, or close it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._contexts = Contexts(endpoint.trust)
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._streams: weakref.WeakSet[AiohttpStream] = weakref.WeakSet()
        self._closed = False

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, request: Request) -> Response:
        """One request, one answer. A 401 is answered with other credentials once, if there are any."""
        async with contextlib.nullcontext() if request.urgent else self._slots:
            response, grant = await self._exchange(request)
            if response.status == 401 and await self.endpoint.credentials.renew(grant):
                response, _ = await self._exchange(request)
            return response

    async def stream(self, request: Request) -> AiohttpStream:
        """One request whose answer keeps coming."""
        stream, grant = await self._open(request)
        if stream.status == 401 and await self.endpoint.credentials.renew(grant):
            await stream.close()
            stream, _ = await self._open(request)
        return stream

    async def close(self) -> None:
        """Close all connections. Whoever still reads a stream, or asks for something, is told."""
        self._closed = True
        for stream in list(self._streams):
            await stream.close()
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, request: Request) -> tuple[Response, Grant]:
        grant = await self.endpoint.credentials.grant()
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=_CONNECT_TIMEOUT)
        with _translated(request.call):
            async with self._connections().request(**self._arguments(request, grant), timeout=timeout) as answer:
                body = await answer.read()
        return Response(
            answer.status, answer.headers, body, tuple(_warnings(answer.headers.getall("Warning", [])))
        ), grant

    async def _open(self, request: Request) -> tuple[AiohttpStream, Grant]:
        grant = await self.endpoint.credentials.grant()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=request.timeout)
        with _translated(request.call):
            answer = await self._connections().request(**self._arguments(request, grant), timeout=timeout)
        stream = AiohttpStream(answer, request.call)
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
                raise CredentialsError("a token is not sent in the clear; use https")
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
            self._session._retry_connection = False  # noqa: SLF001 - see the head of this file; there is no public way
        return self._session


class AiohttpStream:
    """An answer that keeps coming."""

    def __init__(self, answer: aiohttp.ClientResponse, call: str) -> None:
        self._answer = answer
        self._call = call

    @property
    def status(self) -> int:
        """The HTTP code."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer."""
        return self._answer.headers

    async def read(self) -> bytes:
        """What has come."""
        with _translated(self._call):
            return await self._answer.content.readany()

    async def close(self) -> None:
        """Let go of the connection. It is closed, not kept: there may be more to come on it.

        aiohttp would let whoever is reading wait for ever, so the reader is told first. And it would take leave of the
        server as TLS has it, for which nobody waits: a process that ends would leave the connection half closed.
        """
        self._answer.content.set_exception(aiohttp.ClientConnectionError("the stream was closed"))
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._answer.close()


@contextlib.contextmanager
def _translated(call: str) -> Iterator[None]:
    """aiohttp's errors as ours. None of them holds a header, so none of them holds a credential."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise Untrusted(f"TLS: {_tls_reason(error)}", call=call) from error
    except aiohttp.ClientHttpProxyError as error:
        raise Unreachable(f"the proxy refuses: {error.status} {error.message}", sent=False, call=call) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(_reason(error), sent=False, call=call) from error
    except TimeoutError as error:
        raise Timeout("no answer in time", call=call) from error
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
        raise CredentialsError("the token holds characters that no token can have")
    return token


def _warnings(values: list[str]) -> Iterator[str]:
    """The texts of `Warning: 299 - "…"` headers."""
    for value in values:
        for match in _WARNING.finditer(value):
            yield re.sub(r"\\(.)", r"\1", match.group(1))
