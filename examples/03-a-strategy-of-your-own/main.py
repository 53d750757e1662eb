"""Pods with the oldest image are deleted first, weighted against the balance of zones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.api.scaledown import StrategySpec
from trimtab.api.times import parse_ns
from trimtab.ranking import Policy, Workload, plan
from trimtab.ranking.strategies import STRATEGIES, Ranks, View
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import cluster, pod


@dataclass(frozen=True)
class OldImages:
    """How many releases behind the newest a pod's image is; tags are plain numbers."""

    newest: int
    name: str = "OldImages"
    recompute: bool = False
    one_at_a_time: bool = False

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """Rank pods by how far they are behind."""
        tags = [int(each.spec.containers[0].image.rpartition(":")[2]) for each in view.pods(rows)]
        return np.array([self.newest - tag for tag in tags])


def old_images(args: Mapping[str, Any]) -> OldImages:
    """Create the strategy from the `args` of a policy."""
    return OldImages(newest=int(args.get("newest", 1)))


made = cluster("z1: a", "z2: x")
for number, (node, tag) in enumerate([("a", 3), ("a", 3), ("a", 1), ("x", 2), ("x", 3)]):
    running = pod(f"web-{number}").on(node).image(f"example.com/web:{tag}")
    made.with_pods(running.created(f"2026-01-0{number + 1}T00:00:00Z").ready())
view = made.snapshot()
strategies = [
    StrategySpec(name="OldImages", weight=2, threshold=5, args={"newest": 3}),
    StrategySpec(name="Balance", weight=1, threshold=5),
]
policy = Policy.of(strategies, {**STRATEGIES, "OldImages": old_images})
decided = plan(Workload.of_all(view), view, policy, replicas=3, now=parse_ns("2026-01-10T00:00:00Z"))
for victim in decided.victims:
    parts = ", ".join(f"{part.strategy} {part.weight} × {part.capped:g}" for part in victim.parts)
    print(f"{victim.key} goes: {parts}")
