"""The fields of a pod that the validation of its containers depends on."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab_lab.apiserver.storage.store import Tree

_NO_CLAIMS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """The fields of a pod that matter to its containers."""

    volumes: dict[str, Tree]
    claims: frozenset[str] = _NO_CLAIMS
    grace: int | None = None
    restart_policy: str = "Always"
    host_users: bool = True
    os: str = ""
