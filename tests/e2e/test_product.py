"""Trimtab as it is run, on a control plane with controllers of its own: the stories that need it end level.

The webhooks are asked as an installation would have them asked, conditions included, in the stories' namespaces alone:
the cluster may be shared with others. Stories are played one after the other, each component in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.test_install import resource
from tests.scenarios.product import configured
from trimtab.api import codec, crds
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.install import reviews
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab_lab import provisioning
from trimtab_lab.scenarios import results, stories
from trimtab_lab.scenarios.runner import Outcome, Runner
from trimtab_lab.scenarios.simulation import node_simulator
from trimtab_lab.supervisor import find_free_port

GOLDEN = Path(__file__).parents[1] / "scenarios" / "golden" / "trimtab"
LABEL = "trimtab-e2e"
PORTS = {"webhooks": find_free_port(), "controllers": find_free_port()}
"""Where each component tells of itself."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not {"KUBECONFIG", "CONTROL_PLANE"} & os.environ.keys(),
        reason="the embedded lab plays the stories in tests/scenarios",
    ),
]


def told(name: str) -> TrimtabConfiguration:
    """Components that look after namespaces with a label of this run alone."""
    policy = {"name": name, "namespaceSelector": {"matchLabels": {LABEL: name}}}
    made = configured(
        components=list(PORTS),
        namespace=name,
        scaleDown={"defaultPolicies": [policy]},
    )
    tree = codec.to_tree(made)
    tree["webhooks"]["registeredAs"] = name
    return codec.convert(tree, TrimtabConfiguration)


def asked(configuration: TrimtabConfiguration, name: str) -> Iterator[JSON]:
    """What the API server asks, about namespaces with the label."""
    client = reviews.by_url(configuration.webhooks.url)
    for each in reviews.configurations(configuration, client, labels=crds.MANAGED_BY_LABELS):
        for webhook in each["webhooks"]:
            webhook["namespaceSelector"].setdefault("matchLabels", {})[LABEL] = name
        yield each


@asynccontextmanager
async def registered(client: Client, configuration: TrimtabConfiguration, name: str) -> AsyncIterator[None]:
    """Our kinds, a namespace for Trimtab's own, and the webhooks, which are withdrawn at the end."""
    await provisioning.create_missing(client, crds.manifests())
    await client.create(Namespace, {"metadata": {"name": name}})
    configurations = list(asked(configuration, name))
    for each in configurations:
        await client.create(resource(each), each)
    try:
        yield
    finally:
        for each in configurations:
            await client.delete(resource(each), each["metadata"]["name"])
        await client.delete(Namespace, name)


@contextmanager
def running(configuration: TrimtabConfiguration, folder: Path) -> Iterator[None]:
    """`trimtab run` for each component, until the block ends; all of them must end cleanly."""
    path = folder / "trimtab.json"
    path.write_text(json.dumps(codec.to_tree(configuration)))
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(path)]
    with ExitStack() as logs:
        processes = []
        for component, port in PORTS.items():
            log = logs.enter_context((folder / f"{component}.log").open("wb"))
            alone = [*command, "--component", component, "--port", str(port)]
            processes.append(subprocess.Popen(alone, stderr=log))  # noqa: S603 - our own program
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            assert [process.wait(30) for process in processes] == [0] * len(processes)


async def until_ready(port: int) -> None:
    """Wait until every component has seen the cluster, and the webhooks are served."""

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    async with asyncio.timeout(60):
        while not await asyncio.to_thread(ready):
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(tmp_path_factory: pytest.TempPathFactory, control_plane: Path) -> AsyncIterator[dict[str, Outcome]]:
    """What comes of each story."""
    name = f"trimtab-{secrets.token_hex(4)}"
    configuration = told(name)
    tales = [stories.load(path) for path in stories.trimtab_stories().values()]
    labelled = [replace(tale, namespace_labels={**tale.namespace_labels, LABEL: name}) for tale in tales]
    async with Client(Session(discover(control_plane))) as client, registered(client, configuration, name):
        with running(configuration, tmp_path_factory.mktemp("trimtab")):
            for port in PORTS.values():
                await until_ready(port)
            runner = Runner(client, node_simulator(client))
            ended = [await runner.play(tale) for tale in labelled]
    yield {outcome.story.name: outcome for outcome in ended}


@pytest.mark.parametrize("name", sorted(stories.trimtab_stories()))
def test_a_story_ends_level(name: str, outcomes: dict[str, Outcome]) -> None:
    """What the lab is held to, a real control plane does."""
    assert results.check(outcomes[name], GOLDEN) == []
    assert outcomes[name].leftovers == ()
