"""Scale-downs summed up: how many there were, how many left a domain behind, and how many the plan would have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.nodes import DEPRECATED_ZONE, ZONE
from trimtab.api.scaledown import ScaleDownCounts, ScaleDownPolicy
from trimtab.scaledown.results.history import ScaleDownRecord

_BEHIND = 2
"""From this skew on a domain is left behind."""
_JUDGED = ("level", "best", "missed")


class WorkloadSummary(Model, omit_defaults=False):
    """The scale-downs of one workload."""

    workload: str
    """`namespace/Kind/name`."""
    total: int
    behind: int
    would_be_behind: int


class ScaleDownReport(Model, omit_defaults=False):
    """Scale-downs, summed up."""

    total: int
    judged: int
    """Those that ended, and whose pods are of one revision: only these count below."""
    behind: int
    """Those that left a domain of their first constraint two or more pods behind another."""
    would_be_behind: int
    """Those in which the plan would have."""
    missed: int
    """Those that ended less level than was possible."""
    by_result: dict[str, int]
    topology_keys: tuple[str, ...] = ()
    workloads: tuple[WorkloadSummary, ...] = ()
    """Those that left a domain behind most often first."""

    def sentence(self) -> str:
        """The report in one line."""
        zones = bool(self.topology_keys) and set(self.topology_keys) <= {ZONE, DEPRECATED_ZONE}
        domain = "zone" if zones else "domain"
        downs = "scale-down" if self.total == 1 else "scale-downs"
        return (
            f"{self.total} {downs}, {self.behind} left a {domain} two or more behind, {self.would_be_behind} would have"
        )


class PolicyReport(Model, omit_defaults=False):
    """What the status of one policy counts."""

    policy: str
    counts: ScaleDownCounts


class InstallationReport(Model, omit_defaults=False):
    """The scale-downs that an installation's policies have counted, and the last ones of each."""

    policies: tuple[PolicyReport, ...]
    recent: tuple[dict[str, Any], ...]
    total: int
    level: int
    best: int
    missed: int
    skipped: int
    observed: int
    recent_behind: int = 0
    """Of the last ones, those that left a domain two or more behind."""
    recent_would_be_behind: int = 0
    """Of the last ones, those in which the plan would have."""

    def sentence(self) -> str:
        """The report in one line."""
        ended = f"{self.level} ended level, {self.best} as level as was possible, {self.missed} less level than that"
        return f"{self.total} scale-downs: {ended}; {self.skipped} were not planned, {self.observed} only observed"


def summarize(records: Iterable[ScaleDownRecord]) -> ScaleDownReport:
    """Sum up records of scale-downs."""
    found = list(records)
    judged = [each for each in found if each.result in _JUDGED]
    keys = {each.distributions[0].topology_key for each in judged if each.distributions}
    return ScaleDownReport(
        total=len(found),
        judged=len(judged),
        behind=sum(map(is_behind, judged)),
        would_be_behind=sum(map(would_be_behind, judged)),
        missed=sum(each.result == "missed" for each in judged),
        by_result=dict(Counter(each.result or "open" for each in found)),
        topology_keys=tuple(sorted(keys)),
        workloads=_by_workload(judged),
    )


def is_behind(record: ScaleDownRecord) -> bool:
    """Whether a scale-down left a domain of its first constraint two or more behind."""
    first = next(iter(record.distributions), None)
    return first is not None and first.skew_left is not None and first.skew_left >= _BEHIND


def would_be_behind(record: ScaleDownRecord) -> bool:
    """Whether its plan would have."""
    first = next(iter(record.distributions), None)
    return first is not None and first.skew_planned >= _BEHIND


def _by_workload(judged: Sequence[ScaleDownRecord]) -> tuple[WorkloadSummary, ...]:
    groups: dict[str, list[ScaleDownRecord]] = {}
    for each in judged:
        groups.setdefault(f"{each.namespace}/{each.kind}/{each.name}", []).append(each)
    found = [
        WorkloadSummary(
            workload=name,
            total=len(records),
            behind=sum(map(is_behind, records)),
            would_be_behind=sum(map(would_be_behind, records)),
        )
        for name, records in groups.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.behind, -each.total, each.workload)))


def of_policies(policies: Iterable[ScaleDownPolicy]) -> InstallationReport:
    """What the statuses of an installation's policies have counted."""
    found = sorted(policies, key=lambda each: (each.metadata.namespace, each.metadata.name))
    names = [field.name for field in msgspec.structs.fields(ScaleDownCounts)]
    totals = {name: sum(getattr(each.status.counts, name) for each in found) for name in names}
    return InstallationReport(
        policies=tuple(
            PolicyReport(policy=f"{each.metadata.namespace}/{each.metadata.name}", counts=each.status.counts)
            for each in found
        ),
        recent=tuple(
            {"namespace": each.metadata.namespace, **codec.to_tree(one)} for each in found for one in each.status.recent
        ),
        recent_behind=sum(_skew(one.left) >= _BEHIND for each in found for one in each.status.recent),
        recent_would_be_behind=sum(_skew(one.planned) >= _BEHIND for each in found for one in each.status.recent),
        **totals,
    )


def _skew(text: str) -> int:
    """The skew of pods by domain as a status writes them: `7/7/6`, or `1 to 4 in each of 12 domains`."""
    numbers = [int(number) for number in re.findall(r"\d+", text.partition(" in each")[0])]
    return max(numbers) - min(numbers) if numbers else 0


def read_records(text: str, origin: str) -> list[ScaleDownRecord]:
    """Records from what `/scaledowns` serves, from `trimtab watch -o json`, or from a log in JSON.

    Lines of a log that are no records are skipped. Raises InvalidError for text that holds none and is not empty.
    """
    stripped = text.strip()
    if stripped.startswith("["):
        return codec.decode(stripped, list[ScaleDownRecord])
    found = [record for line in stripped.splitlines() if (record := _of_line(line)) is not None]
    if stripped and not found:
        reason = "has no records of scale-downs; save http://…/scaledowns of the webhooks, or `trimtab watch -o json`"
        raise InvalidError(origin, reason)
    return found


def _of_line(line: str) -> ScaleDownRecord | None:
    try:
        tree = msgspec.json.decode(line)
        found = tree.get("scaleDown", tree) if isinstance(tree, dict) else None
        return None if found is None or "distributions" not in found else codec.convert(found, ScaleDownRecord)
    except (msgspec.MsgspecError, InvalidError):
        return None


def read_files(paths: Iterable[Path]) -> list[ScaleDownRecord]:
    """The records of some files; of one that several hold, the last."""
    found: dict[str, ScaleDownRecord] = {}
    for path in paths:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidError(str(path), f"cannot be read: {error}") from error
        for record in read_records(text, str(path)):
            found[f"{record.uid}/{record.id}"] = record
    return list(found.values())
