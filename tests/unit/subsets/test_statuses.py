"""The status as a table: rows that follow the spec, and the patch that writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.unit.subsets.topologies import NOON
from trimtab.api import codec
from trimtab.api.unitedtopology import SubsetStatus, UnitedTopology, UnitedTopologyStatus, status_tree
from trimtab.subsets import statuses
from trimtab.subsets.statuses import Row, Table, announced_key, pod_and_reservation

JSON = dict[str, Any]
AT = "2026-03-01T12:00:00Z"


def made(*subsets: JSON, rows: list[JSON], generation: int = 1, observed: int = 1, **status: Any) -> UnitedTopology:
    """A UnitedTopology with these subsets, and a status with these rows for a workload of ten pods."""
    stored = {"observedGeneration": observed, "replicas": 10, "revision": "r1", "subsetStatuses": rows, **status}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metadata = {"name": "web", "namespace": "shop", "generation": generation, "resourceVersion": "7"}
    spec = {"targetRef": target, "subsets": list(subsets)}
    return codec.convert({"metadata": metadata, "spec": spec, "status": stored}, UnitedTopology)


def subset(name: str, most: int | str | None = None) -> JSON:
    """A subset, with a maximum or without one."""
    return {"name": name} if most is None else {"name": name, "maxReplicas": most}


def row(name: str, missing: int = 0, replicas: int = 0, **more: Any) -> JSON:
    """A row of a status."""
    return {"name": name, "missingReplicas": missing, "replicas": replicas, **more}


@pytest.mark.parametrize(
    ("topology", "replicas", "want"),
    [
        pytest.param(made(subset("a", 5), rows=[row("a", 2, 3)]), None, 2, id="as it was counted"),
        pytest.param(made(subset("a", 5), rows=[row("a", 4, 3)]), None, 4, id="a pod that ends is missing already"),
        pytest.param(made(subset("a", 5), rows=[row("a", 0, 5)]), None, 0, id="full"),
        pytest.param(made(subset("a", 5), rows=[row("a", 0, 8)]), None, -3, id="above its maximum"),
        pytest.param(made(subset("a", 5), rows=[row("a", 0, 3)]), None, 0, id="none is missing, by the status"),
        pytest.param(made(subset("a", 9), rows=[row("a", 2, 3)], generation=2), None, 6, id="by a new maximum"),
        pytest.param(made(subset("a", 1), rows=[row("a", 2, 3)], generation=2), None, -2, id="by a smaller maximum"),
        pytest.param(made(subset("a", "50%"), rows=[row("a", 2, 3)]), None, 2, id="half of ten, as it was counted"),
        pytest.param(made(subset("a", "50%"), rows=[row("a", 2, 3)]), 10, 2, id="half of the same size"),
        pytest.param(made(subset("a", "50%"), rows=[row("a", 2, 3)]), 20, 7, id="half of a new size"),
        pytest.param(made(subset("a"), rows=[row("a", -1, 3)]), None, 0, id="no maximum"),
        pytest.param(made(subset("b", 4), subset("a", 5), rows=[row("a", 1, 3)]), None, 4, id="a new subset"),
        pytest.param(made(subset("b"), subset("a", 5), rows=[row("a", 1, 3)]), None, 0, id="a new one without maximum"),
    ],
)
def test_missing_pods_follow_the_spec(topology: UnitedTopology, replicas: int | None, want: int) -> None:
    """The status's number counts as long as it was written for the same limits."""
    assert Table(topology, replicas=replicas).rows("r1")[0].missing == want


def test_rows_keep_what_the_status_has() -> None:
    """Counts, entries and pods that are expected from other subsets."""
    entries = {"creating": {"x": AT}, "deleting": {"p": AT}, "missingReschedule": 2}
    (found,) = Table(made(subset("a", 5), rows=[row("a", 1, 4, **entries)])).rows("r1")
    assert (found.name, found.limit, found.replicas, found.reschedule) == ("a", 5, 4, 2)
    assert (found.creating, found.deleting) == ({"x": NOON}, {"p": NOON})
    assert not found.is_idle
    written = found.frozen()
    assert (written.replicas, written.missing_replicas, written.missing_reschedule) == (4, 1, 2)
    assert (written.creating, written.deleting) == ({"x": NOON}, {"p": NOON})


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(Row("a", 5, 3), 3, id="missing pods"),
        pytest.param(Row("a", 5, -2, 7), 0, id="never below zero"),
        pytest.param(Row("a", None, 0, 7), -1, id="without a maximum"),
        pytest.param(Row("a", 0, 0), 0, id="a maximum of none"),
    ],
)
def test_the_number_of_missing_pods_as_it_is_written(found: Row, want: int) -> None:
    """-1 stands for no maximum."""
    assert found.frozen().missing_replicas == want


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (Row("a", 5), True),
        (Row("a", 5, replicas=1), False),
        (Row("a", 5, creating={"x": NOON}), False),
        (Row("a", 5, deleting={"x": NOON}), False),
    ],
    ids=["empty", "pods", "a reservation", "a deletion"],
)
def test_a_row_without_pods_and_entries_is_idle(found: Row, want: bool) -> None:
    """It need not be written for an old revision."""
    assert found.is_idle is want


def test_a_renamed_subset_keeps_its_row() -> None:
    """By its place, where the spec has as many subsets; one that exists elsewhere, or a longer spec, is not renamed."""
    rows = [row("a", 1, 4), row("b", 2, 3)]
    renamed = Table(made(subset("x", 5), subset("b", 5), rows=rows)).rows("r1")
    assert [(each.name, each.replicas) for each in renamed] == [("x", 4), ("b", 3)]
    swapped = Table(made(subset("b", 5), subset("a", 5), rows=rows)).rows("r1")
    assert [(each.name, each.replicas) for each in swapped] == [("b", 3), ("a", 4)]
    moved = Table(made(subset("b", 5), subset("x", 5), rows=rows)).rows("r1")
    assert [(each.name, each.replicas) for each in moved] == [("b", 3), ("x", 0)]
    longer = Table(made(subset("x", 5), subset("b", 5), subset("c", 5), rows=rows)).rows("r1")
    assert [each.replicas for each in longer] == [0, 3, 0]


def test_revisions_have_rows_of_their_own() -> None:
    """A new one has empty rows; one that is idle is not written, and the newest always is."""
    leaving = row("a", 1, 4, deleting={"p": AT})
    older = [{"revision": "r0", "subsetStatuses": [leaving]}, {"revision": "r9", "subsetStatuses": [row("a")]}]
    table = Table(made(subset("a", 5), rows=[row("a", 1, 4, creating={"x": AT})], otherRevisions=older))
    assert table.row("r0", "a") is not None
    assert table.row("r0", "b") is None
    assert table.row("r7", "a") is None
    assert table.rows("r7")[0].is_idle
    assert [revision for revision, _ in table.all()] == ["r1", "r0", "r9", "r7"]
    assert table.entries == 2
    frozen = table.frozen()
    assert [each.name for each in frozen.subset_statuses] == ["a"]
    assert [each.revision for each in frozen.other_revisions] == ["r0"]
    newer = table.frozen(revision="r2", observed_generation=3)
    assert [each.revision for each in newer.other_revisions] == ["r1", "r0"]
    assert (newer.revision, newer.observed_generation, newer.replicas) == ("r2", 3, 10)
    assert [each.missing_replicas for each in newer.subset_statuses] == [5]


@pytest.mark.parametrize(("subsets", "most"), [(1, statuses.MOST_ROWS), (statuses.MOST_ROWS // 5, 5), (400, 4)])
def test_so_many_revisions_have_rows(subsets: int, most: int) -> None:
    """Four in any case; one that is known has a row for each subset already."""
    table = Table(made(*(subset(f"s{number}") for number in range(subsets)), rows=[]))
    for number in range(min(most, 6)):
        assert table.has_space_for(f"r{number}")
        table.rows(f"r{number}")
    if most <= 6:
        assert not table.has_space_for("another")
    assert table.has_space_for("r0")


def test_the_key_of_an_announced_pod_has_both_names() -> None:
    """So that its reservation is found, and its pod."""
    assert pod_and_reservation(announced_key("web-1", "r")) == ("web-1", "r")
    assert pod_and_reservation("r") == ("", "r")


@pytest.mark.parametrize(
    ("topology", "want"),
    [
        pytest.param(made(subset("a"), rows=[row("a")]), True, id="counted"),
        pytest.param(made(subset("a"), rows=[]), False, id="never"),
        pytest.param(made(subset("a"), rows=[row("a")], generation=2), False, id="for an older spec"),
    ],
)
def test_a_status_counts_for_the_spec_that_it_was_counted_for(topology: UnitedTopology, want: bool) -> None:
    """Before that, missing pods are unknown."""
    assert statuses.is_counted(topology) is want


def test_a_status_without_entries_keeps_its_counts() -> None:
    """In all revisions."""
    older = [{"revision": "r0", "subsetStatuses": [row("a", 1, 4, deleting={"p": AT})]}]
    topology = made(subset("a"), rows=[row("a", 2, 3, creating={"x": AT})], otherRevisions=older)
    cleared = statuses.without_entries(topology.status)
    (current,), (other,) = cleared.subset_statuses, cleared.other_revisions[0].subset_statuses
    assert (current.replicas, current.creating, other.replicas, other.deleting) == (3, {}, 4, {})


@pytest.mark.parametrize("hours", [0, 2])
def test_times_are_written_in_utc(hours: int) -> None:
    """With six digits, whatever the time zone in which they are held."""
    moment = datetime(2026, 1, 2, 3 + hours, 4, 5, 60, tzinfo=timezone(timedelta(hours=hours)) if hours else UTC)
    status = UnitedTopologyStatus(subset_statuses=(SubsetStatus(name="a", creating={"p": moment}),))
    (row,) = status_tree(status)["subsetStatuses"]
    assert row["creating"] == {"p": "2026-01-02T03:04:05.000060Z"}


def test_a_patch_has_the_fields_that_changed_and_the_version() -> None:
    """None where nothing did."""
    topology = made(subset("a", 5), rows=[row("a", 2, 3)])
    assert statuses.patch(topology, topology.status) is None
    table = Table(topology)
    table.rows("r1")[0].replicas = 4
    patch = statuses.patch(topology, table.frozen())
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert list(patch["status"]) == ["subsetStatuses"]
    assert patch["status"]["subsetStatuses"][0]["replicas"] == 4
