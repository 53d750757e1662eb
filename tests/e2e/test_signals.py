"""Pods ranked by what Prometheus reports of them: a small server that answers as one, and a real one if installed.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.processes import CONTROLLERS, PATIENCE, WEBHOOKS, Trimtab, configuration, running
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from tests.lab.policing import Policies, define
from tests.lab.prometheus import JOBS, MISSING, PROMETHEUS, FakePrometheus, real_server, serving
from trimtab.api.documents import JSON
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Invalid
from trimtab.kube.informers import Informer
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ASKED: JSON = {"name": "Prometheus", "args": {"query": JOBS, "periodSeconds": 5, "maxAgeSeconds": 15}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


@asynccontextmanager
async def asking(client: Client, namespace: str, url: str) -> AsyncIterator[tuple[Policies, Trimtab]]:
    """Trimtab's webhooks and controllers, which ask the server at this address."""
    await define(client)
    policies = Policies(client, namespace, Informer(client, ScaleDownPolicy, namespace=namespace))
    tree = configuration(namespace, scaleDown={"sources": {"Prometheus": {"url": url}}})
    async with running(client, tree, [CONTROLLERS, WEBHOOKS]) as trimtab:
        watching = asyncio.ensure_future(policies.informer.run())
        try:
            await policies.informer.wait_synced()
            yield policies, trimtab
        finally:
            await client.delete_all(ScaleDownPolicy, namespace=namespace)
            await cancel(watching)


async def working(made: DeploymentSandbox, fake: FakePrometheus) -> list[str]:
    """Six pods with jobs, and pods of the same names elsewhere that have others; their names, the idlest first."""
    await made.deploy("web", 6)
    names = sorted(pod.metadata.name for pod in made.pods.store)
    fake.jobs = {(made.name, name): float(number) for number, name in enumerate(names)}
    fake.jobs |= {("elsewhere", name): 100.0 - number for number, name in enumerate(names)}
    return names


REAL = pytest.param(True, id="a real server", marks=pytest.mark.skipif(PROMETHEUS is None, reason=MISSING))


@pytest.mark.parametrize("real", [pytest.param(False, id="a small server"), REAL])
async def test_the_pods_with_the_fewest_jobs_go_first(client: Client, tmp_path: Path, real: bool) -> None:
    """Whatever pods of the same names have in other namespaces."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(deployment_sandbox(client, {"zone-a": 3}))
        fake = await stack.enter_async_context(serving())
        names = await working(made, fake)
        url = await stack.enter_async_context(real_server(tmp_path / "prometheus", fake)) if real else fake.url
        policies, trimtab = await stack.enter_async_context(asking(client, made.name, url))
        patient: JSON = {"query": JOBS, "periodSeconds": 5, "maxAgeSeconds": 300}
        await policies.policy(strategies=[{"name": "Prometheus", "args": patient}])
        await policies.ranked(6)
        async with asyncio.timeout(PATIENCE):  # the webhooks ask for themselves
            while not await trimtab.sample("trimtab_scaledown_oldest_sample_seconds", source="Prometheus"):
                await asyncio.sleep(0.1)
        await made.scale("web", 3)
        await made.settled(3)
        assert {pod.metadata.name for pod in made.pods.store} == set(names[3:])
        assert await trimtab.sample("trimtab_scaledown_source_failures_total") == 0


async def test_a_policy_reads_no_other_namespace_and_says_why_values_are_missing(client: Client) -> None:
    """A query that may read more is refused; one that Prometheus refuses is counted and reported."""

    async def refuse(_: web.Request) -> web.Response:
        body = {"status": "error", "errorType": "bad_data", "error": 'unknown function with name "sun"'}
        return web.json_response(body, status=400)

    async with (
        deployment_sandbox(client, {"zone-a": 3}) as made,
        serving() as fake,
        asking(client, made.name, fake.url) as (policies, trimtab),
    ):
        await working(made, fake)
        spying: JSON = {"name": "Prometheus", "args": {"query": 'jobs{namespace="$namespace"} > on () secret'}}
        with pytest.raises(Invalid, match="secret is not restricted to the namespace"):
            await policies.policy(strategies=[spying])
        await policies.policy(strategies=[ASKED])
        await policies.ranked(6)
        fake.answer = refuse
        found = await policies.wait_for_status(lambda policy: policy.status.unranked_pods == 6)
        (ready,) = (each for each in found.status.conditions if each.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "Unranked")
        assert 'the query is refused: unknown function with name "sun"' in ready.message
        assert await trimtab.sample("trimtab_scaledown_source_failures_total", CONTROLLERS, source="Prometheus") > 0
        fake.answer = None
        await policies.ranked(6)
    assert all(f'namespace="{made.name}"' in form["query"] for form in fake.requests)
