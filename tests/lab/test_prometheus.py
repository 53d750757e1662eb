"""The source Prometheus against a real server, where this machine has one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.prometheus import JOBS, MISSING, PROMETHEUS, FakePrometheus, real_server, serving
from tests.unit.ranking.strategies.test_promql import ALLOWED, REFUSED
from trimtab.ranking.strategies import promql
from trimtab.scaledown.sources import SourceError
from trimtab.scaledown.sources.prometheus import PrometheusSource
from trimtab.testing.builders import pod

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROMETHEUS is None, reason=MISSING)]

PODS = [pod(name, namespace="shop").on("a").build() for name in ("web-1", "web-2", "web.3")]
VALID = {
    "up",
    "sum",
    "offset",
    'jobs{namespace="other"}',
    '{__name__=~".+"}',
    'jobs{namespace="$namespace"} and on () (secret > 5)',
    'jobs{namespace="$namespace"} * on () group_left () sum(secret)',
    'jobs{namespace="$namespace"} + offset',
    'jobs{namespace="$namespace"} > bool secret',
    'jobs{namespace="$namespace"} - by',
}
"""Refused queries that Prometheus would execute: they are refused for what they read."""


@dataclass
class Server:
    """A real server, the source that asks it, and what it scrapes."""

    source: PrometheusSource
    url: str
    fake: FakePrometheus


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that has scraped the jobs of two namespaces."""
    async with serving() as fake:
        fake.jobs = {("shop", "web-1"): 3, ("shop", "web-2"): 1.5, ("shop", "web.3"): 0, ("bank", "web-1"): 99}
        async with real_server(tmp_path, fake) as url:
            source = PrometheusSource.configured({"url": url})
            yield Server(source, url, fake)
            await source.close()


async def test_a_real_server_is_understood(server: Server) -> None:
    """Values of the workload's pods, of its own namespace; and what it says of a mistake."""
    assert await server.source.sample(JOBS, PODS) == {"web-1": 3.0, "web-2": 1.5, "web.3": 0.0}
    with pytest.raises(SourceError, match=r"the query is refused: .*parse error"):
        await server.source.sample('sum by (pod) (jobs{namespace="$namespace"}', PODS)
    with pytest.raises(SourceError, match="a matrix; write one that returns an instant vector"):
        await server.source.sample('jobs{namespace="$namespace"}[5m]', PODS)
    with pytest.raises(SourceError, match="series without a label pod"):
        await server.source.sample('sum(jobs{namespace="$namespace"})', PODS)


async def test_what_is_allowed_is_promql(server: Server) -> None:
    """The check of queries refuses nothing for its own sake: what it allows, Prometheus executes."""
    for query in ALLOWED[:-1]:
        answer = await executed(server, query)
        assert answer["status"] == "success", (query, answer)


async def test_what_is_refused_would_be_executed(server: Server) -> None:
    """Several refused queries are valid, and would read other namespaces."""
    assert set(REFUSED) >= VALID
    for query in VALID:
        answer = await executed(server, query)
        assert answer["status"] == "success", (query, answer)


async def executed(server: Server, query: str) -> dict[str, str]:
    """What Prometheus answers to a query, without the check."""
    body = await server.source._ask({"query": promql.expand(query, "shop", ["web-1"]), "timeout": "5s"})  # noqa: SLF001 - past the check
    found: dict[str, str] = json.loads(body)
    return found
