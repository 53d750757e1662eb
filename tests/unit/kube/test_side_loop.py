"""The side loop: what runs there does not wait for the main loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.kube.client import Client
from trimtab.kube.clocks import SystemClock
from trimtab.kube.leases import Elector, LeaseTimings
from trimtab.kube.side_loop import SideLoop
from trimtab.kube.transport import Request

PATIENCE = 30.0
"""Seconds after which something that must happen counts as failed."""


async def test_results_and_errors_come_back() -> None:
    """As if the work had run here."""

    async def works() -> str:
        return threading.current_thread().name

    async def fails() -> None:
        raise LookupError("nothing there")

    async with SideLoop("beside") as side:
        assert await side.run(works()) == "beside"
        with pytest.raises(LookupError, match="nothing there"):
            await side.run(fails())


async def test_cancellation_cancels_the_work_there() -> None:
    """It does not go on without its caller."""
    started, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def works() -> None:
        loop.call_soon_threadsafe(started.set)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with SideLoop() as side:
        task = asyncio.ensure_future(side.run(works()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, PATIENCE)


async def test_a_lease_is_renewed_while_the_main_loop_is_busy() -> None:
    """The main loop is blocked until the lease has been renewed three times."""
    server = FakeServer(SystemClock())
    renewals, enough = 0, threading.Event()

    def count(request: Request) -> None:
        nonlocal renewals
        renewals += request.method == "PUT"
        if renewals >= 3:
            enough.set()

    server.intercept = count
    timings = LeaseTimings(lease_duration=60, renew_deadline=30, retry_period=0.01)
    async with SideLoop() as side:
        elector = Elector(
            Client(server, clock=SystemClock()),
            name="lease",
            namespace="n",
            identity="me",
            timings=timings,
            run_in=side.run,
        )

        async def work() -> None:
            assert enough.wait(PATIENCE), "the lease was not renewed"
            assert elector.is_leader

        await elector.run(work)
    (lease,) = server.objects("leases")
    assert lease["spec"]["holderIdentity"] == "", "the lease was not released"
