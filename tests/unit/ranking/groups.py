"""Words for tests of ranking: a view of all pods of a cluster, and ranks by pod name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from trimtab.api.times import parse_ns
from trimtab.ranking.strategies import STRATEGIES, UNRANKED, Factory, Strategy, View
from trimtab.ranking.strategies.age import Youngest
from trimtab.ranking.strategies.view import FloatColumn, Scores
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import ClusterBuilder, PodBuilder, pod

NOW = parse_ns("2026-01-02T00:00:00Z")


class Paired(Youngest):
    """A strategy of a user's own: a removal does not change its ranks, but only the first choice holds."""

    one_at_a_time: ClassVar[bool] = True


PAIRED: dict[str, Factory] = {"Paired": lambda _: Paired()}
"""The registry that has it."""


def aged(name: str, hour: int, *, minute: int = 0) -> PodBuilder:
    """A pod of the app `web`, created at that time of the day before `NOW`."""
    return pod(name).labels(app="web").created(f"2026-01-01T{hour:02d}:{minute:02d}:00Z")


def view_of(source: ClusterBuilder | Snapshot, *names: str, **handed_in: Mapping[str, float]) -> View:
    """The view of a group: the pods named, or all of the cluster. Values handed in are by pod name."""
    snapshot = source if isinstance(source, Snapshot) else source.snapshot()
    index = snapshot.pods.rows.index
    rows = [index[f"default/{name}"] for name in names] if names else list(index.values())
    values: dict[str, Any] = {
        kind: {f"default/{name}": v for name, v in by_name.items()} for kind, by_name in handed_in.items()
    }
    if "scores" in values:
        values["scores"] = scores_from(values["scores"])
    return View(snapshot, np.array(rows, dtype=np.int64), NOW, **values)


def scores_from(by_key: Mapping[str, float]) -> Scores:
    """A function that gives pods these scores, whatever else changes."""

    def scores(snapshot: Snapshot, rows: IntColumn) -> FloatColumn:
        names = snapshot.pods.rows.names
        return np.array([by_key.get(names[row] or "", UNRANKED) for row in rows.tolist()], dtype=np.float64)

    return scores


def strategy(name: str, **args: Any) -> Strategy:
    """One of Trimtab's strategies."""
    return STRATEGIES[name](args)


def ranks(chosen: Strategy, view: View) -> dict[str, float]:
    """What a strategy says of the view's group, by pod name."""
    found = chosen.rank(view.rows, view)
    names = [(view.snapshot.pods.rows.names[row] or "").partition("/")[2] for row in view.rows.tolist()]
    return dict(zip(names, np.asarray(found, dtype=np.float64).tolist(), strict=True))


def unranked(found: Mapping[str, float]) -> set[str]:
    """The names of the pods without a rank."""
    return {name for name, rank in found.items() if np.isnan(rank)}
