"""Reports of objects that cannot be read: a metric by kind, an event on the object, a line on the health page."""

from __future__ import annotations

import asyncio

from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.app.health import Pages
from trimtab.app.metrics import Metrics
from trimtab.app.unreadable import UnreadableReports
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Resource
from trimtab.kube.watches import RejectedObject
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock

POLICIES = Resource.of(ScaleDownPolicy)
LINE = "ScaleDownPolicy shop/web cannot be read: spec.strategies[0]: is nested too deep"


async def test_an_unreadable_object_is_counted_shown_and_gets_an_event() -> None:
    """The process stays ready: everything else goes on."""
    clock = VirtualClock()
    server = FakeServer(clock)
    client = Client(server, clock=clock)
    registry = CollectorRegistry()
    reports = UnreadableReports(client, Metrics(registry))
    task = asyncio.create_task(reports.run())
    error = InvalidError("spec.strategies[0]", "is nested too deep")
    client.using(timeout=1.0).unreadable.report(POLICIES, RejectedObject("shop", "web", "u1", "5", error))
    await clock.advance(0)

    assert registry.get_sample_value("trimtab_unreadable_objects_total", {"kind": "ScaleDownPolicy"}) == 1
    (event,) = server.objects("events")
    assert (event["type"], event["reason"]) == ("Warning", "Unreadable")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["uid"]) == ("ScaleDownPolicy", "u1")
    assert event["message"] == ("Trimtab cannot read this object and skips it: spec.strategies[0]: is nested too deep")
    pages = Pages({}, registry, lambda: reports.lines)
    quiet = await pages.readyz(make_mocked_request("GET", "/readyz"))
    verbose = await pages.readyz(make_mocked_request("GET", "/readyz?verbose"))
    assert (quiet.status, quiet.text) == (200, "ok\n")
    assert (verbose.status, verbose.text) == (200, f"ok\n{LINE}\n")

    client.unreadable.resolve(POLICIES, "shop", "web")
    assert reports.lines == []
    await cancel(task)


async def test_an_object_whose_rules_are_ignored_is_counted_and_gets_an_event() -> None:
    """Trimtab works as if they were not there, which its owner must know."""
    clock = VirtualClock()
    server = FakeServer(clock)
    registry = CollectorRegistry()
    reports = UnreadableReports(Client(server, clock=clock), Metrics(registry))
    task = asyncio.create_task(reports.run())
    reports.report_ignored(pod("web").build(), "spec.affinity: has 2,000 entries, and 1,000 is the most")
    await clock.advance(0)
    assert registry.get_sample_value("trimtab_ignored_rules_total", {"kind": "Pod"}) == 1
    (event,) = server.objects("events")
    assert (event["type"], event["reason"]) == ("Warning", "IgnoredRules")
    assert event["involvedObject"]["name"] == "web"
    assert event["message"] == ("Trimtab ignores these rules: spec.affinity: has 2,000 entries, and 1,000 is the most")
    await cancel(task)
