"""Pods as kubelets see them, in words, and times to count from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.api import codec, times
from trimtab.kube.clocks import SECOND
from trimtab_lab.nodes.views import Pod

START = times.parse_ns("2026-01-01T00:00:00Z")


def at(seconds: float) -> int:
    """So many seconds after the start."""
    return START + round(seconds * SECOND)


def moment(seconds: float) -> str:
    """The same as it is written."""
    return times.format_time(at(seconds))


def a_pod(
    *,
    uid: str = "u",
    containers: tuple[str, ...] = ("main",),
    inits: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod. An init container whose name begins with `+` is a sidecar; annotations are without their prefix."""
    prefixed = {f"lab.trimtab.dev/{name}": value for name, value in (annotations or {}).items()}
    named = {"name": "p", "namespace": "default", "uid": uid, "generation": 1, "annotations": prefixed}
    return codec.convert(
        {
            "metadata": {**named, **(metadata or {})},
            "spec": {
                "containers": [{"name": name, "image": f"{name}:1"} for name in containers],
                "initContainers": [_init(name) for name in inits],
                **spec,
            },
            "status": dict(status or {}),
        },
        Pod,
    )


def _init(name: str) -> dict[str, str]:
    made = {"name": name.removeprefix("+"), "image": "init:1"}
    return made | ({"restartPolicy": "Always"} if name.startswith("+") else {})
