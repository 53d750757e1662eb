"""Outcomes as a run would leave them, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.unit.lab.scenarios.stories import story
from trimtab.testing.builders import pod
from trimtab_lab.scenarios.observations import NodeView, PodDistribution, Spread
from trimtab_lab.scenarios.runner import ALL, Outcome, StepRecord
from trimtab_lab.scenarios.runs import Run
from trimtab_lab.scenarios.timelines import StepMark, Timeline

ZONE = "topology.kubernetes.io/zone"


def distribution(**domains: int) -> PodDistribution:
    """Pods by zone (zone-a is written zone_a), all ready."""
    named = {name.replace("_", "-"): count for name, count in domains.items()}
    total = sum(domains.values())
    counts = {"pods": total, "ready": total, "available": total, "unschedulable": 0, "terminating": 0}
    return PodDistribution({"zone": Spread(named)}, counts)


def record(number: int, title: str, **domains: int) -> StepRecord:
    """The record of a step with these pods."""
    return StepRecord(number, title, at=float(number), took=1.0, distributions={ALL: distribution(**domains)})


def outcome(*records: StepRecord, timeline: Timeline | None = None, **changes: Any) -> Outcome:
    """The outcome of a story with these steps."""
    steps: list[Mapping[str, Any]] = [{"wait": {"pods": 1}, "title": each.title} for each in records]
    told = story(*(dict(step) for step in steps), **changes)
    return Outcome(told, Run(told, "xyz"), tuple(records), timeline or Timeline({"zone": ZONE}))


def history(*states: Sequence[str], steps: Sequence[float] = (0.0,)) -> Timeline:
    """A timeline: each entry is a second later, and says of a pod `name node how`.

    How is `starting`, `ready`, `leaving` or `gone`; nodes are called after their zones.
    """
    timeline = Timeline({"zone": ZONE})
    nodes = {line[1]: NodeView({ZONE: line[1]}) for line in states}
    for at, (name, node, how) in enumerate(states):
        timeline.record_node(nodes[node], float(at))
        built = pod(name).on(node)
        built = built.ready() if how in ("ready", "leaving") else built
        built = built.terminating() if how == "leaving" else built
        timeline.record_pod(built.build(), nodes, float(at), gone=how == "gone")
    timeline.marks = [StepMark(at, number, f"step {number}") for number, at in enumerate(steps, 1)]
    timeline.end = float(len(states))
    return timeline
