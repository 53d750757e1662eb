"""Versions of the binaries of a control plane, and which of them work together.

Kubernetes' version skew policy holds: the controller manager and the scheduler are as old as the API server or one
minor version older, never newer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
REQUIRED = (ETCD, API_SERVER)
OPTIONAL = (CONTROLLER_MANAGER, SCHEDULER)


class Version(NamedTuple):
    """A version as binaries print it, without suffixes."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


OLDEST_ETCD = Version(3, 5, 1)
OLDEST_KUBERNETES = Version(1, 30, 0)
"""The oldest version that Trimtab supports (docs/install.md)."""
_WATCH_PROGRESS = Version(3, 5, 13)
"""The first etcd whose RequestWatchProgress kube-apiserver trusts (kubernetes#123192)."""
_SETTLED_FLAGS = Version(3, 6, 0)
"""The first etcd that has --watch-progress-notify-interval without the prefix `experimental-`."""

_PATTERN = re.compile(r"(?:etcd Version: |Kubernetes v)(\d+)\.(\d+)\.(\d+)")


def parse(text: str) -> Version | None:
    """Parse the output of `etcd --version` or `kube-… --version`; None if it is something else."""
    match = _PATTERN.search(text)
    return None if match is None else Version(*(int(part) for part in match.groups()))


def supports_watch_progress(etcd: Version) -> bool:
    """Whether kube-apiserver can ask this etcd for the progress of a watch."""
    return etcd >= _WATCH_PROGRESS


def has_settled_flags(etcd: Version) -> bool:
    """Whether the flags for watch progress have lost their prefix `experimental-`."""
    return etcd >= _SETTLED_FLAGS


def problems(versions: Mapping[str, Version]) -> Iterator[str]:
    """Why these binaries cannot run together, each with what to do. Both required ones are there."""
    etcd, server = versions[ETCD], versions[API_SERVER]
    if etcd < OLDEST_ETCD:
        yield f"etcd is {etcd}, which is too old; use {OLDEST_ETCD} or newer"
    if server < OLDEST_KUBERNETES:
        yield f"kube-apiserver is {server}, which is too old; Trimtab supports {OLDEST_KUBERNETES} and newer"
    for name in OPTIONAL:
        if name in versions and not _can_talk_to(versions[name], server):
            yield (
                f"{name} is {versions[name]} and kube-apiserver is {server}; {name} must be of the same minor version "
                "or one older: take both from the same release, or remove it to use the lab's own"
            )


def _can_talk_to(client: Version, server: Version) -> bool:
    return client.major == server.major and 0 <= server.minor - client.minor <= 1
