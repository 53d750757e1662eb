"""A cluster without the kind UnitedTopology: there are none, and that is no problem."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.fakes import FakeServer, failure
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.retries import NO_RETRIES
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission.topologies import Topologies
from trimtab.unitedtopology.view import View


@pytest.mark.parametrize("caches", [View, Topologies], ids=["controller", "webhooks"])
@pytest.mark.parametrize("reason", ["NotFound", "Forbidden"])
async def test_a_kind_that_is_not_installed_is_no_problem(caches: type[View | Topologies], reason: str) -> None:
    """The caches count as synced if the API server says that there is no such kind; any other refusal is a problem."""
    clock = VirtualClock()
    server = FakeServer(clock)
    refused = failure(404 if reason == "NotFound" else 403, reason, "the server could not find the resource")
    server.intercept = lambda request: refused if "unitedtopologies" in request.path else None
    made = caches(Client(server, clock=clock).using(retry=NO_RETRIES))
    task = asyncio.create_task(made.run())
    await clock.advance(5)
    assert made.synced is (reason == "NotFound")
    assert (made.problems == []) is (reason == "NotFound")
    server.intercept = None
    await clock.advance(60)
    assert made.synced
    assert made.problems == []
    await cancel(task)
