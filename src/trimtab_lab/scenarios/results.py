"""Golden results: the known outcome of a story, in a file that people read, and the differences from it.

A golden result is YAML, one paragraph for each step, so that a change of behaviour is a readable diff:

    - step: scale Deployment/web to 20
      pods: 20
      zone: {zone-a: 10, zone-b: 10, zone-c: 0}
      skew: {zone: 10}

It has nothing that differs between runs: no times, no names of pods. Random results are left out as the step's
`compare` says: `levels` sorts the counts, without their domains, and `chance` omits them.

`report` is the complete form, for programs.
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
    """The file of the golden result of a story."""
    return folder / f"{story}.yaml"


def golden(outcome: Outcome) -> JSON:
    """The part of an outcome that is the same in every run."""
    return {"story": outcome.story.name, "steps": [_golden_step(record) for record in outcome.records]}


def check(outcome: Outcome, folder: Path, *, rewrite: bool = False) -> list[str]:
    """Failures of the story's expectations, or differences from its golden result.

    `rewrite` writes the golden result instead, unless the story failed.
    """
    if outcome.failures or not outcome.complete:
        return outcome.failures or ["the story did not complete"]
    file = path(folder, outcome.story.name)
    if rewrite:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dump(golden(outcome)), encoding="utf-8")
        return []
    if not file.exists():
        return [f"there is no golden result {file}: write it with --rewrite-golden"]
    return differences(yaml.safe_load(file.read_text(encoding="utf-8")), golden(outcome))


def dump(tree: JSON) -> str:
    """A golden result as text."""
    text: str = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=_WIDTH, allow_unicode=True)
    return text


def differences(old: JSON, new: JSON) -> list[str]:
    """The differences of two golden results, in sentences."""
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
    """The whole outcome, as plain values."""
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
    """Compare mappings entry by entry, so that a difference names the zone."""
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
