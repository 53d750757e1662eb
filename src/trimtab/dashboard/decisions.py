"""Recent decisions as rows: scale-downs, placements and allocations to subsets, the latest first.

They are observed from outside, so they are there whatever runs in the cluster: scale-downs by the observer that
`trimtab watch` uses, placements and allocations when a pod gets its node or its subset. Scale-downs from before come
from the statuses of policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trimtab.api import times
from trimtab.api.annotations import subset_annotations
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownSummary
from trimtab.dashboard.rights import Rights
from trimtab.inspection.cluster import INFO, Cluster
from trimtab.inspection.observing import ObservedScaleDown

KEPT = 200
"""How many decisions of each sort are kept."""
_PLURALS = {model.__name__: info.plural for model, info in INFO.items()}


class Distributed(Model, omit_defaults=False):
    """The pods in each domain of a constraint, as a scale-down found, planned and left them."""

    topology_key: str
    domains: tuple[str, ...] = ()
    before: tuple[int, ...] = ()
    planned: tuple[int, ...] = ()
    stock: tuple[int, ...] = ()
    left: tuple[int, ...] = ()


class DecisionRow(Model, omit_defaults=False):
    """One decision."""

    sort: str
    """`scale-down`, `placement` or `allocation`."""
    time: str
    namespace: str
    subject: str
    """`Kind/name` of the workload or pod."""
    sentence: str
    result: str = ""
    """Of a scale-down: level, best, missed, or how else it ended."""
    distributions: tuple[Distributed, ...] = ()


class DecisionLog:
    """The last decisions of each sort."""

    def __init__(self, now: Callable[[], int] | None = None) -> None:
        """`now` is the API server's time of day; without it, changes of pods are not noted."""
        self._now = now
        self._rows: dict[str, dict[str, DecisionRow]] = {"scale-down": {}, "placement": {}, "allocation": {}}
        self._last: dict[tuple[str, str], DecisionRow] = {}
        self._number = 0

    def observe(self, record: ObservedScaleDown) -> None:
        """Add a scale-down that has ended."""
        self._add(
            DecisionRow(
                sort="scale-down",
                time=record.time,
                namespace=record.namespace,
                subject=f"{record.kind}/{record.name}",
                sentence=f"{record.from_} → {record.to}: {record.sentence()}",
                result=record.result,
                distributions=tuple(_distributed(record)),
            )
        )

    def note(self, old: Any, new: Any) -> None:
        """Add what a change of a pod shows: that it got its node, or its subset."""
        if not isinstance(new, Pod) or self._now is None:
            return
        time = times.format_time(self._now())
        if new.spec.node_name and not (old is not None and old.spec.node_name):
            self._add(_of_pod("placement", new, f"placed on {new.spec.node_name}", time))
        subset = subset_annotations(new.metadata.annotations)
        known = None if old is None else subset_annotations(old.metadata.annotations)
        if subset is not None and subset != known:
            text = f"allocated to subset {subset.subset} of UnitedTopology {subset.topology}"
            self._add(_of_pod("allocation", new, text, time))

    def rows(self, cluster: Cluster, rights: Rights) -> Mapping[str, DecisionRow]:
        """The decisions that a caller may see, by an identifier that orders them."""
        found = {
            key: _without_domains(row, rights)
            for rows in self._rows.values()
            for key, row in rows.items()
            if _is_visible(row, rights)
        }
        seen = {(row.time, row.namespace, row.subject) for row in found.values()}
        recorded = {
            key: row for key, row in _of_policies(cluster) if (row.time, row.namespace, row.subject) not in seen
        }
        return {**recorded, **found}

    def last_scale_downs(self, cluster: Cluster, rights: Rights) -> Mapping[tuple[str, str], DecisionRow]:
        """The last scale-down of each workload that a caller may see, by namespace and `Kind/name`."""
        recorded: dict[tuple[str, str], DecisionRow] = {}
        for _, row in _of_policies(cluster):
            known = recorded.get((row.namespace, row.subject))
            if known is None or known.time < row.time:
                recorded[row.namespace, row.subject] = row
        return recorded | {key: _without_domains(row, rights) for key, row in self._last.items()}

    def _add(self, row: DecisionRow) -> None:
        self._number += 1
        rows = self._rows[row.sort]
        rows[f"{self._number:09d}"] = row
        if row.sort == "scale-down":
            self._last[row.namespace, row.subject] = row
        if len(rows) > KEPT:
            oldest = rows.pop(next(iter(rows)))
            if self._last.get((oldest.namespace, oldest.subject)) is oldest:
                del self._last[oldest.namespace, oldest.subject]


def _of_pod(sort: str, pod: Pod, sentence: str, time: str) -> DecisionRow:
    metadata = pod.metadata
    return DecisionRow(
        sort=sort, time=time, namespace=metadata.namespace, subject=f"Pod/{metadata.name}", sentence=sentence
    )


def _distributed(record: ObservedScaleDown) -> Iterator[Distributed]:
    for each in record.distributions:
        yield Distributed(
            topology_key=each.topology_key,
            domains=each.domains,
            before=each.before,
            planned=each.planned,
            stock=each.stock,
            left=each.left,
        )


def _is_visible(row: DecisionRow, rights: Rights) -> bool:
    plural = _PLURALS.get(row.subject.partition("/")[0], "")
    return rights.allows("pods", row.namespace) and rights.allows(plural, row.namespace)


def _without_domains(row: DecisionRow, rights: Rights) -> DecisionRow:
    """The row for a caller: domains are labels of nodes, which not everyone may list."""
    if row.sort != "scale-down" or rights.allows("nodes"):
        return row
    size = row.sentence.partition(":")[0]
    return DecisionRow(
        sort=row.sort,
        time=row.time,
        namespace=row.namespace,
        subject=row.subject,
        sentence=f"{size}: {row.result}",
        result=row.result,
    )


def _of_policies(cluster: Cluster) -> Iterator[tuple[str, DecisionRow]]:
    """The scale-downs that the statuses of policies list."""
    for policy in cluster.all(ScaleDownPolicy):
        for number, each in enumerate(policy.status.recent):
            key = f"{policy.metadata.namespace}/{policy.metadata.name}/{number}"
            yield key, _of_summary(policy, each)


def _of_summary(policy: ScaleDownPolicy, each: ScaleDownSummary) -> DecisionRow:
    parts = [("left", each.left), ("planned", each.planned), ("stock may leave", each.stock)]
    told = ", ".join(f"{name} {text}" for name, text in parts if text)
    ending = f"{each.outcome}; {told}" if told else each.outcome
    return DecisionRow(
        sort="scale-down",
        time="" if each.time is None else times.format_time(times.to_ns(each.time)),
        namespace=policy.metadata.namespace,
        subject=each.workload,
        sentence=f"{each.from_} → {each.to}: {ending}",
        result=each.result,
    )
