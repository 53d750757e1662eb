"""The command that runs the lab's workload controllers: their feature gates, and their metrics."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.kube import processes
from trimtab.kube.client import Client
from trimtab_lab.cli.commands import lab
from trimtab_lab.workloads import service
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.replicaset.metrics import Metrics
from trimtab_lab.workloads.serving import serve_metrics

KUBECONFIG = """
current-context: x
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: x, context: {cluster: c}}]
"""


@pytest.mark.parametrize(
    ("arguments", "gates"),
    [
        pytest.param([], {}, id="as Kubernetes is shipped"),
        pytest.param(["--feature-gates", "PodDeletionCost=false"], {"PodDeletionCost": False}, id="without costs"),
        pytest.param(
            ["--feature-gates", "LogarithmicScaleDown=false"], {"LogarithmicScaleDown": False}, id="without scales"
        ),
    ],
)
def test_the_controllers_have_the_gates_of_the_command(
    arguments: list[str], gates: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the options of the command they would be those of Kubernetes."""
    made: list[Options] = []

    class Recorded(service.Workloads):
        """The controllers, which end at once."""

        def __init__(self, client: Client, *, options: Options = STOCK) -> None:
            super().__init__(client, options=options)
            made.append(options)

        async def run(self) -> None:
            """There is no API server."""

    monkeypatch.setattr(service, "Workloads", Recorded)
    monkeypatch.setattr(processes, "set_up_logs", lambda: None)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    done = CliRunner().invoke(lab, ["workloads", "--kubeconfig", str(tmp_path / "kubeconfig"), *arguments])
    assert done.exit_code == 0, done.output
    assert "metrics are served on http://127.0.0.1:" in done.output
    assert made == [STOCK.gated(gates)]


async def test_metrics_are_served() -> None:
    """As Prometheus scrapes them."""
    metrics = Metrics()
    metrics.pod_deleted("ReplicaSet")
    metrics.victims_chosen([0.5])
    async with serve_metrics(metrics.registry, 0) as port:
        text = await asyncio.to_thread(scrape, f"http://127.0.0.1:{port}/metrics")
    assert 'trimtab_lab_pods_deleted_total{kind="ReplicaSet"} 1.0' in text
    assert "replicaset_controller_sorting_deletion_age_ratio_count 1.0" in text


def scrape(url: str) -> str:
    """What is served there."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        return str(answer.read().decode())
