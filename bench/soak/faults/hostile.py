"""Faults that someone means: objects that cannot be read, reviews that no API server sent, bursts of connections."""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Callable, Mapping

import aiohttp

from bench.promise.comparison import JSON
from bench.soak import judging
from bench.soak.arena import Arena, NoEffectError
from bench.soak.players import (
    EXEMPT,
    PLAIN,
    UNITED,
    UNREADABLE,
    deep,
    forged_deletion,
    forged_pod,
    forged_scale,
    unreadable,
    wide,
)
from bench.soak.replicas import WEBHOOKS
from trimtab.api import complexity
from trimtab.kube.errors import ApiError

_DEPTHS = {True: 1400, False: 300}
"""How deep objects are nested on a real API server, and on the lab's own, which refuses more than a thousand levels."""
_VALUES = 2 * complexity.MAX_VALUES
_WIDE_SHARE = 0.25
"""The share of the unreadable objects that have too many values: they are large, and stay in etcd."""
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_ANSWERS = frozenset({200, 400, 404, 408, 413, 429, 431, 503})
_BURST = 1500
"""Connections: more than the handshakes that a webhook port has under way at a time."""
_TRIES = 15
"""Seconds in which a port must answer again: three times as long as a handshake may take."""


async def create_unreadable(arena: Arena, rng: random.Random) -> str:
    """Create an object that is nested too deep, or has too many values.

    Our validation refuses those of our own kinds, except in namespaces that are exempt from it. A pod must get through.
    """
    kind, name = rng.choice(sorted(UNREADABLE)), f"strange-{rng.randrange(10**9)}"
    namespace = arena.strange if kind == "pod" else rng.choice((arena.strange, EXEMPT))
    is_wide = kind != "pod" and rng.random() < _WIDE_SHARE
    path, body = unreadable(kind, name, wide(_VALUES) if is_wide else deep(_DEPTHS[arena.lab.is_real]))
    try:
        await arena.client.call("POST", path.format(namespace), body=body)
    except ApiError as error:
        if kind != "pod" and namespace != EXEMPT and judging.is_refused_as_invalid(error):
            return f"{kind} {name}: refused"
        return await _fail(arena, f"create the {kind} {name}", error)
    return f"{kind} {namespace}/{name}"


async def _fail(arena: Arena, what: str, error: ApiError) -> str:
    async def fail() -> str:
        raise error

    return await arena.request(what, fail())


async def forge_review(arena: Arena, rng: random.Random) -> str:
    """Send a review of our own making to a webhook port."""
    name = rng.choice(sorted(FORGERIES))
    path, body = FORGERIES[name](arena, rng)
    replica = rng.choice(arena.installation.of(WEBHOOKS))
    try:
        async with caller() as session:
            status, text = await send_review(session, replica.webhook_port, path, body)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if replica.changing.locked() or name in _MAY_BE_CUT:
            return _cut(name, replica.changing.locked())
        raise NoEffectError(f"{replica.name}: {error!r}") from error
    problem = _problem(status, text)
    arena.ledger.check(judging.FORGERY, not problem, f"{name}: {problem}")
    return f"{name} at {replica.name}: {status}"


async def open_many(arena: Arena, rng: random.Random) -> str:
    """Open many connections to a webhook port and send nothing; soon after they are closed, it must answer."""
    replica = rng.choice(arena.installation.of(WEBHOOKS))
    port = replica.webhook_port
    results = await asyncio.gather(*(_open(port) for _ in range(_BURST)), return_exceptions=True)
    opened = [each for each in results if isinstance(each, asyncio.StreamWriter)]
    for each in opened:
        each.transport.abort()
    is_answered = False
    for _ in range(_TRIES):
        await asyncio.sleep(1.0)
        if is_answered := await _is_answered(port):
            break
    if not opened or (not is_answered and replica.changing.locked()):
        raise NoEffectError("the replica is being restarted")
    arena.ledger.check(judging.RECOVERS, is_answered, f"{replica.name} does not answer after a burst of connections")
    return f"{len(opened)} connections to {replica.name}"


async def _is_answered(port: int) -> bool:
    try:
        async with caller() as session:
            await send_review(session, port, "/scale", b"{}")
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
    return True


async def _open(port: int) -> asyncio.StreamWriter:
    _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), _TIMEOUT.total)
    return writer


def caller() -> aiohttp.ClientSession:
    """A caller of webhooks, which sends JSON and trusts any certificate."""
    return aiohttp.ClientSession(timeout=_TIMEOUT, headers={"Content-Type": "application/json"})


async def send_review(session: aiohttp.ClientSession, port: int, path: str, body: bytes) -> tuple[int, str]:
    """Send a review to a webhook port of this machine, as an API server would; the status and text of the answer."""
    url = f"https://127.0.0.1:{port}{path}?timeout=10s"
    async with session.post(url, data=io.BytesIO(body), ssl=False) as answer:
        return answer.status, await answer.text()


def _cut(name: str, is_restarting: bool) -> str:
    if is_restarting:
        raise NoEffectError("the replica is being restarted")
    return f"{name}: the connection was closed"


def _problem(status: int, text: str) -> str:
    """What is wrong with an answer to a forged review; empty if nothing is."""
    if status not in _ANSWERS:
        return f"answered with {status}: {text[:200]}"
    if status != 200:
        return ""
    response = json.loads(text)["response"]
    if response.get("patch"):
        return "answered with a patch"
    return "" if response["allowed"] else f"refused: {response.get('status')}"


Forgery = Callable[[Arena, random.Random], tuple[str, bytes]]


def _encoded(tree: JSON) -> bytes:
    return json.dumps(tree).encode()


def _pod(arena: Arena, rng: random.Random) -> tuple[str, bytes]:
    owners = sorted({pod["metadata"]["ownerReferences"][0]["name"] for pod in arena.stage.pods.pods[UNITED].values()})
    return "/pods", _encoded(forged_pod(arena.namespace, rng.choice(owners or ["united-none"])))


def _deletion(arena: Arena, rng: random.Random) -> tuple[str, bytes]:
    return "/deletions", _encoded(forged_deletion(arena.namespace, f"united-{rng.randrange(10**6)}"))


def _scale(arena: Arena, rng: random.Random) -> tuple[str, bytes]:
    return "/scale", _encoded(forged_scale(rng.choice((*PLAIN, UNITED)), arena.namespace, rng.randrange(5)))


def _deep(_: Arena, rng: random.Random) -> tuple[str, bytes]:
    levels = rng.choice((200, 1100, 9000))
    return "/scale", b'{"request":' + b'{"a":[' * levels + b"]}" * levels + b"}"


def _wide(arena: Arena, rng: random.Random) -> tuple[str, bytes]:
    tree = forged_scale(rng.choice(PLAIN), arena.namespace, 1)
    tree["request"]["object"]["metadata"]["annotations"] = {f"a{n}": "x" for n in range(20_000)}
    return "/scale", _encoded(tree)


def _garbage(_: Arena, rng: random.Random) -> tuple[str, bytes]:
    return rng.choice(("/scale", "/pods", "/deletions", "/validate")), rng.randbytes(rng.randrange(2000))


def _huge(_: Arena, __: random.Random) -> tuple[str, bytes]:
    return "/pods", b"[" + b"1," * (8 << 20) + b"1]"


FORGERIES: Mapping[str, Forgery] = {
    "an invented owner of a pod": _pod,
    "the deletion of a pod that does not exist": _deletion,
    "a decrease with an invented UID": _scale,
    "a deep body": _deep,
    "a wide body": _wide,
    "garbage": _garbage,
    "a huge body": _huge,
}
_MAY_BE_CUT = frozenset({"a huge body"})
"""Bodies that are larger than a review can be: the connection may be closed before all is sent."""
