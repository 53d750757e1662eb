"""Trimtab as a process beside the cluster: installed, ready, measured, removed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.promise import processes, workloads
from bench.promise.comparison import JSON
from bench.promise.options import Options
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.errors import AlreadyExists, NotFound, UnsupportedMediaType
from trimtab.kube.resources import Resource, untyped

_READY_SECONDS = 60.0
_PLURALS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_SAMPLE = re.compile(r"^(trimtab_(?:scaledown|webhook)_\w+)(\{.*\})? (\S+)$", re.MULTILINE)
_IGNORED = ("_bucket", "_created", "_sum")


@dataclass(frozen=True, slots=True)
class Product:
    """A Trimtab that runs."""

    process: asyncio.subprocess.Process
    serving: str

    async def metrics(self) -> dict[str, float]:
        """What it counts of scale-downs and reviews, zeros left out."""
        with suppress(aiohttp.ClientError, TimeoutError):
            text = await _get(f"{self.serving}/metrics")
            samples = {name + labels: float(value) for name, labels, value in _SAMPLE.findall(text)}
            return {name: value for name, value in samples.items() if value and not _is_ignored(name)}
        return {}


@asynccontextmanager
async def installed(client: Client, options: Options, run: str, logs: Path) -> AsyncIterator[Product]:
    """Install Trimtab for processes outside the cluster, run it, and remove its webhooks in the end."""
    system = f"{run}-system"
    await client.create(workloads.NAMESPACES, {"metadata": {"name": system}})
    webhook_port, serving_port = processes.free_port(), processes.free_port()
    config = logs / "trimtab.json"
    tree = workloads.configuration(system, webhook_port, serving_port, options.policy, options.scale_down)
    config.write_text(json.dumps({**tree, **options.configuration}, indent=2))
    objects = await _objects(config, options)
    await asyncio.gather(*(_apply(client, each) for each in objects))
    arguments = ["run", "--kubeconfig", str(options.kubeconfig), "--config", str(config)]
    arguments += ["--component", "webhooks", "--component", "controllers"]
    clock = processes.shifted_clock(options.faketime, options.preload)
    try:
        async with processes.running("trimtab", arguments, logs, clock) as process:
            product = Product(process, f"http://127.0.0.1:{serving_port}")
            await _wait_ready(client, product, objects)
            yield product
    finally:
        await _remove(client, objects, system)


async def _objects(config: Path, options: Options) -> list[JSON]:
    arguments = ("install", "--local", "--config", str(config), "--kubeconfig", str(options.kubeconfig), "-o", "json")
    items: list[JSON] = json.loads(await processes.output_of(arguments))["items"]
    return items


async def _apply(client: Client, tree: JSON) -> None:
    try:
        await client.patch(_resource(tree), tree["metadata"]["name"], tree, how=PatchKind.APPLY, force=True)
    except UnsupportedMediaType:  # the embedded lab has neither server-side apply nor CEL
        for hook in tree.get("webhooks", ()):
            hook.pop("matchConditions", None)
        with suppress(AlreadyExists):
            await client.create(_resource(tree), tree)


async def _remove(client: Client, objects: list[JSON], system: str) -> None:
    """Remove the webhooks and Trimtab's namespace; definitions stay for the next run."""
    for tree in objects:
        if tree["kind"] != "CustomResourceDefinition":
            with suppress(NotFound):
                await client.delete(_resource(tree), tree["metadata"]["name"])
    await client.delete(workloads.NAMESPACES, system)


def _resource(tree: JSON) -> Resource[JSON]:
    return untyped(tree["apiVersion"], tree["kind"], _PLURALS[tree["kind"]], namespaced=False)


async def _wait_ready(client: Client, product: Product, objects: list[JSON]) -> None:
    """Wait until Trimtab says that it is ready and the webhooks trust its certificate."""
    hooks = [tree for tree in objects if "webhooks" in tree]
    deadline = time.monotonic() + _READY_SECONDS
    while not (await _says_ready(product) and await _is_trusted(client, hooks)):
        if product.process.returncode is not None:
            raise processes.ProcessError("trimtab run ended; see its log")
        if time.monotonic() > deadline:
            raise processes.ProcessError(f"Trimtab is not ready after {_READY_SECONDS:.0f} s; see its log")
        await asyncio.sleep(0.2)
    await asyncio.sleep(2.0)  # API servers learn of changed webhooks by a watch of their own


async def _says_ready(product: Product) -> bool:
    with suppress(aiohttp.ClientError, TimeoutError):
        await _get(f"{product.serving}/readyz")
        return True
    return False


async def _is_trusted(client: Client, hooks: list[JSON]) -> bool:
    current = [await client.get(_resource(tree), tree["metadata"]["name"]) for tree in hooks]
    return all(hook["clientConfig"].get("caBundle") for tree in current for hook in tree["webhooks"])


async def _get(url: str) -> str:
    timeout = aiohttp.ClientTimeout(total=5.0)
    async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session, session.get(url) as answer:
        return await answer.text()


async def history(installation: Product) -> list[JSON]:
    """The scale-downs that it has recorded, the latest first."""
    records: list[JSON] = json.loads(await _get(f"{installation.serving}/scaledowns"))
    return records


def _is_ignored(name: str) -> bool:
    return name.partition("{")[0].endswith(_IGNORED)
