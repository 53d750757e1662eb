"""The source Prometheus: an instant query, whose series are values of pods.

**What leaves Trimtab.** The query of a policy, with the policy's namespace and the names of pods written into it. It is
sent to the one address in the configuration: a policy names neither address nor credentials. It is checked once more
(`promql`): each of its selectors is restricted to the namespace.

**What comes back.** Of an answer of limited size, one number for each pod of the workload. Series of other pods, or
with another `namespace`, are not used, and a pod with several series has no value. Errors of the query are reported to
its author, errors of the connection without the address; nothing else of an answer is shown.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Meta

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.ranking.strategies import promql, read_settings
from trimtab.scaledown.sources.signals import SourceError

LARGEST = 8 << 20
"""Bytes of an answer."""
_PATH = "/api/v1/query"
_LONGEST_REASON = 300
"""Characters of what Prometheus says of a query."""


class ConnectionSettings(Model):
    """Where Prometheus is, and how it is reached."""

    url: Annotated[str, Meta(description="its address, such as https://prometheus.monitoring.svc:9090")] = ""
    ca_file: Annotated[
        str, Meta(description="the path of a PEM file: the CA of its certificate; by default, those of the system")
    ] = ""
    token_file: Annotated[str, Meta(description="the path of a file with a bearer token, which needs https")] = ""
    timeout_seconds: Annotated[
        float, Meta(description="how long a query may take, in seconds: from 0.1 to 60", ge=0.1, le=60)
    ] = 5.0


class _Series(Model):
    metric: Mapping[str, str] = {}
    value: tuple[float, str] = (0.0, "")


class _Data(Model):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(Model):
    status: str = ""
    data: _Data = _Data()
    error_type: str = ""
    error: str = ""


class PrometheusSource:
    """Asks one Prometheus server."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> PrometheusSource:
        """As the configuration has it."""
        settings = read_settings(ConnectionSettings, args, "Prometheus")
        address = urlsplit(settings.url)
        if address.scheme not in ("http", "https") or not address.hostname or address.query or address.fragment:
            raise InvalidError("args.url", f'"{settings.url}" is not an address; write http(s)://HOST:PORT')
        if address.username or address.password:
            raise InvalidError("args.url", "must not contain a user name or password; write a tokenFile")
        if settings.token_file and address.scheme != "https":
            raise InvalidError("args.tokenFile", "would be sent in the clear; write an https:// address in url")
        return cls(settings)

    async def sample(self, query: str, pods: Sequence[Pod]) -> Mapping[str, float]:
        """The values of these pods by their names. Raises SourceError."""
        namespace = pods[0].metadata.namespace
        names = {pod.metadata.name for pod in pods}
        try:
            promql.check(query)
        except InvalidError as error:
            raise SourceError(f"the query {error.reason}") from None
        form = {"query": promql.expand(query, namespace, names), "timeout": f"{self._settings.timeout_seconds:g}s"}
        return values(await self._ask(form), namespace, names)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, form: Mapping[str, str]) -> bytes:
        try:
            headers = await asyncio.to_thread(self._headers)
            session = await self._opened()
            url = self._settings.url.rstrip("/") + _PATH
            async with session.post(url, data=form, headers=headers, allow_redirects=False) as response:
                return _checked(response, await _beginning(response))
        except TimeoutError:
            raise SourceError(f"no answer within {self._settings.timeout_seconds:g} s") from None
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError):
            raise SourceError("its certificate is not trusted; see caFile in Trimtab's configuration") from None
        except (aiohttp.ClientConnectorError, OSError) as error:
            raise SourceError(f"it cannot be reached: {_system_reason(error)}") from None
        except (aiohttp.ClientError, ValueError):
            raise SourceError("its answer is not HTTP, or is incomplete") from None

    def _headers(self) -> dict[str, str]:
        """The token is read again for each request: it may have been replaced."""
        if not self._settings.token_file:
            return {}
        try:
            token = Path(self._settings.token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise SourceError("the tokenFile of Trimtab's configuration cannot be read") from None
        return {"Authorization": f"Bearer {token}"}

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            context = await asyncio.to_thread(self._context)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
                auto_decompress=False,
                headers={"Accept-Encoding": "identity", "User-Agent": "trimtab"},
            )
        return self._session

    def _context(self) -> ssl.SSLContext | bool:
        if not self._settings.url.startswith("https://"):
            return True
        try:
            return ssl.create_default_context(cafile=self._settings.ca_file or None)
        except (OSError, ssl.SSLError):
            raise SourceError("the caFile of Trimtab's configuration cannot be read") from None


def values(body: bytes, namespace: str, names: set[str]) -> dict[str, float]:
    """The values in an answer, of these pods alone; a pod with several series has none. Raises SourceError."""
    try:
        answer = codec.decode_exactly(body, _Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SourceError("its answer is not that of a Prometheus server") from None
    if answer.status != "success":
        raise SourceError(_refusal(answer))
    if answer.data.result_type != "vector":
        kind = "other than a vector" if len(answer.data.result_type) > 20 else f"a {answer.data.result_type}"
        raise SourceError(f"the query returns {kind}; write one that returns an instant vector")
    try:
        series = codec.decode_exactly(answer.data.result, list[_Series])
    except msgspec.DecodeError:
        raise SourceError("its answer is not that of a Prometheus server") from None
    found: dict[str, list[float]] = {}
    for each in series:
        pod = each.metric.get("pod", "")
        if pod in names and each.metric.get("namespace", namespace) == namespace:
            found.setdefault(pod, []).append(_number(each.value[1]))
    if series and not found and not any("pod" in each.metric for each in series):
        raise SourceError("the query returns series without a label pod; write sum by (pod) (…)")
    return {pod: numbers[0] for pod, numbers in found.items() if len(numbers) == 1}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _refusal(answer: _Answer) -> str:
    """What Prometheus says of the query; of anything else, only of what sort it is."""
    if answer.error_type == "bad_data":
        return f"the query is refused: {answer.error[:_LONGEST_REASON]}"
    known = {"timeout": "the query took too long", "execution": "the query cannot be executed"}
    return known.get(answer.error_type, "it reports an error of its own")


def _checked(response: aiohttp.ClientResponse, body: bytes) -> bytes:
    """The body of an answer that may be one of Prometheus: it also explains 400, 422 and 503."""
    if len(body) > LARGEST:
        raise SourceError(f"its answer is larger than {LARGEST >> 20} MiB; write a query with fewer series")
    if response.status in (401, 403):
        raise SourceError(f"it answered {response.status}; see tokenFile in Trimtab's configuration")
    if response.status not in (200, 400, 422, 503):
        raise SourceError(f"it answered {response.status}")
    return body


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    while size <= LARGEST and (chunk := await response.content.read(1 << 16)):
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)


def _system_reason(error: aiohttp.ClientConnectorError | OSError) -> str:
    """What the operating system says, without the address."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return os.strerror(cause.errno) if cause.errno and cause.errno > 0 else "its name is not known"
