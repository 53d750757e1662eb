"""A lab as a user starts it, with feature gates of the controllers, and its metrics as Prometheus scrapes them."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.labs import lab
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from trimtab.api import times
from trimtab.api.annotations import DELETION_COST
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab_lab import supervisor

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("gate", [pytest.param(True, id="on"), pytest.param(False, id="off")])
async def test_a_lab_with_and_without_deletion_costs(tmp_path: Path, gate: bool) -> None:
    """The pod with the lowest cost goes first; without PodDeletionCost, the youngest one. Deleted pods are counted."""
    gates = f"PodDeletionCost={str(gate).lower()},LogarithmicScaleDown=false"
    with lab(tmp_path, "--feature-gates", gates):
        state = supervisor.read_state(tmp_path)
        assert state is not None
        assert state.feature_gates == {"LogarithmicScaleDown": False, "PodDeletionCost": gate}
        async with (
            Client(Session(discover(tmp_path / "kubeconfig"))) as client,
            deployment_sandbox(client, {"zone-a": 3}) as made,
        ):
            await made.deploy("web", 1)
            first = names(made)
            await until_a_second_later(made)
            await made.scale("web", 2)
            await made.settled(2)
            second = names(made) - first
            patch = {"metadata": {"annotations": {DELETION_COST: "-5"}}}
            await client.patch(Pod, next(iter(first)), patch, namespace=made.name)
            await made.scale("web", 1)
            await made.settled(1)
            assert names(made) == (second if gate else first)
        text = await asyncio.to_thread(scrape, state.metrics_url)
    samples = {
        (each.name, each.labels.get("kind")): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }
    assert samples["trimtab_lab_pods_deleted_total", "ReplicaSet"] >= 1
    assert samples["replicaset_controller_sorting_deletion_age_ratio_count", None] == (0 if gate else 1)


def names(made: DeploymentSandbox) -> set[str]:
    """The names of the pods."""
    return {pod.metadata.name for pod in made.pods.store}


async def until_a_second_later(made: DeploymentSandbox) -> None:
    """Wait until a pod that is created now is younger, in whole seconds, than all that there are."""
    conditions = [pod.status.condition("Ready") for pod in made.pods.store]
    moments = [each.last_transition_time for each in conditions if each is not None and each.last_transition_time]
    due = max(map(times.to_ns, moments)) + SECOND
    while made.client.clock.now() < due:
        await asyncio.sleep(0.05)


def scrape(url: str) -> str:
    """The metrics of the controllers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        return str(answer.read().decode())
