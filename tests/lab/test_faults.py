"""Injected faults: for the right requests, and as often as configured."""

from __future__ import annotations

import random

import aiohttp
import pytest

from tests.lab.wire import CONFIG_MAPS, PODS, Wire, config_map
from trimtab_lab.apiserver.wire.faults import KINDS, Fault, Faults
from trimtab_lab.apiserver.wire.server import Server


@pytest.mark.parametrize(
    ("kind", "code", "reason"),
    [
        pytest.param("conflict", 409, "Conflict", id="a conflict"),
        pytest.param("throttle", 429, "TooManyRequests", id="too many requests"),
        pytest.param("gone", 410, "Expired", id="a version that is gone"),
        pytest.param("error", 500, "InternalError", id="a fault of the server"),
        pytest.param("unavailable", 503, "ServiceUnavailable", id="no server"),
    ],
)
async def test_a_request_fails_once(server: Server, wire: Wire, kind: str, code: int, reason: str) -> None:
    """With a Status; the request has no effect, and the next one succeeds."""
    server.faults.add(Fault(kind, path=r"/api/v1/.*/configmaps", methods=("POST",), times=1))
    reply = await wire.call("POST", CONFIG_MAPS, config_map("a"))
    assert (reply.status, reply.reason) == (code, reason)
    assert (await wire.call("GET", f"{CONFIG_MAPS}/a")).status == 404
    await wire.create(CONFIG_MAPS, config_map("a"))


async def test_a_throttled_client_gets_retry_after(server: Server, wire: Wire) -> None:
    """As a header and in the Status."""
    server.faults.add(Fault("throttle", seconds=7))
    reply = await wire.call("GET", PODS)
    assert reply.headers["Retry-After"] == "7"
    assert reply.tree["details"]["retryAfterSeconds"] == 7


async def test_latency_is_combined_with_an_error(server: Server, wire: Wire) -> None:
    """The delay comes first."""
    server.faults.add(Fault("latency", path=r".*/pods", seconds=0.001))
    server.faults.add(Fault("unavailable", path=r".*/pods"))
    injection = server.faults.inject("GET", PODS, watch=False)
    assert injection.delay == 0.001
    assert injection.error is not None
    assert (await wire.call("GET", PODS)).status == 503
    server.faults.clear()
    assert (await wire.call("GET", PODS)).status == 200


async def test_a_watch_is_cut(server: Server, wire: Wire) -> None:
    """The connection breaks; a resumed watch misses nothing."""
    server.faults.add(Fault("cut", times=1))
    version = (await wire.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    async with wire.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}") as stream:
        with pytest.raises((aiohttp.ClientError, EOFError)):
            await stream.event()
    await wire.create(CONFIG_MAPS, config_map("a"))
    async with wire.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={version}") as stream:
        assert await stream.events(1) == [("ADDED", "a")]


async def test_lists_are_served_while_watches_are_cut(server: Server, wire: Wire) -> None:
    """A cut applies to watches only."""
    server.faults.add(Fault("cut"))
    assert (await wire.call("GET", CONFIG_MAPS)).status == 200


async def test_a_watch_is_expired(server: Server, wire: Wire) -> None:
    """The fault `gone` can be limited to watches."""
    server.faults.add(Fault("gone", watches=True))
    assert (await wire.call("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=1")).status == 410
    assert (await wire.call("GET", CONFIG_MAPS)).status == 200


def test_a_fault_has_a_probability() -> None:
    """The same seed affects the same requests."""

    def hits(seed: int) -> list[bool]:
        faults = Faults(random.Random(seed))
        faults.add(Fault("error", probability=0.3))
        return [faults.inject("GET", "/x", watch=False).error is not None for _ in range(200)]

    assert hits(1) == hits(1) != hits(2)
    assert 30 < sum(hits(1)) < 90


def test_an_unknown_fault_is_an_error() -> None:
    """The error lists the known ones."""
    with pytest.raises(ValueError, match=", ".join(KINDS)):
        Fault("earthquake")
