"""Rows of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab_lab.apiserver.kinds.printers.cells import NONE, age_of, name_of, translate_age
from trimtab_lab.apiserver.kinds.printers.pod_status import PodState
from trimtab_lab.apiserver.storage.store import Tree


def pod_cells(pod: Tree, now: int) -> list[Any]:
    spec, status, state = pod["spec"], pod.get("status") or {}, PodState(pod)
    addresses = status.get("podIPs") or [{}]
    return [
        name_of(pod),
        f"{state.ready}/{state.total}",
        state.reason,
        _restarts(state, now),
        age_of(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec.get("readinessGates") or (), status.get("conditions") or ()),
    ]


def _restarts(state: PodState, now: int) -> str:
    if state.restarts and state.restarted_at:
        return f"{state.restarts} ({translate_age(state.restarted_at, now)} ago)"
    return str(state.restarts)


def _gates(gates: Sequence[Tree], conditions: Sequence[Tree]) -> str:
    if not gates:
        return NONE
    first: dict[str, str] = {}
    for condition in conditions:
        first.setdefault(condition.get("type", ""), condition.get("status", ""))
    passed = sum(first.get(gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"
