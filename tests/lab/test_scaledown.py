"""A scale-down over the wire on the lab: its API server asks our webhook by URL, as a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.lab.deployments import DeploymentSandbox, deployment_sandbox, skew
from tests.lab.holding import serving
from tests.scenarios.labs import lab
from trimtab.api.annotations import DELETION_COST, OPT_OUT, OPTED_OUT, SCALE_PLAN
from trimtab.api.apps import Deployment
from trimtab.scaledown.policy.defaults import NO_DEFAULTS

pytestmark = pytest.mark.slow

TWO = {"zone-a": 6, "zone-b": 6}
PATIENT = 1.0
"""Seconds to settle: the lab's controllers share this machine with every other test."""
THREE = {**TWO, "zone-c": 6}


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[DeploymentSandbox]:
    """Two zones on a lab with its controllers and a scheduler."""
    async with lab(tmp_path, []) as client, deployment_sandbox(client, TWO) as found:
        yield found


async def test_two_zones_then_three_stay_level(made: DeploymentSandbox) -> None:
    """By `/scale` and by updates, down to the smaller side and back; nothing stays on the pods."""
    async with serving(made.client, made.name, settle=PATIENT) as holding:
        await made.deploy("web", 10)
        await made.reshape(THREE)
        for resize in (made.scale, made.update):
            await resize("web", 15)
            await made.settled(15)
            await resize("web", 10)
            assert skew(await made.settled(10)) <= 1
        await made.scale("web", 3)
        assert await made.settled(3) == (1, 1, 1)
        async with asyncio.timeout(30):
            while holding.view.plans:
                await asyncio.sleep(0.05)
        assert not any({SCALE_PLAN, DELETION_COST} & pod.metadata.annotations.keys() for pod in made.pods.store)
        assert holding.sample("misses_total", cause="lag") == 0
    assert any(text.startswith("kept ") for text in made.warnings)


async def test_a_workload_that_opts_out_is_not_written_to(made: DeploymentSandbox) -> None:
    """The annotation is on the Deployment; the request is about its scale."""
    async with serving(made.client, made.name) as holding:
        await made.deploy("web", 6)
        await made.client.patch(
            Deployment, "web", {"metadata": {"annotations": {OPT_OUT: OPTED_OUT}}}, namespace=made.name
        )
        await made.scale("web", 3)
        await made.settled(3)
        assert holding.sample("requests_total", outcome="no-policy") >= 1
        assert holding.sample("costs_written_total") == 0


async def test_without_a_policy_requests_are_admitted_at_once(made: DeploymentSandbox) -> None:
    """Installed, and quiet."""
    async with serving(made.client, made.name, defaults=NO_DEFAULTS) as holding:
        await made.deploy("web", 6)
        await made.scale("web", 3)
        await made.settled(3)
        assert holding.sample("requests_total", outcome="no-policy") >= 1
    assert made.warnings == []
