"""A call to our own webhook as API servers make it: whether they can call this replica is part of its readiness.

    connect to our own listening address  →  TLS, verified as an API server does  →  POST /ping: a review  →  its answer

An API server verifies the name in the webhook configuration's `clientConfig` (SAN only) with the CA bundle there, so
`Registrations` reads both. The address is our own: the Service and its DNS name lead to any replica, and only to ready
ones. Dates are checked by the API server's clock instead of ours (the serving certificate's in `certificates`).

An API server that cannot be reached says nothing about us: the last known configurations count, and before they were
read, or where there are none, our own name and CA.

Where callers have to present a client certificate, only the API server has one: then our server ends the connection
once we have verified its certificate, and that counts as serving.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from trimtab.admission.certificate_authority import is_current
from trimtab.admission.certificates import CONFIGURATIONS
from trimtab.api import codec
from trimtab.api.admission import AdmissionReview
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, within
from trimtab.kube.errors import KubeError, NotFound
from trimtab.kube.server_time import ServerTime

PATH = "/ping"
"""The path of reviews that are admitted at once, and not counted."""
INTERVAL = 30.0
_RETRY_INTERVAL = 2.0
"""Seconds between calls after a failure."""
_TIMEOUT = 5.0
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which `ssl` has no name for."""
_PENDING = "our own webhook has not been called yet"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """What an API server verifies: the name that it calls, and the CA certificates (PEM) that it trusts."""

    server_name: str
    ca_bundle: bytes


class Registrations:
    """How API servers call us, according to the webhook configurations of one name.

    `managed` is whether Trimtab writes their CA bundle. If an administrator leaves it empty, API servers trust the
    roots of their own machines, which we do not know; then any signer counts as trusted.
    """

    def __init__(self, client: Client, name: str, *, own: Callable[[], Target], managed: bool) -> None:
        self._client = client
        self._name = name
        self._own = own
        self._managed = managed
        self._configurations: list[JSON] = []
        self._error = ""

    async def targets(self) -> Sequence[Target]:
        """All different targets; our own name and CA if there is no webhook configuration."""
        try:
            self._configurations = await within(self._client.clock, _TIMEOUT, self._read())
            self._error = ""
        except (KubeError, TimeoutError) as error:
            if str(error) != self._error:
                log.warning("the webhook configurations %s cannot be read: %s", self._name, error)
            self._error = str(error)
        hooks = [hook for each in self._configurations for hook in each.get("webhooks") or ()]
        return tuple(dict.fromkeys(self._target(hook.get("clientConfig") or {}) for hook in hooks)) or (self._own(),)

    async def _read(self) -> list[JSON]:
        configurations = []
        for resource in CONFIGURATIONS.values():
            with contextlib.suppress(NotFound):
                configurations.append(await self._client.get(resource, self._name))
        return configurations

    def _target(self, client_config: JSON) -> Target:
        own = self._own()
        service = client_config.get("service")
        name = f"{service['name']}.{service['namespace']}.svc" if service else _host(client_config.get("url", ""))
        return Target(name or own.server_name, _decoded(client_config) or (b"" if self._managed else own.ca_bundle))


class SelfCheck:
    """Calls our own webhook until cancelled, and keeps the problem that was found last."""

    def __init__(
        self,
        targets: Callable[[], Awaitable[Sequence[Target]]],
        *,
        server_time: ServerTime,
        clock: Clock,
        needs_client_certificate: bool = False,
        interval: float = INTERVAL,
    ) -> None:
        self._targets = targets
        self._server_time = server_time
        self._clock = clock
        self._needs_client_certificate = needs_client_certificate
        self._interval = interval
        self._problem = _PENDING

    @property
    def problems(self) -> list[str]:
        """Why API servers cannot call us."""
        return [self._problem] if self._problem else []

    async def run(self, host: str, port: int) -> None:
        """Call the server that listens at this address at once, then regularly."""
        while True:
            self._record(await self.check(host, port))
            await self._clock.sleep(min(self._interval, _RETRY_INTERVAL) if self._problem else self._interval)

    def _record(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("not ready: %s", problem)
        elif self._problem and not problem:
            log.info("our own webhook answers as API servers need it")
        self._problem = problem

    async def check(self, host: str, port: int) -> str:
        """Call the webhook once for each target; the first problem, empty if there is none."""
        for target in await self._targets():
            problem = await self._call(target, host, port)
            if problem:
                return f"API servers cannot call the webhooks as {target.server_name}: {problem}"
        return ""

    async def _call(self, target: Target, host: str, port: int) -> str:
        now = datetime.fromtimestamp(self._server_time.now() / SECOND, UTC)
        try:
            context = _context(target.ca_bundle, now)
        except ValueError as error:  # ssl.SSLError is an OSError
            return f"{error}; check caBundle in the webhook configurations"
        try:
            return await within(self._clock, _TIMEOUT, self._exchange(context, target.server_name, host, port))
        except TimeoutError:
            return f"no answer from {host}:{port} within {_TIMEOUT:g} s; check the CPU limit of this process"
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message.rstrip(".")
            return (
                f"the certificate is not trusted: {reason}; check its names, and caBundle in the webhook configurations"
            )
        except OSError as error:
            if self._needs_client_certificate and _is_refusal(error):
                return ""
            return f"the call to {host}:{port} failed: {str(error) or type(error).__name__}"

    async def _exchange(self, context: ssl.SSLContext, name: str, host: str, port: int) -> str:
        reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
        try:
            uid = str(uuid4())
            writer.write(_request(name, uid))
            answer = await reader.read()
        finally:
            writer.transport.abort()
        if not answer:
            raise ConnectionResetError("the connection was closed without an answer")
        return _answer_problem(answer, uid)


def own_address(host: str, port: int) -> tuple[str, int]:
    """The address at which this machine reaches a server that listens there."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 - compared, not listened on


def _context(ca_bundle: bytes, now: datetime) -> ssl.SSLContext:
    """TLS as Go verifies it: any certificate of the bundle is a root, names are in the SAN; dates by the given time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    context.hostname_checks_common_name = False
    context.load_verify_locations(cadata=b"".join(_roots(ca_bundle, now)))
    return context


def _roots(ca_bundle: bytes, now: datetime) -> Iterator[bytes]:
    """The CA certificates that are valid now (DER). Raises ValueError if there is none."""
    if not ca_bundle:
        raise ValueError("the CA bundle is empty")
    known = x509.load_pem_x509_certificates(ca_bundle)
    current = [each for each in known if is_current(each, now)]
    if not current:
        raise ValueError("no certificate of the CA bundle is valid by the API server's clock")
    return (each.public_bytes(Encoding.DER) for each in current)


def _is_refusal(error: OSError) -> bool:
    """Whether the server ended the connection. A certificate of its own that is not trusted ends it on our side."""
    return isinstance(error, ConnectionResetError) or (
        isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")
    )


def _request(name: str, uid: str) -> bytes:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": uid}}
    body = codec.encode(review)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {name}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _answer_problem(answer: bytes, uid: str) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode(errors="replace")
    if status.split()[1:2] != ["200"]:
        return f"the answer was {status!r}"
    try:
        response = codec.decode(body, AdmissionReview).response
    except InvalidError as error:
        return f"the answer cannot be read: {error}"
    return (
        "" if response is not None and response.uid == uid and response.allowed else "the answer is to another review"
    )


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _decoded(client_config: JSON) -> bytes:
    try:
        return base64.b64decode(client_config.get("caBundle") or "")
    except (binascii.Error, ValueError):
        return b""
