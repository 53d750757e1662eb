"""Costs that pods report over HTTP when they are probed: for `Probe`.

**Which addresses.** The pod's own address as its kubelet reports it, and nothing else: no name is resolved, no redirect
followed, no proxy used. A pod's status can be forged by anyone who may write it, so an address that is not a pod's
(loopback, link-local such as a cloud's metadata service, multicast) is not probed, and neither is a pod on the host's
network, whose address is its node's. Where `networks` are given, only addresses in them are probed.

**Which answers.** A number and nothing else, in at most 64 bytes of a 200. It is not shown anywhere: the most that a
forged answer achieves is another rank.

**How often.** Each pod every `periodSeconds`, a limited number at a time; a pod is not probed again before it has
answered or timed out. Pods are probed at once when they are first seen, and are spread over the period by their UIDs
from then on.
"""

from __future__ import annotations

import asyncio
import math
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol

import aiohttp

from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock, within
from trimtab.ranking.strategies.probe import ProbeSettings
from trimtab.ranking.strategies.stated import number
from trimtab.scaledown.sources.samples import Samples

Network = IPv4Network | IPv6Network

LARGEST = 64
"""Bytes of an answer."""
AT_ONCE = 64
"""How many pods are probed at a time."""
_MOST = 1e12
"""The largest absolute cost that is accepted."""


class Unanswered(Exception):  # noqa: N818 - a pod without an answer is not an error
    """No acceptable answer, and why."""


class Fetch(Protocol):
    """Probes one address; raises Unanswered."""

    async def __call__(self, address: str, port: int, path: str, seconds: float) -> bytes:
        """The body of a 200, truncated to `LARGEST` + 1 bytes."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A pod, and how its policy probes it."""

    pod: Pod
    settings: ProbeSettings


class AnswerSource:
    """The last answer of each pod."""

    def __init__(self, clock: Clock, fetch: Fetch, *, networks: Sequence[Network] = (), at_once: int = AT_ONCE) -> None:
        self.samples = Samples()
        self.refusals: dict[str, str] = {}
        """Why pods have no answer, by their UIDs."""
        self._clock = clock
        self._fetch = fetch
        self._networks = networks
        self._slots = asyncio.Semaphore(at_once)
        self._due: dict[str, int] = {}

    async def probe(self, requests: Iterable[ProbeRequest]) -> None:
        """Probe the pods that are due, and wait until all have answered or timed out."""
        now = self._clock.monotonic()
        due = [request for request in requests if self._is_due(request, now)]
        await asyncio.gather(*(self._probe(request) for request in due))

    def keep(self, uids: frozenset[str]) -> None:
        """Drop the samples of all other pods."""
        self.samples.keep(uids)
        self._due = {uid: due for uid, due in self._due.items() if uid in uids}
        self.refusals = {uid: reason for uid, reason in self.refusals.items() if uid in uids}

    def _is_due(self, request: ProbeRequest, now: int) -> bool:
        """Whether a pod is due; if so, it is scheduled for the next time."""
        uid, period = request.pod.metadata.uid, request.settings.period_seconds * SECOND
        due = self._due.get(uid)
        if due is not None and due > now:
            return False
        first = 1 + zlib.crc32(uid.encode()) % request.settings.period_seconds
        self._due[uid] = now + (first * SECOND if due is None else period)
        return True

    async def _probe(self, request: ProbeRequest) -> None:
        pod, settings = request.pod, request.settings
        try:
            address = address_of(pod, self._networks)
            async with self._slots:
                fetching = self._fetch(address, settings.port, settings.path, settings.timeout_seconds)
                body = await within(self._clock, settings.timeout_seconds, fetching)
            value = read_answer(body)
        except TimeoutError:
            self.refusals[pod.metadata.uid] = f"no answer within {settings.timeout_seconds} s"
        except Unanswered as error:
            self.refusals[pod.metadata.uid] = str(error)
        else:
            self.refusals.pop(pod.metadata.uid, None)
            self.samples.put(pod, value, self._clock.monotonic())


def address_of(pod: Pod, networks: Sequence[Network] = ()) -> str:
    """The address at which a pod is probed. Raises Unanswered for one that must not be probed."""
    text = pod.status.pod_ip
    if not text:
        raise Unanswered("it has no address yet")
    if pod.spec.host_network:
        raise Unanswered("it is on its host's network, whose address is its node's")
    try:
        address = _unmapped(ip_address(text))
    except ValueError:
        raise Unanswered(f'"{text}" is not an address') from None
    if networks:
        if not any(address in network for network in networks):
            raise Unanswered(f"{address} is outside the networks that may be probed")
    elif address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        raise Unanswered(f"{address} is not the address of a pod")
    return f"[{address}]" if address.version == 6 else str(address)


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address of an IPv4-mapped IPv6 address: it is the same host."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def read_answer(body: bytes) -> float:
    """The number that a pod answered. Raises Unanswered for anything else.

    The reason never has a part of the answer: whoever may read a policy's status need not be allowed to call the pod.
    """
    if len(body) > LARGEST:
        raise Unanswered(f"its answer is longer than {LARGEST} bytes; it should be a number")
    value = number(body.decode("ascii", "replace").strip())
    if math.isnan(value) or abs(value) > _MOST:
        raise Unanswered("its answer is not a number such as 0, 5400 or -3.5")
    return value


class HttpFetch:
    """Probes over HTTP. One session for all pods; connections are not kept, because each pod is another host."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, address: str, port: int, path: str, seconds: float) -> bytes:
        """The body of a 200, truncated to `LARGEST` + 1 bytes."""
        session = self._opened()
        try:
            timeout = aiohttp.ClientTimeout(total=seconds)
            url = f"http://{address}:{port}{path}"
            async with session.get(url, timeout=timeout, allow_redirects=False) as response:
                if response.status != 200:
                    raise Unanswered(f"it answered {response.status}")
                return await _beginning(response)
        except TimeoutError:
            raise Unanswered(f"no answer within {seconds:g} s") from None
        except (aiohttp.ClientConnectorError, OSError) as error:
            raise Unanswered(f"it cannot be reached: {_system_reason(error)}") from None
        except (aiohttp.ClientError, ValueError):
            raise Unanswered("its answer is not HTTP, or is incomplete") from None

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=AT_ONCE, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": "trimtab"},
            )
        return self._session


def _system_reason(error: aiohttp.ClientConnectorError | OSError) -> str:
    """What the operating system says; aiohttp's own messages may quote what was received."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return os.strerror(cause.errno) if cause.errno else type(cause).__name__


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    while len(body) <= LARGEST and (chunk := await response.content.read(LARGEST + 1 - len(body))):
        body += chunk
    return body
