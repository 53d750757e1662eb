"""The shape of a cluster: its nodes and the timings of its pods, read from YAML.

    zones:
    - {name: zone-a, nodes: 4}
    - {name: zone-b, nodes: 4}

is a complete shape: everything else has a default. `docs/lab-nodes.md` lists all fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.kube.files import parse_yaml
from trimtab_lab.nodes.nodegroups import NodePlan, plan_nodes
from trimtab_lab.nodes.scripts import PodTimings, Span, read_span
from trimtab_lab.nodes.shapefile import PodTimingFields, Seconds, ShapeFile, check_key, check_name, check_template


@dataclass(frozen=True, slots=True)
class Shape:
    """The desired nodes of a cluster, by name, in the order of the file."""

    name: str = "lab"
    nodes: Mapping[str, NodePlan] = field(default_factory=dict)
    timings: PodTimings = field(default_factory=PodTimings)

    @property
    def zones(self) -> list[str]:
        """The zones that have nodes, in the order of the file."""
        return list(dict.fromkeys(plan.zone for plan in self.nodes.values() if plan.zone))

    def names(self, zone: str) -> list[str]:
        """The names of the nodes in a zone."""
        return [plan.name for plan in self.nodes.values() if plan.zone == zone]


def load(path: Path) -> Shape:
    """Read a shape from a file. Errors name the file and the field."""
    try:
        return parse(path.read_text())
    except InvalidError as error:
        raise InvalidError(f"{path}", str(error)) from error


def parse(text: str) -> Shape:
    """Read a shape from YAML text."""
    try:
        tree = parse_yaml(text)
    except yaml.YAMLError as error:
        raise InvalidError("", f"is not YAML: {' '.join(str(error).split())}") from error
    return read({} if tree is None else tree)


def read(tree: Any) -> Shape:
    """Read a shape from plain values."""
    file = codec.convert(tree, ShapeFile)
    check_name(file.name, "name")
    check_key(file.rack_key, "rackKey")
    check_template(file.node, "node")
    return Shape(file.name, plan_nodes(file), _timings(file.pods))


def _timings(written: PodTimingFields) -> PodTimings:
    """The timings of the file, with the defaults where it has none."""
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
