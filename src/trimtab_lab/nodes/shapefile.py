"""The fields of a shape file, and the checks that its values must pass.

People write shapes, so an unknown field is an error, and every error names its field, as in `zones[1].nodes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trimtab.api import quantities
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.tolerations import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from trimtab_lab.nodes.scripts import PREFIX

RACK = f"{PREFIX}rack"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LONGEST_NAME = 63

Quantities = Mapping[str, str | int | float]
Seconds = str | int | float


class _Strict(Model, forbid_unknown_fields=True):
    """A type that refuses unknown fields."""


class TaintFields(_Strict):
    """A taint that nodes have from the beginning."""

    key: str
    effect: str
    value: str = ""


class NodeTemplate(_Strict):
    """The capacity, labels and taints of nodes."""

    capacity: Quantities = {}
    labels: Mapping[str, str] = {}
    taints: tuple[TaintFields, ...] = ()


class Pool(NodeTemplate, kw_only=True):
    """Nodes of a zone that differ from the others."""

    name: str
    nodes: int | tuple[str, ...]
    racks: int | tuple[str, ...] = ()


class Zone(NodeTemplate, kw_only=True):
    """A zone: the number or the names of its nodes, and their racks."""

    name: str
    nodes: int | tuple[str, ...] | None = None
    racks: int | tuple[str, ...] = ()
    region: str | None = None
    pools: tuple[Pool, ...] = ()


class VirtualPool(NodeTemplate, kw_only=True):
    """Virtual kubelets: few nodes with room for very many pods, with a taint."""

    name: str
    nodes: int | tuple[str, ...] = 1
    zone: str = ""
    region: str | None = None
    provider: str = "lab"


class PodTimingFields(_Strict):
    """How long pods without annotations take."""

    start_seconds: Seconds | None = None
    init_seconds: Seconds | None = None
    ready_seconds: Seconds | None = None
    stop_seconds: Seconds | None = None


class ShapeFile(_Strict):
    """The content of a shape file."""

    name: str = "lab"
    prefix: str = ""
    region: str = "region-1"
    rack_key: str = RACK
    node: NodeTemplate = NodeTemplate()
    zones: tuple[Zone, ...] = ()
    virtual_pools: tuple[VirtualPool, ...] = ()
    pods: PodTimingFields = PodTimingFields()


# Checks.


def check_template(kind: NodeTemplate, path: str) -> None:
    for key, value in kind.labels.items():
        check_key(key, f"{path}.labels[{key}]")
        check_value(value, f"{path}.labels[{key}]")
    for index, taint in enumerate(kind.taints):
        check_key(taint.key, f"{path}.taints[{index}].key")
        check_value(taint.value, f"{path}.taints[{index}].value")
        if taint.effect not in EFFECTS:
            raise InvalidError(f"{path}.taints[{index}].effect", f'"{taint.effect}" is not one of {", ".join(EFFECTS)}')
    for name, amount in kind.capacity.items():
        try:
            negative = quantities.parse(amount).sign < 0
        except InvalidError as error:
            raise error.under(f"{path}.capacity[{name}]") from None
        if negative:
            raise InvalidError(f"{path}.capacity[{name}]", f"{amount} is negative")


def check_unique(name: str, seen: set[str], path: str) -> None:
    check_name(name, f"{path}.name")
    if name in seen:
        raise InvalidError(f"{path}.name", f'"{name}" is used twice')
    seen.add(name)


def check_name(name: str, path: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidError(
            path, f'"{name}" cannot be a name: use lower-case letters, digits and -, at most {_LONGEST_NAME} of them'
        )


def check_key(key: str, path: str) -> None:
    if not _QUALIFIED.fullmatch(key):
        raise InvalidError(path, f'"{key}" cannot be a key; write it as disk or example.com/disk')


def check_value(value: str, path: str) -> None:
    if not _VALUE.fullmatch(value):
        raise InvalidError(path, f'"{value}" cannot be a label\'s value: use letters, digits, - _ and ., at most 63')
