"""The shape of a cluster in YAML: zones, racks, pools, what their nodes have, and what they are called.

    zones:
    - {name: zone-a, nodes: 4}
    - {name: zone-b, nodes: 4}

is a whole shape: everything else has a default. `docs/lab-nodes.md` has all fields. People write shapes, so an unknown
field is a mistake, and every error names its field as in `zones[1].nodes`.

A node's name does not depend on how many others there are: growing a zone adds nodes, and renames none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trimtab.api import codec, quantities
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.nodes import HOSTNAME, REGION, ZONE
from trimtab.api.tolerations import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from trimtab_lab.nodes.scripts import PREFIX, PodTimings, Span, read_span
from trimtab_lab.nodes.views import Taint

CLUSTER = f"{PREFIX}cluster"
"""The label that marks our nodes; its value is the name of their shape."""
RACK = f"{PREFIX}rack"
POOL = f"{PREFIX}pool"
VIRTUAL = {"type": "virtual-kubelet", "kubernetes.io/role": "agent"}
VIRTUAL_TAINT = "virtual-kubelet.io/provider"

CAPACITY: dict[str, str] = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
VIRTUAL_CAPACITY: dict[str, str] = {"cpu": "10k", "memory": "40Ti", "pods": "100k", "ephemeral-storage": "1Pi"}

EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
MAX_NODES = 20_000

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LONGEST_NAME = 63

Quantities = Mapping[str, str | int | float]
Seconds = str | int | float


class _Strict(Model, forbid_unknown_fields=True):
    """Written by people: an unknown field is a mistake."""


class TaintFields(_Strict):
    """A taint that nodes have from the beginning."""

    key: str
    effect: str
    value: str = ""


class NodeTemplate(_Strict):
    """What nodes are like."""

    capacity: Quantities = {}
    labels: Mapping[str, str] = {}
    taints: tuple[TaintFields, ...] = ()


class Pool(NodeTemplate, kw_only=True):
    """Some nodes of a zone that differ from the others."""

    name: str
    nodes: int | tuple[str, ...]
    racks: int | tuple[str, ...] = ()


class Zone(NodeTemplate, kw_only=True):
    """A zone: how many nodes it has, or their names, and which racks they stand in."""

    name: str
    nodes: int | tuple[str, ...] | None = None
    racks: int | tuple[str, ...] = ()
    region: str | None = None
    pools: tuple[Pool, ...] = ()


class VirtualPool(NodeTemplate, kw_only=True):
    """Virtual kubelets: few nodes with room for very many pods, kept apart by a taint."""

    name: str
    nodes: int | tuple[str, ...] = 1
    zone: str = ""
    region: str | None = None
    provider: str = "lab"


class PodTimingFields(_Strict):
    """How long pods take that are not values otherwise."""

    start_seconds: Seconds | None = None
    init_seconds: Seconds | None = None
    ready_seconds: Seconds | None = None
    stop_seconds: Seconds | None = None


class ShapeFile(_Strict):
    """A shape as it is written."""

    name: str = "lab"
    prefix: str = ""
    region: str = "region-1"
    rack_key: str = RACK
    node: NodeTemplate = NodeTemplate()
    zones: tuple[Zone, ...] = ()
    virtual_pools: tuple[VirtualPool, ...] = ()
    pods: PodTimingFields = PodTimingFields()


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node as it should be."""

    name: str
    zone: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster as it should be: its nodes by name, in the order of the file."""

    name: str = "lab"
    nodes: Mapping[str, NodePlan] = field(default_factory=dict)
    timings: PodTimings = field(default_factory=PodTimings)

    @property
    def zones(self) -> list[str]:
        """The zones that have nodes, in the order of the file."""
        return list(dict.fromkeys(plan.zone for plan in self.nodes.values() if plan.zone))

    def names(self, zone: str) -> list[str]:
        """The nodes of a zone."""
        return [plan.name for plan in self.nodes.values() if plan.zone == zone]


def load(path: Path) -> Shape:
    """The shape in a file. Errors name the file and the field."""
    try:
        return parse(path.read_text())
    except InvalidError as error:
        raise InvalidError(f"{path}", str(error)) from error


def parse(text: str) -> Shape:
    """The shape that a YAML document describes."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidError("", f"is not YAML: {' '.join(str(error).split())}") from error
    return read({} if tree is None else tree)


def read(tree: Any) -> Shape:
    """The shape that plain values describe."""
    file = codec.convert(tree, ShapeFile)
    _check_name(file.name, "name")
    _check_key(file.rack_key, "rackKey")
    _check_template(file.node, "node")
    nodes = _collected((*_zones(file), *_virtual_pools(file)))
    return Shape(file.name, nodes, _timings(file.pods))


# Groups of nodes.


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that are alike but for their names and racks, and where in the file they are written."""

    path: str
    stem: str
    zone: str
    nodes: int | tuple[str, ...]
    racks: tuple[str, ...]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Mapping[str, str]
    rack_key: str

    def plans(self) -> Iterator[NodePlan]:
        """The nodes; they are dealt to the racks in turn."""
        named = not isinstance(self.nodes, int)
        names = self.nodes if not isinstance(self.nodes, int) else _numbered(self.stem, self.nodes)
        for index, name in enumerate(names):
            _check_name(name, f"{self.path}.nodes[{index}]" if named else f"{self.path}.name")
            rack = {self.rack_key: self.racks[index % len(self.racks)]} if self.racks else {}
            labels = {**self.labels, **rack, HOSTNAME: name}
            yield NodePlan(name, self.zone, labels, self.taints, self.capacity)


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}-{number}" for number in range(1, count + 1)]


def _zones(file: ShapeFile) -> Iterator[_Group]:
    seen: set[str] = set()
    for index, zone in enumerate(file.zones):
        path = f"zones[{index}]"
        _check_unique(zone.name, seen, path)
        _check_template(zone, path)
        if zone.nodes is None and not zone.pools:
            raise InvalidError(f"{path}.nodes", "is missing: say how many nodes the zone has, or list their names")
        if zone.nodes is not None:
            yield _zone_group(file, zone, None, path)
        yield from _pools(file, zone, path)


def _pools(file: ShapeFile, zone: Zone, path: str) -> Iterator[_Group]:
    seen: set[str] = set()
    for index, pool in enumerate(zone.pools):
        pool_path = f"{path}.pools[{index}]"
        _check_unique(pool.name, seen, pool_path)
        _check_template(pool, pool_path)
        yield _zone_group(file, zone, pool, pool_path)


def _zone_group(file: ShapeFile, zone: Zone, pool: Pool | None, path: str) -> _Group:
    """The nodes of a zone, or of one of its pools: a pool is like its zone but for what it says itself."""
    templates = (file.node, zone) if pool is None else (file.node, zone, pool)
    group = zone if pool is None else pool
    stem = f"{file.prefix}{zone.name}" + (f"-{pool.name}" if pool else "")
    labels = {CLUSTER: file.name, ZONE: zone.name, REGION: file.region if zone.region is None else zone.region}
    if pool is not None:
        labels[POOL] = pool.name
    return _Group(
        path=path,
        stem=stem,
        zone=zone.name,
        nodes=_count(group.nodes, f"{path}.nodes"),
        racks=_racks(group.racks or zone.racks, zone.name, f"{path}.racks"),
        labels=_labels(labels, templates),
        taints=_taints(templates),
        capacity=_capacity(CAPACITY, templates),
        rack_key=file.rack_key,
    )


def _virtual_pools(file: ShapeFile) -> Iterator[_Group]:
    seen: set[str] = set()
    for index, pool in enumerate(file.virtual_pools):
        path = f"virtualPools[{index}]"
        _check_unique(pool.name, seen, path)
        _check_template(pool, path)
        _check_value(pool.zone, f"{path}.zone")
        _check_value(pool.provider, f"{path}.provider")
        region = file.region if pool.region is None else pool.region
        place = {ZONE: pool.zone, REGION: region} if pool.zone else {}
        yield _Group(
            path=path,
            stem=f"{file.prefix}{pool.name}",
            zone=pool.zone,
            nodes=_count(pool.nodes, f"{path}.nodes"),
            racks=(),
            labels=_labels({CLUSTER: file.name, POOL: pool.name, **place, **VIRTUAL}, (pool,)),
            taints=(Taint(key=VIRTUAL_TAINT, value=pool.provider, effect="NoSchedule"), *_taints((pool,))),
            capacity=_capacity(VIRTUAL_CAPACITY, (pool,)),
            rack_key=file.rack_key,
        )


def _collected(groups: Iterable[_Group]) -> dict[str, NodePlan]:
    nodes: dict[str, NodePlan] = {}
    for group in groups:
        for plan in group.plans():
            if plan.name in nodes:
                raise InvalidError(f"{group.path}.nodes", f'there are two nodes called "{plan.name}"')
            nodes[plan.name] = plan
        if len(nodes) > MAX_NODES:
            raise InvalidError(f"{group.path}.nodes", f"makes more than {MAX_NODES} nodes, the most one process takes")
    return nodes


# What groups are made of.


def _count(nodes: int | tuple[str, ...] | None, path: str) -> int | tuple[str, ...]:
    if isinstance(nodes, int) and not 0 <= nodes <= MAX_NODES:
        raise InvalidError(path, f"{nodes} is not a number of nodes; it must be from 0 to {MAX_NODES}")
    return () if nodes is None else nodes


def _racks(racks: int | tuple[str, ...], zone: str, path: str) -> tuple[str, ...]:
    """Racks by name, or so many of them, named after their zone."""
    if isinstance(racks, int):
        if not 0 <= racks <= MAX_NODES:
            raise InvalidError(path, f"{racks} is not a number of racks; it must be from 0 to {MAX_NODES}")
        return tuple(f"{zone}-rack-{number}" for number in range(1, racks + 1))
    for index, rack in enumerate(racks):
        _check_value(rack, f"{path}[{index}]")
    return racks


def _labels(own: Mapping[str, str], templates: Iterable[NodeTemplate]) -> dict[str, str]:
    """The labels of all templates, the most particular last; the lab's own win, for they mark what is ours."""
    said = {key: value for kind in templates for key, value in kind.labels.items()}
    return {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **said, **own}


def _taints(templates: Iterable[NodeTemplate]) -> tuple[Taint, ...]:
    """All of them; of two with the same key and effect, the more particular."""
    said = {(line.key, line.effect): line for kind in templates for line in kind.taints}
    return tuple(Taint(key=line.key, value=line.value, effect=line.effect) for line in said.values())


def _capacity(least: Mapping[str, str], templates: Iterable[NodeTemplate]) -> dict[str, str]:
    said = {name: amount for kind in templates for name, amount in kind.capacity.items()}
    return {name: quantities.parse(amount).canonical for name, amount in {**least, **said}.items()}


def _timings(written: PodTimingFields) -> PodTimings:
    """Each time that is written, in place of the usual one."""
    usual = PodTimings()
    return PodTimings(
        start=_span(written.start_seconds, usual.start, "pods.startSeconds"),
        init=_span(written.init_seconds, usual.init, "pods.initSeconds"),
        ready=_span(written.ready_seconds, usual.ready, "pods.readySeconds"),
        stop=_span(written.stop_seconds, usual.stop, "pods.stopSeconds"),
    )


def _span(written: Seconds | None, usual: Span, path: str) -> Span:
    if written is None:
        return usual
    try:
        return read_span(str(written))
    except InvalidError as error:
        raise error.under(path) from None


# Checks.


def _check_template(kind: NodeTemplate, path: str) -> None:
    for key, value in kind.labels.items():
        _check_key(key, f"{path}.labels[{key}]")
        _check_value(value, f"{path}.labels[{key}]")
    for index, taint in enumerate(kind.taints):
        _check_key(taint.key, f"{path}.taints[{index}].key")
        _check_value(taint.value, f"{path}.taints[{index}].value")
        if taint.effect not in EFFECTS:
            raise InvalidError(f"{path}.taints[{index}].effect", f'"{taint.effect}" is none of {", ".join(EFFECTS)}')
    for name, amount in kind.capacity.items():
        try:
            negative = quantities.parse(amount).sign < 0
        except InvalidError as error:
            raise error.under(f"{path}.capacity[{name}]") from None
        if negative:
            raise InvalidError(f"{path}.capacity[{name}]", f"{amount} is less than nothing")


def _check_unique(name: str, seen: set[str], path: str) -> None:
    _check_name(name, f"{path}.name")
    if name in seen:
        raise InvalidError(f"{path}.name", f'"{name}" is there twice')
    seen.add(name)


def _check_name(name: str, path: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidError(
            path, f'"{name}" cannot be a name: use lower-case letters, digits and -, at most {_LONGEST_NAME} of them'
        )


def _check_key(key: str, path: str) -> None:
    if not _QUALIFIED.fullmatch(key):
        raise InvalidError(path, f'"{key}" cannot be a key; write it as disk or example.com/disk')


def _check_value(value: str, path: str) -> None:
    if not _VALUE.fullmatch(value):
        raise InvalidError(path, f'"{value}" cannot be a label\'s value: use letters, digits, - _ and ., at most 63')
