"""What pods answer when they are asked what they cost: for `Probe`.

**Whom we ask.** The pod's own address as its kubelet reports it, and nothing else: no name is looked up, no redirect is
followed, no proxy is used. A pod's status can be written by whoever may write it, so an address that is not a pod's
(loopback, link-local such as a cloud's metadata service, multicast) is not asked, and neither is a pod on the host's
network, whose address is its node's. Where `networks` are given, only addresses in them are asked.

**What we take.** A number and nothing else, in at most 64 bytes of a 200. It is never shown to anybody: the most that a
forged answer achieves is another rank.

**How much we ask.** Each pod every `periodSeconds`, so many at a time and no more; a pod that was asked is not asked
again before it has answered or the time is over. Pods of one policy are asked at once when they are first seen, and are
spread over its period by their UIDs from then on.
"""

from __future__ import annotations

import asyncio
import math
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
"""How many pods are asked at a time."""
_MOST = 1e12
"""The largest cost that is taken, either way."""


class Unanswered(Exception):  # noqa: N818 - a pod that says nothing is no fault
    """No answer that could be taken, and why."""


class Fetch(Protocol):
    """Asks one address; raises Unanswered."""

    async def __call__(self, address: str, port: int, path: str, seconds: float) -> bytes:
        """The body of a 200, cut after `LARGEST` and one bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A pod, and how its policy wants it asked."""

    pod: Pod
    settings: ProbeSettings


class AnswerSource:
    """What pods answered last."""

    def __init__(self, clock: Clock, fetch: Fetch, *, networks: Sequence[Network] = (), at_once: int = AT_ONCE) -> None:
        self.samples = Samples()
        self.refusals: dict[str, str] = {}
        """Why pods have given no answer, by their UIDs."""
        self._clock = clock
        self._fetch = fetch
        self._networks = networks
        self._slots = asyncio.Semaphore(at_once)
        self._due: dict[str, int] = {}

    async def ask(self, questions: Iterable[Question]) -> None:
        """Ask those whose turn it is, and wait until all have answered or not."""
        now = self._clock.monotonic()
        due = [question for question in questions if self._is_due(question, now)]
        await asyncio.gather(*(self._ask(question) for question in due))

    def keep(self, uids: frozenset[str]) -> None:
        """Forget what is known of all other pods."""
        self.samples.keep(uids)
        self._due = {uid: due for uid, due in self._due.items() if uid in uids}
        self.refusals = {uid: reason for uid, reason in self.refusals.items() if uid in uids}

    def _is_due(self, question: Question, now: int) -> bool:
        """Whether it is a pod's turn; the next turn is set at once."""
        uid, period = question.pod.metadata.uid, question.settings.period_seconds * SECOND
        due = self._due.get(uid)
        if due is not None and due > now:
            return False
        first = 1 + zlib.crc32(uid.encode()) % question.settings.period_seconds
        self._due[uid] = now + (first * SECOND if due is None else period)
        return True

    async def _ask(self, question: Question) -> None:
        pod, settings = question.pod, question.settings
        try:
            address = address_of(pod, self._networks)
            async with self._slots:
                asking = self._fetch(address, settings.port, settings.path, settings.timeout_seconds)
                body = await within(self._clock, settings.timeout_seconds, asking)
            value = read_answer(body)
        except TimeoutError:
            self.refusals[pod.metadata.uid] = f"no answer within {settings.timeout_seconds} s"
        except Unanswered as error:
            self.refusals[pod.metadata.uid] = str(error)
        else:
            self.refusals.pop(pod.metadata.uid, None)
            self.samples.put(pod, value, self._clock.monotonic())


def address_of(pod: Pod, networks: Sequence[Network] = ()) -> str:
    """Where a pod is asked. Raises Unanswered for one that must not be."""
    text = pod.status.pod_ip
    if not text:
        raise Unanswered("it has no address yet")
    if pod.spec.host_network:
        raise Unanswered("it is on its host's network, whose address is its node's")
    try:
        address = _plain(ip_address(text))
    except ValueError:
        raise Unanswered(f'"{text}" is not an address') from None
    if networks:
        if not any(address in network for network in networks):
            raise Unanswered(f"{address} is outside of the networks that may be asked")
    elif address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        raise Unanswered(f"{address} is no pod's address")
    return f"[{address}]" if address.version == 6 else str(address)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address of the old kind that one of the new kind stands for, if it does: it leads to the same place."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def read_answer(body: bytes) -> float:
    """The number that a pod answered. Raises Unanswered for anything else."""
    if len(body) > LARGEST:
        raise Unanswered(f"its answer is longer than {LARGEST} bytes; it should be a number")
    value = number(body.decode("ascii", "replace").strip())
    if math.isnan(value) or abs(value) > _MOST:
        raise Unanswered(f"its answer is not a number such as 0, 5400 or -3.5: {body[:16]!r}")
    return value


class HttpFetch:
    """Asks over HTTP. One session for all pods; a connection is not kept, for each pod is another host."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, address: str, port: int, path: str, seconds: float) -> bytes:
        """The body of a 200, cut after `LARGEST` and one bytes."""
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
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unanswered(f"it cannot be asked: {error}") from error

    async def close(self) -> None:
        """Let go of what is open."""
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


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    while len(body) <= LARGEST and (chunk := await response.content.read(LARGEST + 1 - len(body))):
        body += chunk
    return body
