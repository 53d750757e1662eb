"""The switch `scaleDown.enabled`: read while the process runs, and obeyed by all that write costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.api import configuration
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app import admission, control
from trimtab.app.dependencies import Dependencies
from trimtab.app.switch import CHECK_INTERVAL, ConfigurationWatch, Switch
from trimtab.cli import run
from trimtab.cli.run import configured as read_file
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.components import Component, ComponentGroup
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.policy.controller import ScaleDownPolicies
from trimtab.testing.clocks import VirtualClock


def configured(*, on: bool) -> TrimtabConfiguration:
    """A configuration with the switch on or off."""
    return configuration.read({"scaleDown": {"enabled": on}, "leaderElection": {"enabled": False}})


def test_listeners_are_called_once_for_each_change() -> None:
    """A listener of the same name replaces the first."""
    switch = Switch(on=True)
    calls: list[Any] = []
    switch.subscribe("one", lambda on: calls.append(("old", on)))
    switch.subscribe("one", lambda on: calls.append(("new", on)))
    for on in (True, False, False, True):
        switch.turn(on=on)
    assert calls == [("new", False), ("new", True)]


async def test_the_file_is_read_again_while_the_process_runs() -> None:
    """A file that has become invalid changes nothing, and is logged once."""
    clock, switch = VirtualClock(), Switch(on=True)
    written: list[TrimtabConfiguration | InvalidError] = [configured(on=True)]

    def read() -> TrimtabConfiguration:
        if isinstance(written[0], InvalidError):
            raise written[0]
        return written[0]

    warnings: list[str] = []
    task = asyncio.ensure_future(ConfigurationWatch(switch, read, clock, warnings.append).run())
    seen = []
    for state in (configured(on=False), InvalidError("scaleDown.enabled", "is wrong"), configured(on=True)):
        written[0] = state
        await clock.advance(3 * CHECK_INTERVAL)
        seen.append(switch.on)
    await cancel(task)
    assert seen == [False, False, True]
    assert warnings == ["the changed configuration is invalid and is ignored: scaleDown.enabled: is wrong"]


def test_every_process_that_plans_exposes_the_age_of_its_samples() -> None:
    """Each process samples for itself, the webhooks too."""
    clock = VirtualClock()
    dependencies = Dependencies(Client(FakeServer(clock), clock=clock), configured(on=True), CollectorRegistry())
    admission.component(dependencies)
    for source in ("usage", "answers"):
        found = dependencies.registry.get_sample_value("trimtab_scaledown_oldest_sample_seconds", {"source": source})
        assert found == 0.0


def part(component: Component, *names: str) -> Component:
    """A part of a component, by its path."""
    for name in names:
        assert isinstance(component, ComponentGroup)
        component = component.parts[name]
    return component


async def test_the_switch_applies_to_webhooks_and_controllers() -> None:
    """Requests are not held any more, and the controllers revert written costs."""
    clock = VirtualClock()
    dependencies = Dependencies(Client(FakeServer(clock), clock=clock), configured(on=True), CollectorRegistry())
    webhooks, controllers = admission.component(dependencies), control.component(dependencies)
    holder = part(webhooks, "features", "scale-downs", "scale-downs")
    keeper = part(controllers, "scaledownpolicies", "controller")
    assert isinstance(holder, ScaleDownHolder)
    assert isinstance(keeper, ScaleDownPolicies)
    before = holder.defaults
    dependencies.switch.turn(on=False)
    assert holder.defaults == keeper.groups.defaults == replace(before, enabled=False)
    dependencies.switch.turn(on=True)
    assert holder.defaults == keeper.groups.defaults == before


def test_a_file_is_parsed_only_if_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is invalid is parsed each time, so that each time it is an error."""
    path, parsed = tmp_path / "trimtab.yaml", list[Path]()

    def parse(file: Path, flags: Mapping[str, object]) -> TrimtabConfiguration:
        parsed.append(file)
        return read_file(file, flags)

    monkeypatch.setattr(run, "configured", parse)
    head = "apiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\n"
    path.write_text(head)
    again = run.Rereading(path, {})
    assert again.read() is again.read()
    assert len(parsed) == 1
    path.write_text(f"{head}scaleDown: {{enabled: false}}\n")
    assert not again.read().scale_down.enabled
    for broken in ("scaleDown: 1", ""):
        path.write_text(broken)
        for _ in range(2):
            with pytest.raises(InvalidError):
                again.read()
    path.unlink()
    with pytest.raises(InvalidError, match="cannot be read"):
        again.read()
    path.write_text(head)
    assert again.read().scale_down.enabled
    assert len(parsed) == 8
