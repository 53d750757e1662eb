"""The nodes that a shape file describes: groups of nodes that are alike, expanded to one plan for each node.

The name of a node does not depend on how many others there are: growing a zone adds nodes and renames none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trimtab.api import quantities
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, REGION, ZONE
from trimtab_lab.nodes.scripts import PREFIX
from trimtab_lab.nodes.shapefile import (
    NodeTemplate,
    Pool,
    ShapeFile,
    Zone,
    check_name,
    check_template,
    check_unique,
    check_value,
)
from trimtab_lab.nodes.views import Taint

CLUSTER = f"{PREFIX}cluster"
"""The label of simulated nodes; its value is the name of their shape."""
POOL = f"{PREFIX}pool"
VIRTUAL = {"type": "virtual-kubelet", "kubernetes.io/role": "agent"}
VIRTUAL_TAINT = "virtual-kubelet.io/provider"

CAPACITY: dict[str, str] = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
VIRTUAL_CAPACITY: dict[str, str] = {"cpu": "10k", "memory": "40Ti", "pods": "100k", "ephemeral-storage": "1Pi"}

MAX_NODES = 20_000


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The desired state of one node."""

    name: str
    zone: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Mapping[str, str]


def plan_nodes(file: ShapeFile) -> dict[str, NodePlan]:
    """Plan all nodes of a shape file, by name, in the order of the file."""
    nodes: dict[str, NodePlan] = {}
    for group in (*_zones(file), *_virtual_pools(file)):
        for plan in group.plans():
            if plan.name in nodes:
                raise InvalidError(f"{group.path}.nodes", f'there are two nodes called "{plan.name}"')
            nodes[plan.name] = plan
        if len(nodes) > MAX_NODES:
            raise InvalidError(f"{group.path}.nodes", f"makes more than {MAX_NODES} nodes, the most one process takes")
    return nodes


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that differ only in their names and racks, with their path in the file."""

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
        """The plans of the nodes, assigned to the racks in turn."""
        named = not isinstance(self.nodes, int)
        names = self.nodes if not isinstance(self.nodes, int) else _numbered(self.stem, self.nodes)
        for index, name in enumerate(names):
            check_name(name, f"{self.path}.nodes[{index}]" if named else f"{self.path}.name")
            rack = {self.rack_key: self.racks[index % len(self.racks)]} if self.racks else {}
            labels = {**self.labels, **rack, HOSTNAME: name}
            yield NodePlan(name, self.zone, labels, self.taints, self.capacity)


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}-{number}" for number in range(1, count + 1)]


def _zones(file: ShapeFile) -> Iterator[NodeGroup]:
    seen: set[str] = set()
    for index, zone in enumerate(file.zones):
        path = f"zones[{index}]"
        check_unique(zone.name, seen, path)
        check_template(zone, path)
        if zone.nodes is None and not zone.pools:
            raise InvalidError(f"{path}.nodes", "is missing: say how many nodes the zone has, or list their names")
        if zone.nodes is not None:
            yield _zone_group(file, zone, None, path)
        yield from _pools(file, zone, path)


def _pools(file: ShapeFile, zone: Zone, path: str) -> Iterator[NodeGroup]:
    seen: set[str] = set()
    for index, pool in enumerate(zone.pools):
        pool_path = f"{path}.pools[{index}]"
        check_unique(pool.name, seen, pool_path)
        check_template(pool, pool_path)
        yield _zone_group(file, zone, pool, pool_path)


def _zone_group(file: ShapeFile, zone: Zone, pool: Pool | None, path: str) -> NodeGroup:
    """The nodes of a zone or of one of its pools. A pool inherits what it does not set from its zone."""
    templates = (file.node, zone) if pool is None else (file.node, zone, pool)
    group = zone if pool is None else pool
    stem = f"{file.prefix}{zone.name}" + (f"-{pool.name}" if pool else "")
    labels = {CLUSTER: file.name, ZONE: zone.name, REGION: file.region if zone.region is None else zone.region}
    if pool is not None:
        labels[POOL] = pool.name
    return NodeGroup(
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


def _virtual_pools(file: ShapeFile) -> Iterator[NodeGroup]:
    seen: set[str] = set()
    for index, pool in enumerate(file.virtual_pools):
        path = f"virtualPools[{index}]"
        check_unique(pool.name, seen, path)
        check_template(pool, path)
        check_value(pool.zone, f"{path}.zone")
        check_value(pool.provider, f"{path}.provider")
        region = file.region if pool.region is None else pool.region
        place = {ZONE: pool.zone, REGION: region} if pool.zone else {}
        yield NodeGroup(
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


# The fields of a group.


def _count(nodes: int | tuple[str, ...] | None, path: str) -> int | tuple[str, ...]:
    if isinstance(nodes, int) and not 0 <= nodes <= MAX_NODES:
        raise InvalidError(path, f"{nodes} is not a number of nodes; it must be from 0 to {MAX_NODES}")
    return () if nodes is None else nodes


def _racks(racks: int | tuple[str, ...], zone: str, path: str) -> tuple[str, ...]:
    """Racks by name, or a number of them, named after their zone."""
    if isinstance(racks, int):
        if not 0 <= racks <= MAX_NODES:
            raise InvalidError(path, f"{racks} is not a number of racks; it must be from 0 to {MAX_NODES}")
        return tuple(f"{zone}-rack-{number}" for number in range(1, racks + 1))
    for index, rack in enumerate(racks):
        check_value(rack, f"{path}[{index}]")
    return racks


def _labels(own: Mapping[str, str], templates: Iterable[NodeTemplate]) -> dict[str, str]:
    """The labels of all templates, the most specific last; the lab's own labels win."""
    values = {key: value for template in templates for key, value in template.labels.items()}
    return {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **values, **own}


def _taints(templates: Iterable[NodeTemplate]) -> tuple[Taint, ...]:
    """All taints; of two with the same key and effect, the more specific one."""
    values = {(line.key, line.effect): line for template in templates for line in template.taints}
    return tuple(Taint(key=line.key, value=line.value, effect=line.effect) for line in values.values())


def _capacity(defaults: Mapping[str, str], templates: Iterable[NodeTemplate]) -> dict[str, str]:
    values = {name: amount for template in templates for name, amount in template.capacity.items()}
    return {name: quantities.parse(amount).canonical for name, amount in {**defaults, **values}.items()}
