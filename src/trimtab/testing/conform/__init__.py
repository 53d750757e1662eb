"""Answers recorded questions about Kubernetes, so that the answers can be compared with those of the real thing.

A question is a case, one line of JSON:

    {"id": ..., "family": ..., "kind": ..., "input": {...}, "expected": {...}}

`python -m trimtab.testing.conform FAMILY` reads cases and writes `{"id": ..., "actual": {...}}` for each, in order; a
case that cannot be read gets `{"id": ..., "error": "..."}`, and the run goes on. What was expected plays no part in an
answer: `comparison` is where the two meet.

A family is a function from a case to its answer, in a module of its own, entered into `FAMILIES` below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from trimtab.testing.conform import plugins, selectors, spread, victims

Case = dict[str, Any]
Answer = dict[str, Any]
Family = Callable[[Case], Answer]

FAMILIES: Mapping[str, Family] = {
    "active_pods_sort": victims.active_pods_sort,
    "kruise_rank": victims.kruise_rank,
    "pods_to_delete": victims.active_pods_sort,
    "possible_victims": victims.possible_victims,
    "scheduler_plugins": plugins.answer,
    "selectors_quantities": selectors.answer,
    "topology_spread": spread.answer,
}
"""Every family of cases that can be answered."""

_QUESTION = ("id", "family", "kind", "input")


def answer(family: str, case: Case) -> Answer:
    """What Trimtab says to a case. The family is shown the question alone, never what was expected."""
    return FAMILIES[family]({key: case[key] for key in _QUESTION if key in case})


def reply(family: str, line: bytes | str) -> dict[str, Any]:
    """The answer to one line, or why there is none."""
    name = None
    try:
        case = json.loads(line)
        name = case["id"]
        return {"id": name, "actual": answer(family, case)}
    except Exception as error:  # noqa: BLE001 – whatever is wrong with one case, the others get their answers
        return {"id": name, "error": f"{type(error).__name__}: {error}"}
