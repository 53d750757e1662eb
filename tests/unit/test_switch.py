"""The one switch: turned while the process runs, and felt by everyone who writes costs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.api import configuration
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app import admission, control
from trimtab.app.means import Means
from trimtab.app.switch import LOOK_EVERY, Switch, Watch
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.components import ComponentGroup
from trimtab.scaledown.intent.gate import Intents
from trimtab.scaledown.policy.controller import ScaleDownPolicies
from trimtab.testing.clocks import VirtualClock


def told(*, on: bool) -> TrimtabConfiguration:
    """A configuration with the switch on or off."""
    return configuration.read({"scaleDown": {"enabled": on}, "leaderElection": {"enabled": False}})


def test_everyone_is_told_once() -> None:
    """And who comes again takes the place of the first."""
    switch = Switch(on=True)
    heard: list[Any] = []
    switch.tell("one", lambda on: heard.append(("old", on)))
    switch.tell("one", lambda on: heard.append(("new", on)))
    for on in (True, False, False, True):
        switch.turn(on=on)
    assert heard == [("new", False), ("new", True)]


async def test_the_file_is_looked_at_while_the_process_runs() -> None:
    """One that has become invalid changes nothing, and is complained of once."""
    clock, switch = VirtualClock(), Switch(on=True)
    written: list[TrimtabConfiguration | InvalidError] = [told(on=True)]

    def read() -> TrimtabConfiguration:
        if isinstance(written[0], InvalidError):
            raise written[0]
        return written[0]

    complaints: list[str] = []
    task = asyncio.ensure_future(Watch(switch, read, clock, complaints.append).run())
    seen = []
    for state in (told(on=False), InvalidError("scaleDown.enabled", "is wrong"), told(on=True)):
        written[0] = state
        await clock.advance(3 * LOOK_EVERY)
        seen.append(switch.on)
    await cancel(task)
    assert seen == [False, False, True]
    assert complaints == ["the configuration has changed and is not taken: scaleDown.enabled: is wrong"]


def test_every_process_that_plans_tells_how_old_its_samples_are() -> None:
    """Each samples for itself, the webhooks too."""
    clock = VirtualClock()
    means = Means(Client(FakeServer(clock), clock=clock), told(on=True), CollectorRegistry())
    admission.component(means)
    for source in ("usage", "answers", "scores"):
        found = means.registry.get_sample_value("trimtab_scaledown_oldest_sample_seconds", {"source": source})
        assert found == 0.0


async def test_whoever_writes_costs_goes_by_the_switch() -> None:
    """Requests are not held any more, and the controllers take back what stands."""
    clock = VirtualClock()
    means = Means(Client(FakeServer(clock), clock=clock), told(on=True), CollectorRegistry())
    webhooks, controllers = admission.component(means), control.component(means)
    assert isinstance(webhooks, ComponentGroup)
    assert isinstance(controllers, ComponentGroup)
    intents, keeper = webhooks.parts["scale-downs"], controllers.parts["scaledownpolicies"]
    assert isinstance(intents, Intents)
    assert isinstance(keeper, ScaleDownPolicies)
    before = intents.defaults
    means.switch.turn(on=False)
    assert intents.defaults == keeper.groups.defaults == replace(before, enabled=False)
    means.switch.turn(on=True)
    assert intents.defaults == keeper.groups.defaults == before
