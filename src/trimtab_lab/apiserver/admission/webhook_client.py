"""The HTTPS client that calls webhooks.

Each webhook has a URL and the authority that signed its certificate; without one, the authorities of the machine are
trusted. A webhook may name a Service instead of a URL. The lab has no service network, so a Service cannot be reached
unless `resolver` returns its address.
"""

from __future__ import annotations

import base64
import binascii
import errno
import ssl
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Self

import aiohttp

from trimtab_lab.apiserver.admission.admission_reviews import CallError
from trimtab_lab.apiserver.storage.store import Tree

Resolver = Callable[[str, str, int], tuple[str, int] | None]
"""Given the namespace, the name and the port of a Service: the host and the port to connect to."""

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*", "User-Agent": "trimtab-lab"}
_LARGEST = 8 * 1024 * 1024


class WebhookClient:
    """Posts reviews over kept-alive connections. A context manager, or to be closed."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __call__(self, config: Tree, body: bytes, timeout: float) -> bytes:
        """Post a review to the webhook with this `clientConfig`. Raises CallError."""
        url, server_name = self._address(config)
        target = f"{url}?timeout={timeout:g}s"
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.post(
                target,
                data=body,
                ssl=_context(config.get("caBundle") or ""),
                server_hostname=server_name,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
            ) as response:
                data = await response.content.read(_LARGEST)
                status = response.status
        except TimeoutError:
            raise CallError(f'Post "{target}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(f'Post "{target}": {_reason(error)}') from error
        _check_status(status, data)
        return data

    def _address(self, config: Tree) -> tuple[str, str | None]:
        """The URL of a webhook, and the host name of its certificate if that is not the one in the URL."""
        if config.get("url"):
            return str(config["url"]), None
        service = config.get("service") or {}
        name, namespace, port = service.get("name", ""), service.get("namespace", ""), service.get("port", 443)
        found = self._resolver(namespace, name, port) if self._resolver is not None else None
        if found is None:
            raise CallError(
                f"the lab has no service network and cannot reach {name}.{namespace}.svc:{port}; "
                "give the webhook a clientConfig.url"
            )
        host, real_port = found
        path = service.get("path", "")
        return f"https://{host}:{real_port}/{path.removeprefix('/')}", f"{name}.{namespace}.svc"


def _check_status(status: int, data: bytes) -> None:
    """Raise CallError for a status other than 2xx, with the message of Kubernetes' client."""
    if 200 <= status < 300:
        return
    if status == 404:
        raise CallError("the server could not find the requested resource")
    shown = data[:2048].decode(errors="replace").strip()
    if status >= 500:
        raise CallError(f'an error on the server ("{shown}") has prevented the request from succeeding')
    raise CallError(f"the server responded with the status code {status} but did not return more information")


def _reason(error: Exception) -> str:
    """Why there was no response, in the words of Go's client."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {_verification_message(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        address = f"{error.host}:{error.port}"
        if error.errno == errno.ECONNREFUSED or isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {address}: connect: connection refused"
        return f"dial tcp {address}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionResetError)):
        return "EOF"
    return str(error) or type(error).__name__


# OpenSSL's verification codes, and Go's messages.
_VERIFICATION_MESSAGES = {
    10: "x509: certificate has expired or is not yet valid",
    18: "x509: certificate signed by unknown authority",
    19: "x509: certificate signed by unknown authority",
    20: "x509: certificate signed by unknown authority",
}


def _verification_message(error: Exception) -> str:
    return _VERIFICATION_MESSAGES.get(getattr(error, "verify_code", 0), f"x509: {error}")


@lru_cache(maxsize=64)
def _context(bundle: str) -> ssl.SSLContext:
    """A TLS context that trusts a `caBundle` or, without one, the authorities of the machine. Raises CallError."""
    if not bundle:
        return ssl.create_default_context()
    try:
        authorities = base64.b64decode(bundle, validate=True).decode("ascii")
        return ssl.create_default_context(cadata=authorities)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError) as error:
        raise CallError(f"unable to load root certificates: {error}") from None
