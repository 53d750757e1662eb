"""TODO"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_lab.apiserver.storage.store import Tree

_NO_CLAIMS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """What of the pod matters to a container."""

    volumes: dict[str, Tree]
    claims: frozenset[str] = _NO_CLAIMS
    grace: int | None = None
    restart_policy: str = "Always"
    host_users: bool = True
    os: str = ""
