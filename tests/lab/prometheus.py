"""Prometheus for tests: a small server that answers as one, and a real one where this machine has it.

Both know the same values: those of a metric `jobs` of pods, by namespace and name.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from trimtab_lab.supervisor import find_free_port

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
"""The binary of a real server."""
MISSING = "Prometheus is not installed (Debian: apt-get install prometheus; or $PROMETHEUS names the binary)"
JOBS = 'sum by (pod) (jobs{namespace="$namespace", pod=~"$pods"})'
"""A query for the jobs of pods."""

_SELECTED = re.compile(r'jobs\{namespace="([^"]*)", pod=~"([^"]*)"\}')
_CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
scrape_configs:
- job_name: workers
  honor_labels: true
  static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@dataclass
class FakePrometheus:
    """A server that answers queries for jobs."""

    jobs: dict[tuple[str, str], float] = field(default_factory=dict)
    """The jobs of each pod, by namespace and name."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """The forms of all requests, with their Authorization headers."""
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
    """Answers in place of the values."""
    url: str = ""

    async def query(self, request: web.Request) -> web.StreamResponse:
        """Answer an instant query."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append({**form, "authorization": request.headers.get("Authorization", "")})
        if self.answer is not None:
            return await self.answer(request)
        found = _SELECTED.search(form["query"])
        assert found is not None, form
        pods = re.compile(found[2])
        chosen = {pod: jobs for (space, pod), jobs in self.jobs.items() if space == found[1] and pods.fullmatch(pod)}
        return web.json_response(vector(*(({"pod": pod}, jobs) for pod, jobs in chosen.items())))

    async def metrics(self, _: web.Request) -> web.Response:
        """Expose the jobs, for a real server."""
        lines = [f'jobs{{namespace="{space}",pod="{pod}"}} {jobs}' for (space, pod), jobs in self.jobs.items()]
        return web.Response(text="\n".join(["# TYPE jobs gauge", *lines, ""]))


def vector(*series: tuple[dict[str, str], float | str]) -> dict[str, Any]:
    """An instant vector, as Prometheus answers it."""
    result = [{"metric": labels, "value": [1767225600.123, str(value)]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@asynccontextmanager
async def serving(ssl_context: Any = None) -> AsyncIterator[FakePrometheus]:
    """A fake server on this machine."""
    fake = FakePrometheus()
    application = web.Application()
    application.router.add_post("/api/v1/query", fake.query)
    application.router.add_get("/metrics", fake.metrics)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    fake.url = f"http{'s' if ssl_context else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


@asynccontextmanager
async def real_server(folder: Path, fake: FakePrometheus) -> AsyncIterator[str]:
    """A real server that scrapes the metrics of a fake one every second; yields its address once it has."""
    assert PROMETHEUS is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(_CONFIGURATION.format(port=fake.url.rpartition(":")[2]))
    port = find_free_port()
    arguments = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(PROMETHEUS, *arguments, stderr=log, stdout=log)
    try:
        url = f"http://127.0.0.1:{port}"
        await until_scraped(url, process)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def until_scraped(url: str, process: asyncio.subprocess.Process, query: str = "jobs") -> None:
    """Wait until a query has a result."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(_results, url, query):
            assert process.returncode is None
            await asyncio.sleep(0.2)


def _results(url: str, query: str) -> list[Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/api/v1/query?query={query}", timeout=5) as answer:
            found: list[Any] = json.loads(answer.read())["data"]["result"]
            return found
    except OSError:
        return []
