"""Objects as JSON text that a decoder may stumble over: deep, wide, huge and strange ones, of every kind.

That includes a kind that only a configuration names.

They are text, because Python cannot encode the deep ones either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.lab.rollouts import Rollout
from trimtab.api import complexity
from trimtab.api.apps import ControllerRevision, Deployment
from trimtab.api.cloneset import CloneSet
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.resources import RESOURCES, Resource

MODELS: tuple[type[Any], ...] = (*RESOURCES, Rollout)
"""Every kind that a process may watch."""
DEPTHS = (200, 1100, 9000)
HOLE = '"@"'
"""Where the strange part goes in the text of an object."""

SPECS: Mapping[type[Any], Any] = {
    CloneSet: {"selector": {}, "template": {}},
    UnitedTopology: {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "subsets": [{"name": "a"}],
    },
}
"""The spec of a valid object, for the kinds that need one."""


@dataclass(frozen=True)
class Case:
    """A strange object, and whether it can be read all the same."""

    name: str
    model: type[Any]
    text: str
    is_readable: bool | None = None
    """None where that is not the point."""


def tree(model: type[Any], name: str = "strange", version: str = "7") -> dict[str, Any]:
    """A valid object of a kind."""
    namespace = {"namespace": "n"} if Resource.of(model).namespaced else {}
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version, **namespace}
    return {"metadata": metadata, **({"spec": deepcopy(SPECS[model])} if model in SPECS else {})}


def deep(levels: int) -> str:
    """Nested objects and arrays in turn, with brackets in a string at the bottom."""
    return '{"a":[' * (levels // 2) + '"]}\\"{"' + "]}" * (levels // 2)


def wide(values: int) -> str:
    """Empty arrays: the most values for their length, and those that take longest to decode."""
    return '{"a":[' + ",".join(["[]"] * values) + "]}"


def cases() -> Iterator[Case]:
    """Every kind with everything that may be strange about it."""
    for model in MODELS:
        for name, text, is_readable in _strange(model):
            yield Case(f"{model.__name__}: {name}", model, text, is_readable)
    for levels in DEPTHS:
        yield from _free_form(f"{levels} deep", deep(levels))
    yield from _free_form("of many values", wide(complexity.MAX_VALUES))


def _strange(model: type[Any]) -> Iterator[tuple[str, str, bool | None]]:
    for levels in DEPTHS:
        fields = f'[{{"manager":"m","fieldsV1":{deep(levels)}}}]'
        yield f"managedFields {levels} deep", _with(model, fields, "metadata", "managedFields"), True
        yield f"an unknown field {levels} deep", _with(model, deep(levels), "unknown"), True
        yield f"labels {levels} deep", _with(model, deep(levels), "metadata", "labels"), False
        yield f"a spec {levels} deep", _with(model, deep(levels), "spec"), None
    wide = json.dumps({f"example.com/{n}": "x" for n in range(5_000)})
    yield "5,000 annotations", _with(model, wide, "metadata", "annotations"), True
    yield "20,000 unknown entries", _with(model, json.dumps([{}] * 20_000), "unknown"), True
    yield "a megabyte in one string", _with(model, json.dumps("x" * (1 << 20)), "metadata", "selfLink"), True
    for value in _VALUES:
        yield f"metadata.labels is {value[:20]}", _with(model, value, "metadata", "labels"), None
        yield f"metadata.generation is {value[:20]}", _with(model, value, "metadata", "generation"), None
        yield f"spec is {value[:20]}", _with(model, value, "spec"), None
        yield f"status is {value[:20]}", _with(model, value, "status"), None
    yield "metadata is an array", '{"metadata":[]}', False
    yield "a name that is no string", '{"metadata":{"name":{}}}', False
    yield "an array", "[]", False
    yield "a number", "1", False


_VALUES = (
    "null",
    "true",
    "[]",
    "[[]]",
    "[null]",
    "{}",
    '{"a":null}',
    '{"a":1}',
    '{"":""}',
    '"\\u0000"',
    '"\\ud83d\\ude00"',
    "1e400",
    "-0",
    "9" * 30,
    "9" * 5000,
    "1.5",
)


def _free_form(name: str, value: str) -> Iterator[Case]:
    """The fields of our kinds that hold any JSON."""
    for model, path in (
        (CloneSet, ("spec", "template")),
        (Deployment, ("spec", "template")),
        (Rollout, ("spec", "template")),
        (ControllerRevision, ("data",)),
        (UnitedTopology, ("spec", "subsets", 0, "patch")),
        (ScaleDownPolicy, ("spec", "strategies", 0, "args")),
    ):
        whole = tree(model)
        if model is ScaleDownPolicy:
            whole["spec"] = {"strategies": [{"name": "Balance", "args": {}}]}
        yield Case(f"{model.__name__}: {path[-1]} {name}", model, _put(whole, value, path), is_readable=False)


def _with(model: type[Any], value: str, *path: str) -> str:
    return _put(tree(model), value, path)


def _put(whole: dict[str, Any], value: str, path: tuple[str | int, ...]) -> str:
    *outer, last = path
    at: Any = whole
    for step in outer:
        at = at[step] if isinstance(step, int) else at.setdefault(step, {})
    at[last] = "@"
    return json.dumps(whole).replace(HOLE, value, 1)


CASES = tuple(cases())
