"""The whole product against a lab, in one process: each component as `trimtab run` would run it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scenarios.calls import Listening
from trimtab.api import configuration
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.app import App, Settings
from trimtab.install import local
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.sessions import Session
from trimtab_lab import provisioning
from trimtab_lab.supervisor import find_free_port

COMPONENTS = ("scheduler", "webhooks", "controllers")


@dataclass(slots=True)
class Product:
    """Running components, and the calls of each to the API server."""

    heard: dict[str, Listening] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)


def configured(**more: Any) -> TrimtabConfiguration:
    """A configuration with a default policy for all workloads, and Trimtab as the default scheduler."""
    port = find_free_port()
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
    tree: Mapping[str, Any] = {
        "scheduler": scheduler,
        "scaleDown": {"defaultPolicies": [{"name": "level", "mode": "Enforce"}]},
        "webhooks": {"host": "127.0.0.1", "port": port, "url": f"https://127.0.0.1:{port}"},
        "serving": {"port": 0},
    }
    return configuration.read({**tree, **more})


@asynccontextmanager
async def product(
    client: Client, kubeconfig: Path, told: TrimtabConfiguration, components: Sequence[str] = COMPONENTS
) -> AsyncIterator[Product]:
    """Run Trimtab against a lab, each component over a connection of its own, for the duration of the context."""
    await provisioning.create_missing(client, local.manifests(told))
    running = Product()
    tasks: list[asyncio.Task[None]] = []
    try:
        for name in components:
            alone = configuration.read(_tree(told, name))
            running.apps[name] = App(Settings(alone, kubeconfig), connect=_listening(running, name))
            tasks.append(asyncio.create_task(running.apps[name].run(), name=name))
        while not all(_is_ready(each) for each in running.apps.values()):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)
        yield running
    finally:
        await cancel(*tasks)


def _tree(told: TrimtabConfiguration, name: str) -> Any:
    from trimtab.api import codec

    return codec.to_tree(told) | {"components": [name]}


def _is_ready(each: App) -> bool:
    return bool(each.components) and all(part.synced for part in each.components.values())


def _listening(running: Product, name: str) -> Any:
    def connect(endpoint: Endpoint) -> Listening:
        """A process has two connections: the second is for leases. Their calls are recorded together."""
        earlier = running.heard.get(name)
        running.heard[name] = Listening(Session(endpoint), earlier.calls if earlier is not None else set())
        return running.heard[name]

    return connect
