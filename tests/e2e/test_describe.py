"""What `kubectl describe deployment` says about scale-downs: planned, observed, skipped and missed.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.processes import WEBHOOKS, configuration, running
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.sessions import Session

KUBECTL = shutil.which("kubectl")
TWO_ZONES = {"zone-a": 6, "zone-b": 6}
THREE_ZONES = {**TWO_ZONES, "zone-c": 6}
ZONE = "topology.kubernetes.io/zone"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed: put it in $PATH"),
]


@dataclass(frozen=True)
class Described:
    """One line of the events that kubectl shows."""

    type: str
    reason: str
    source: str
    message: str


async def describe(namespace: str, name: str = "web") -> list[Described]:
    """The events in `kubectl describe deployment`; pytest -s shows the whole text."""
    command = [KUBECTL or "", "describe", "deployment", name, "--namespace", namespace]
    run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    print(run.stdout)  # noqa: T201 - for people
    table = run.stdout.partition("\nEvents:")[2]
    rows = (re.split(r" {2,}", line.strip(), maxsplit=4) for line in table.splitlines())
    return [Described(row[0], row[1], row[3], row[4]) for row in rows if len(row) == 5]


async def shown(namespace: str, reason: str) -> Described:
    """The event of a reason, once kubectl shows it."""
    async with asyncio.timeout(60):
        while True:
            for each in await describe(namespace):
                if each.reason == reason:
                    return each
            await asyncio.sleep(0.5)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


async def two_zones_then_three(made: DeploymentSandbox) -> tuple[int, ...]:
    """Twelve pods on two zones, six more on a third that is added then, and back: what is left of them."""
    await made.deploy("web", 12)
    await made.reshape(THREE_ZONES)
    await made.scale("web", 18)
    await made.settled(18)
    await made.scale("web", 12)
    return await made.settled(12)


UNRANKED = {"strategies": [{"name": "Stated"}], "whenUnranked": {"action": "Fallback"}}
"""A policy that ranks no pod: none of them states a cost."""
CAUSE = "a strategy could not rank every pod in time"
WORDS = {
    "ZONE": ZONE,
    "NOTHING": "the policy observes, so nothing was changed",
    "UNPLANNED": f"the scale-down was not planned: {CAUSE}",
}
"""What stands for longer texts in the expected messages, beside `LEFT` for the pods that are left in each zone."""


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(
            {"mode": "Enforce"},
            [("Normal", "ScaleDownPlanned", r"kept 4/4/4; stock (would|may) leave \d+/\d+/\d+ \(ZONE\)")],
            id="planned",
        ),
        pytest.param(
            {"mode": "Observe"},
            [
                (
                    "Normal",
                    "ScaleDownObserved",
                    r"the controller left LEFT; Trimtab would have left 4/4/4 \(ZONE\); NOTHING",
                )
            ],
            id="observed",
        ),
        pytest.param(
            {"mode": "Enforce", **UNRANKED},
            [
                (
                    "Warning",
                    "ScaleDownSkipped",
                    f"Trimtab did not plan this scale-down: {CAUSE}; the controller's own order decides",
                ),
                (
                    "Warning",
                    "ScaleDownMissed",
                    r"left LEFT, a skew of \d+ where 0 was possible \(ZONE\); cause: unranked, UNPLANNED",
                ),
            ],
            id="skipped and missed",
        ),
    ],
)
async def test_each_event_is_described(
    client: Client, policy: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """On the Deployment, with its sizes, what happened and why."""
    async with deployment_sandbox(client, TWO_ZONES) as made:
        tree = configuration(made.name, scaleDown={"defaultPolicies": [{"name": "level", **policy}]})
        async with running(client, tree, [WEBHOOKS]):
            left = "/".join(map(str, await two_zones_then_three(made)))
            words = {**WORDS, "LEFT": left}
            for severity, reason, pattern in expected:
                found = await shown(made.name, reason)
                assert (found.type, found.source) == (severity, "trimtab-scaledown")
                wanted = re.sub("|".join(words), lambda match: words[match[0]], pattern)
                assert re.fullmatch(f"18 → 12: {wanted}", found.message), found.message
