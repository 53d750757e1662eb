"""Golden results: what a story is known to lead to, in a file that people read, and what has changed since.

A golden result is YAML, a step a paragraph, so that a change of behaviour is a diff that a reviewer understands:

    - step: scale Deployment/web to 20
      pods: 20
      zone: {zone-a: 10, zone-b: 10, zone-c: 0}
      skew: {zone: 10}

It has nothing that differs from run to run: no times, no names of pods. What chance decides is left out as the step's
`compare` says: with `levels` the counts stand in order, without their domains, and with `chance` not at all.

`report` is the other form: everything, for programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trimtab.api.documents import JSON
from trimtab_lab.scenarios.observations import PodDistribution, Spread
from trimtab_lab.scenarios.runner import ALL, Outcome, StepRecord
from trimtab_lab.scenarios.steps import Compare

CHANCE = "by chance"
_WIDTH = 120


def path(folder: Path, story: str) -> Path:
    """Where the golden result of a story is."""
    return folder / f"{story}.yaml"


def golden(outcome: Outcome) -> JSON:
    """What of an outcome should be the same in every run."""
    return {"story": outcome.story.name, "steps": [_golden_step(record) for record in outcome.records]}


def check(outcome: Outcome, folder: Path, *, rewrite: bool = False) -> list[str]:
    """What is not as it should be: failures of the story's own expectations, or differences from its golden result.

    With `rewrite`, the golden result becomes what was seen; but never of a story that failed.
    """
    if outcome.failures or not outcome.complete:
        return outcome.failures or ["the story did not come to its end"]
    file = path(folder, outcome.story.name)
    if rewrite:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dump(golden(outcome)), encoding="utf-8")
        return []
    if not file.exists():
        return [f"there is no golden result {file}: run once more, and have it written"]
    return differences(yaml.safe_load(file.read_text(encoding="utf-8")), golden(outcome))


def dump(tree: JSON) -> str:
    """A golden result as text."""
    text: str = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=_WIDTH, allow_unicode=True)
    return text


def differences(old: JSON, new: JSON) -> list[str]:
    """How two golden results differ, in sentences; nothing if they do not."""
    found = _compared("story", old.get("story"), new.get("story"))
    before, after = old.get("steps") or [], new.get("steps") or []
    for number, (was, now) in enumerate(zip(before, after, strict=False), 1):
        step = f"step {number} ({now['step']})"
        found += _compared(f"{step}: its title", was.get("step"), now["step"])
        found += [each for key in _union(was, now) if key != "step" for each in _field(step, key, was, now)]
    for verb, steps in (("is new", after[len(before) :]), ("is gone", before[len(after) :])):
        found += [f"step ({step['step']}) {verb}" for step in steps]
    return found


def report(outcome: Outcome) -> JSON:
    """Everything about an outcome, as plain values."""
    return {
        "story": outcome.story.name,
        "run": outcome.run.name,
        "complete": outcome.complete,
        "failures": outcome.failures,
        "left": list(outcome.leftovers),
        "topology": dict(outcome.story.topology),
        "steps": [_full_step(record) for record in outcome.records],
        "timeline": {
            "seconds": outcome.timeline.end,
            "domains": msgspec.to_builtins(outcome.timeline.domains_added),
            "pods": msgspec.to_builtins(outcome.timeline.changes),
        },
    }


def _golden_step(record: StepRecord) -> JSON:
    step: JSON = {"step": record.title}
    if record.compare is Compare.CHANCE:
        return step | {"outcome": CHANCE}
    for name, distribution in record.distributions.items():
        tree = _golden_standing(distribution, record.compare)
        step |= tree if name == ALL else {f"of {name}": tree}
    return step


def _golden_standing(distribution: PodDistribution, compare: Compare) -> JSON:
    tree: JSON = {"pods": distribution.counts["pods"]}
    if distribution.counts["unschedulable"]:
        tree["unschedulable"] = distribution.counts["unschedulable"]
    tree |= {key: _golden_spread(spread, compare) for key, spread in distribution.spreads.items()}
    return tree | {"skew": {key: spread.skew for key, spread in distribution.spreads.items()}}


def _golden_spread(spread: Spread, compare: Compare) -> Any:
    return list(spread.levels) if compare is Compare.LEVELS else dict(spread.domains)


def _full_step(record: StepRecord) -> JSON:
    return {
        "number": record.number,
        "title": record.title,
        "at": round(record.at, 3),
        "seconds": round(record.took, 3),
        "failures": list(record.failures),
        "standings": {
            name or "all": {
                "counts": dict(distribution.counts),
                "domains": {key: dict(spread.domains) for key, spread in distribution.spreads.items()},
                "skew": {key: spread.skew for key, spread in distribution.spreads.items()},
            }
            for name, distribution in record.distributions.items()
        },
    }


def _field(step: str, key: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Mappings are compared entry by entry: that a zone has one pod less is what a reader wants to know."""
    old, new = was.get(key), now.get(key)
    if isinstance(old, dict) and isinstance(new, dict):
        for name in _union(old, new):
            yield from _field(f"{step}: {key}", name, old, new)
    else:
        yield from _compared(f"{step}: {key}", old, new)


def _compared(what: str, old: Any, new: Any) -> list[str]:
    return [] if old == new else [f"{what} was {_show(old)}, is {_show(new)}"]


def _show(value: Any) -> str:
    if value is None:
        return "absent"
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def _union(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))
