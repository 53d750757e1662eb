"""One run of a story: the names and labels that separate it from other runs, even on one cluster.

Each run has a namespace, and nodes with the run's prefix. The nodes have the run's label and taint, and pods of the run
get the matching selector and toleration: its pods stay on its nodes, and other pods, which on a real cluster would
never start there, stay away. Neither changes how pods are spread: constraints consider the nodes that a pod's selector
allows, and all of those have the same taint.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trimtab.api.documents import JSON, Document
from trimtab.api.nodes import HOSTNAME
from trimtab_lab.nodes.nodegroups import CLUSTER, NodePlan
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.nodes.views import Taint
from trimtab_lab.scenarios.steps import NodeSelection
from trimtab_lab.scenarios.stories import Story

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and similar characters, as in generated names of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Run:
    """The names of one run."""

    story: Story
    suffix: str
    scheduler: str = ""
    """The scheduler of pods that name none; the cluster's default if empty."""

    @property
    def name(self) -> str:
        """The name of the run, of its namespace, and in the label of its nodes."""
        return f"{self.story.name}-{self.suffix}"

    @property
    def prefix(self) -> str:
        """The prefix of the names of its nodes."""
        return f"{self.suffix}-"

    def shape(self, shape: Shape) -> Shape:
        """A shape of the story with the names, labels and taints of this run."""
        plans = [self._plan(plan) for plan in shape.nodes.values()]
        return replace(shape, name=self.name, nodes={plan.name: plan for plan in plans})

    def chosen(self, selection: NodeSelection, shape: Shape) -> list[str]:
        """The nodes of this run's shape that a step selects."""
        if selection.nodes:
            wanted = {self.prefix + name for name in selection.nodes}
            return [name for name in shape.nodes if name in wanted]
        if selection.zone:
            return shape.names(selection.zone)
        return [plan.name for plan in shape.nodes.values() if selection.labels.items() <= plan.labels.items()]

    def manifest(self, document: Document) -> JSON:
        """A manifest of the story with the selector and toleration of this run."""
        tree = document.tree()
        for spec in _pod_specs(tree):
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), CLUSTER: self.name}
            toleration = {"key": CLUSTER, "operator": "Equal", "value": self.name, "effect": "NoSchedule"}
            spec["tolerations"] = [*(spec.get("tolerations") or []), toleration]
            if self.scheduler:
                spec.setdefault("schedulerName", self.scheduler)
        return tree

    def _plan(self, plan: NodePlan) -> NodePlan:
        name = self.prefix + plan.name
        taint = Taint(key=CLUSTER, value=self.name, effect="NoSchedule")
        labels = {**plan.labels, HOSTNAME: name, CLUSTER: self.name}
        return replace(plan, name=name, labels=labels, taints=(*plan.taints, taint))


def suffix(rng: random.Random) -> str:
    """A short random name."""
    return "".join(rng.choices(_LETTERS, k=5))


def _pod_specs(tree: JSON) -> Iterator[JSON]:
    """The spec of a pod, or of a workload's template."""
    spec = tree.get("spec")
    if not isinstance(spec, dict):
        return
    if tree["kind"] == "Pod":
        yield spec
    template = spec.get("template")
    if isinstance(template, dict):
        yield template.setdefault("spec", {})
