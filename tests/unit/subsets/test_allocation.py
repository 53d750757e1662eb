"""Places for new pods, from a status alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.subsets.topologies import NOON, REVISION, at, counted, member, subset, topology, with_status
from trimtab.api.unitedtopology import RevisionStatus, Shortage, SubsetStatus, UnitedTopology, UnitedTopologyStatus
from trimtab.subsets.allocation import (
    PodCreation,
    PodDeletion,
    allocate,
    announce,
    announced_deletions,
    needs_size,
    reservations,
    restore,
    revert_deletions,
    withdraw,
)
from trimtab.subsets.recount import CREATION_LIMIT
from trimtab.subsets.statuses import Table, is_counted, patch


def creations(count: int, revision: str = REVISION) -> list[PodCreation]:
    """So many pods that are being created."""
    return [PodCreation(f"of-{number}", revision) for number in range(count)]


def chosen(of: UnitedTopology, count: int, **facts: object) -> list[str | None]:
    """Where so many pods go, by the names of the subsets."""
    made = allocate(of, creations(count), now=NOON, **facts)  # type: ignore[arg-type]
    return [None if index is None else of.spec.subsets[index].name for index in made.choices.values()]


def written(*rows: SubsetStatus, of: UnitedTopology, replicas: int = 10) -> UnitedTopology:
    """A UnitedTopology with this status."""
    status = UnitedTopologyStatus(
        observed_generation=of.metadata.generation, replicas=replicas, revision=REVISION, subset_statuses=rows
    )
    return with_status(of, status)


def test_subsets_are_filled_in_order() -> None:
    """A number, a percentage, no limit."""
    of = counted(topology(subset("a", 2), subset("b", "30%"), subset("c")))
    assert chosen(of, 7) == ["a", "a", "b", "b", "b", "c", "c"]


def test_without_free_capacity_a_pod_gets_no_subset() -> None:
    """The pod is admitted unmodified."""
    assert chosen(counted(topology(subset("a", 1))), 2) == ["a", None]


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param(SubsetStatus(name="a", missing_replicas=2), ["a", "a", "b"], id="as many as are missing"),
        pytest.param(
            SubsetStatus(name="a", missing_replicas=2, creating={"x": NOON}), ["a", "b", "b"], id="less those reserved"
        ),
        pytest.param(
            SubsetStatus(name="a", missing_replicas=0, replicas=3, deleting={"x": NOON}),
            ["b", "b", "b"],
            id="an unconfirmed deletion frees no capacity",
        ),
        pytest.param(
            SubsetStatus(name="a", missing_replicas=0, replicas=5, deleting={"gone": NOON}),
            ["b", "b", "b"],
            id="one that makes up for too many does not either",
        ),
        pytest.param(
            SubsetStatus(name="a", missing_replicas=0, replicas=3, deleting={"gone": NOON}),
            ["a", "b", "b"],
            id="a confirmed one frees capacity for one",
        ),
    ],
)
def test_free_capacity_is_missing_less_creating_plus_deleting(row: SubsetStatus, want: list[str]) -> None:
    """The proposal's sum, read from the status."""
    of = written(row, SubsetStatus(name="b", missing_replicas=-1), of=topology(subset("a", 3), subset("b")))
    assert chosen(of, 3, confirmed={"gone"}) == want


def test_uncertainty_names_the_pods_to_read() -> None:
    """A subset was skipped although a deletion may be confirmed and pods may have ended."""
    rows = (SubsetStatus(name="a", replicas=1, deleting={"p": NOON}), SubsetStatus(name="b", replicas=5))
    of = written(*rows, of=topology(subset("a", 1), subset("b", "50%")))
    uncertainty = allocate(of, creations(1), now=NOON).uncertainty
    assert (uncertainty.deleting, uncertainty.full) == ({"p": NOON}, True)
    assert not allocate(of, creations(1), now=NOON, confirmed={"p"}).uncertainty.deleting


def test_deletions_that_would_leave_a_subset_full_are_not_read() -> None:
    """Should the announced pod be gone, the reservation takes its capacity: the answer is the same."""
    row = SubsetStatus(name="a", replicas=1, creating={"x": NOON}, deleting={"p": NOON})
    of = written(row, SubsetStatus(name="b", missing_replicas=-1), of=topology(subset("a", 1), subset("b")))
    assert chosen(of, 1) == ["b"]
    assert not allocate(of, creations(1), now=NOON).uncertainty.deleting


def test_only_deletions_in_doubt_are_to_be_read() -> None:
    """One of two is confirmed; the subset has a pod too many, and room for the new one only without both."""
    row = SubsetStatus(name="a", replicas=2, deleting={"p": NOON, "q": at(1)})
    of = written(row, SubsetStatus(name="b", missing_replicas=-1), of=topology(subset("a", 1), subset("b")))
    made = allocate(of, creations(1), now=NOON, confirmed={"p"})
    assert (made.choices, made.uncertainty.deleting) == ({"of-0": 1}, {"q": at(1)})


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param({"replicas": 1}, True, id="of pods: some may have ended"),
        pytest.param({"missing_replicas": 1, "creating": {"x": NOON}}, False, id="of reservations: none has"),
    ],
)
def test_a_subset_that_is_full_of_pods_is_uncertain(row: dict[str, Any], want: bool) -> None:
    """Reservations are as certain as the status itself."""
    rows = (SubsetStatus(name="a", **row), SubsetStatus(name="b", missing_replicas=-1))
    made = allocate(written(*rows, of=topology(subset("a", 1), subset("b"))), creations(1), now=NOON)
    assert (made.choices, made.uncertainty.full) == ({"of-0": 1}, want)


def test_with_free_capacity_nothing_is_uncertain() -> None:
    """With free capacity in the first subset nothing must be read."""
    of = counted(topology(subset("a", 3), subset("b", "50%")))
    uncertainty = allocate(of, creations(3), now=NOON).uncertainty
    assert not uncertainty.deleting
    assert not uncertainty.full


def test_of_two_deletions_of_one_name_the_later_is_reported() -> None:
    """The name was used again by another revision: what is known of the first pod does not apply to the second."""
    a = SubsetStatus(name="a", replicas=1, deleting={"p": at(2)})
    of = written(a, of=topology(subset("a", 1)))
    old = RevisionStatus(revision="r0", subset_statuses=(SubsetStatus(name="a", replicas=1, deleting={"p": at(1)}),))
    of = with_status(of, msgspec.structs.replace(of.status, other_revisions=(old,)))
    assert announced_deletions(of) == {"p": at(2)}
    both = [PodCreation("of-x", REVISION), PodCreation("of-y", "r0")]
    assert allocate(of, both, now=at(3)).uncertainty.deleting == {"p": at(2)}


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param((1, None), False, id="numbers"),
        pytest.param((1, "0%"), True, id="a percentage"),
    ],
)
def test_percentages_need_the_size(limits: tuple[int | str | None, ...], want: bool) -> None:
    """It is read only where it matters."""
    assert needs_size(topology(*(subset(f"s{place}", most) for place, most in enumerate(limits)))) is want


def test_a_larger_workload_has_larger_percentages() -> None:
    """The size that was just read counts, and is written with the reservation."""
    of = counted(topology(subset("a", "50%")), member("p", "a"), replicas=2)
    assert chosen(of, 1) == [None]
    made = allocate(of, creations(1), now=NOON, replicas=4)
    assert made.status.replicas == 4
    assert list(made.choices.values()) == [0]


def test_a_newer_spec_than_the_counted_one_is_used() -> None:
    """Limits are those of the current spec; counts stay as they are."""
    of = counted(topology(subset("a", 3), subset("b")), member("p", "a"), member("q", "a"))
    changed = with_status(topology(subset("a", 2), subset("new", 1), subset("b"), generation=2), of.status)
    assert chosen(changed, 2) == ["new", "b"]


def test_a_reservation_whose_response_was_lost_is_found_again() -> None:
    """The same reservation gets the same subset, and counts once."""
    of = counted(topology(subset("a", 2), subset("b")))
    made = allocate(of, creations(3), now=NOON)
    first = with_status(of, made.status)
    again = allocate(first, creations(3), now=at(1))
    assert again.status == first.status
    assert list(again.choices.values()) == list(made.choices.values()) == [0, 0, 1]


def test_each_revision_is_counted_by_itself() -> None:
    """Another revision finds all subsets empty."""
    of = counted(topology(subset("a", 1), subset("b")), member("p", "a"))
    made = allocate(of, creations(2, "r2"), now=NOON)
    assert list(made.choices.values()) == [0, 1]
    assert [other.revision for other in made.status.other_revisions] == ["r2"]


def test_the_reservation_of_an_uncounted_deleted_pod_gets_its_name() -> None:
    """Both entries belong together then, and nothing is counted twice however often it is announced."""
    of = counted(topology(subset("a", 1), subset("b")))
    of = with_status(of, allocate(of, [PodCreation("of-p", REVISION)], now=NOON).status)
    deletion = PodDeletion("p", REVISION, "a", "of-p")
    of = with_status(of, announce(of, [deletion, deletion], now=at(1)))
    row = of.status.subset_statuses[0]
    assert (row.creating, row.deleting) == ({"p@of-p": NOON}, {"p": at(1)})
    assert announce(of, [deletion], now=at(9)) == of.status
    assert chosen(of, 2, confirmed={"p"}) == ["a", "b"]
    assert revert_deletions(of, ["p"]).subset_statuses[0].deleting == {}


def test_a_later_pod_of_a_name_keeps_its_own_reservation() -> None:
    """A confirmed deletion of the first pod would free the capacity of the second."""
    of = counted(topology(subset("a", 2), subset("b")), member("p", "a"), member("q", "a"))
    of = with_status(of, announce(of, [PodDeletion("p", REVISION, "a", "of-p")], now=NOON))
    of = with_status(of, allocate(of, [PodCreation("again", REVISION)], now=NOON, confirmed={"p"}).status)
    row = announce(of, [PodDeletion("p", REVISION, "a", "again")], now=at(1)).subset_statuses[0]
    assert (row.replicas, row.creating, row.deleting) == (2, {"again": NOON}, {})


def test_pods_of_unknown_subsets_announce_nothing() -> None:
    """A subset that was removed has no row."""
    of = counted(topology(subset("a", 1)))
    assert announce(of, [PodDeletion("p", REVISION, "gone"), PodDeletion("q", "r9", "a")], now=NOON) == of.status


def test_a_withdrawn_reservation_is_free_again() -> None:
    """Its pod went on without it."""
    of = counted(topology(subset("a", 1), subset("b")))
    of = with_status(of, allocate(of, creations(1), now=NOON).status)
    assert withdraw(of, ["of-0", "unknown"]).subset_statuses[0].creating == {}


def fits_only(*subsets: int) -> Callable[[int], bool]:
    """A pod that finds a node in these subsets alone."""
    return lambda index: index in subsets


@pytest.mark.parametrize(
    ("fits", "shortage", "want"),
    [
        pytest.param(fits_only(0, 1), "", 0, id="the first that fits"),
        pytest.param(fits_only(1), "", 1, id="not one without a node for it"),
        pytest.param(fits_only(), "", 0, id="if none fits, it waits in the first"),
        pytest.param(fits_only(0, 1), "a", 1, id="not one that was found full"),
        pytest.param(fits_only(0), "a", 1, id="rather one that does not fit than one that was found full"),
    ],
)
def test_adaptive_skips_subsets_without_nodes(fits: Callable[[int], bool], shortage: str, want: int) -> None:
    """Room, a node, and no shortage."""
    of = counted(topology(subset("a"), subset("b"), adaptive=True))
    if shortage:
        shortages = (Shortage(name=shortage, until=at(60), times=1),)
        of = with_status(of, msgspec.structs.replace(of.status, shortages=shortages))
    made = allocate(of, [PodCreation("of-p", REVISION, fits)], now=NOON)
    assert made.choices == {"of-p": want}


class Search:
    """Simulations in which only some subsets have nodes; records the pods that were simulated."""

    def __init__(self, *subsets: int, after: int = 1_000) -> None:
        self.subsets = subsets
        self.after = after
        self.asked: list[tuple[int, int]] = []

    def creations(self, count: int, *, is_affected_by_peers: bool = False) -> list[PodCreation]:
        """So many pods of one revision that ask here."""
        return [PodCreation(f"of-{who}", REVISION, self._fits(who), is_affected_by_peers) for who in range(count)]

    def is_out_of_time(self) -> bool:
        """Time is up after so many answers."""
        return len(self.asked) >= self.after

    def _fits(self, who: int) -> Callable[[int], bool]:
        def fits(subset: int) -> bool:
            self.asked.append((who, subset))
            return subset in self.subsets

        return fits


def test_pods_of_a_revision_without_a_node_are_not_simulated_again() -> None:
    """A pod that fits takes capacity of a node, so each is simulated; a failure holds for the revision."""
    of = counted(topology(subset("a"), subset("b"), adaptive=True))
    search = Search(1)
    assert list(allocate(of, search.creations(3), now=NOON).choices.values()) == [1, 1, 1]
    assert search.asked == [(0, 0), (0, 1), (1, 1), (2, 1)]


def test_pods_affected_by_peers_are_simulated_each() -> None:
    """Pods placed in the meantime may make a node fit: by spread constraints, or by pod affinity."""
    of = counted(topology(subset("a"), subset("b"), adaptive=True))
    search = Search(1)
    allocate(of, search.creations(2, is_affected_by_peers=True), now=NOON)
    assert search.asked == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_subset_that_has_a_node_again_is_tried_again() -> None:
    """A failure holds for a revision until a pod of it fits."""
    of = counted(topology(subset("a"), subset("b"), adaptive=True))
    pods = [
        PodCreation("of-0", REVISION, fits_only(1)),
        PodCreation("of-1", REVISION, fits_only(0), is_affected_by_peers=True),
        PodCreation("of-2", REVISION, fits_only(0, 1)),
    ]
    assert list(allocate(of, pods, now=NOON).choices.values()) == [1, 0, 0]


@pytest.mark.parametrize(
    ("after", "want", "unsimulated"),
    [
        pytest.param(0, [0, 0, 0], 3, id="without a result the pod takes the subset"),
        pytest.param(1, [1, 1, 1], 3, id="the first found no node, and that holds"),
        pytest.param(2, [1, 1, 1], 2, id="so it does after a yes elsewhere"),
    ],
)
def test_out_of_time_no_pod_is_simulated(after: int, want: list[int], unsimulated: int) -> None:
    """A round must not keep everybody else waiting."""
    of = counted(topology(subset("a"), subset("b"), adaptive=True))
    search = Search(1, after=after)
    made = allocate(of, search.creations(3, is_affected_by_peers=True), now=NOON, is_out_of_time=search.is_out_of_time)
    assert list(made.choices.values()) == want
    assert len(search.asked) == after
    assert made.unsimulated == unsimulated


def test_a_pod_that_is_not_to_be_simulated_is_not_counted_as_late() -> None:
    """Simulations may be disabled."""
    of = counted(topology(subset("a"), adaptive=True))
    made = allocate(of, [PodCreation("of-0", REVISION)], now=NOON, is_out_of_time=lambda: True)
    assert made.unsimulated == 0


def test_a_subset_that_was_found_full_is_used_when_all_are() -> None:
    """A pod that waits in a subset is better off than one without a subset."""
    of = counted(topology(subset("a"), adaptive=True))
    of = with_status(of, msgspec.structs.replace(of.status, shortages=(Shortage(name="a", until=at(60)),)))
    assert chosen(of, 1) == ["a"]


def test_fixed_uses_neither_simulation_nor_shortages() -> None:
    """Only free capacity counts."""
    of = counted(topology(subset("a"), subset("b")))
    of = with_status(of, msgspec.structs.replace(of.status, shortages=(Shortage(name="a", until=at(60)),)))
    assert allocate(of, [PodCreation("of-p", REVISION, fits_only(1))], now=NOON).choices == {"of-p": 0}


@pytest.mark.parametrize(
    ("count", "want", "left"),
    [
        pytest.param(1, [1], 1, id="one of two"),
        pytest.param(2, [1, 1], 0, id="both"),
        pytest.param(3, [1, 1, 0], 0, id="and another one"),
    ],
)
def test_rescheduled_pods_go_where_they_are_expected(count: int, want: list[int], left: int) -> None:
    """The expectation is used up by the pods that fulfil it."""
    rows = (
        SubsetStatus(name="a", missing_replicas=-1),
        SubsetStatus(name="b", missing_replicas=-1, missing_reschedule=2),
    )
    of = written(*rows, of=topology(subset("a"), subset("b"), adaptive=True))
    made = allocate(of, creations(count), now=NOON)
    assert list(made.choices.values()) == want
    assert [row.missing_reschedule for row in made.status.subset_statuses] == [0, left]


def test_nothing_to_write_is_none_and_the_rest_is_conditional() -> None:
    """A patch holds the version that was read, and the fields that change."""
    of = counted(topology(subset("a", 1)))
    assert patch(of, of.status) is None
    found = patch(of, allocate(of, creations(1), now=NOON).status)
    assert found is not None
    assert found["metadata"] == {"resourceVersion": "1"}
    assert list(found["status"]) == ["subsetStatuses"]


def test_a_status_without_counts_is_not_counted() -> None:
    """A status without subsets has no counts."""
    of = topology(subset("a", 1))
    assert not is_counted(of)
    assert is_counted(counted(of))
    assert Table(of).row(REVISION, "a") is None


def test_a_status_of_another_generation_is_not_counted() -> None:
    """A renamed subset has pods that are not in the status yet."""
    of = counted(topology(subset("a", 1)), member("p", "a"))
    assert not is_counted(with_status(topology(subset("renamed", 1), generation=2), of.status))


def test_floors_are_filled_first_whatever_the_order() -> None:
    """The second subset has a minimum; the first one is filled afterwards."""
    of = counted(topology(subset("a", 2), subset("b", minReplicas=2), subset("c", 5, minReplicas=1)))
    assert chosen(of, 6) == ["b", "b", "c", "a", "a", "b"]


def test_a_floor_whose_pod_goes_is_filled_again() -> None:
    """A deletion counts if it is confirmed; if it may be, the pod is to be read."""
    rows = (SubsetStatus(name="a", missing_replicas=-1), SubsetStatus(name="b", replicas=1, deleting={"p": NOON}))
    of = written(*rows, of=topology(subset("a"), subset("b", minReplicas=1)))
    assert chosen(of, 1, confirmed={"p"}) == ["b"]
    unsure = allocate(of, creations(1), now=NOON)
    assert unsure.choices == {"of-0": 0}
    assert (unsure.uncertainty.deleting, unsure.uncertainty.full) == ({"p": NOON}, True)


@pytest.mark.parametrize(
    ("row", "full", "deleting"),
    [
        pytest.param({"creating": {"x": NOON}}, False, set(), id="a reservation"),
        pytest.param({"replicas": 1}, True, set(), id="a pod, which may have ended"),
        pytest.param({"replicas": 1, "deleting": {"p": NOON}}, True, {"p"}, id="a pod that may be gone"),
        pytest.param({"replicas": 2, "deleting": {"p": NOON}}, True, set(), id="a pod beside one that may be gone"),
    ],
)
def test_a_floor_that_is_reached_is_uncertain_where_pods_may_be_gone(
    row: dict[str, Any], full: bool, deleting: set[str]
) -> None:
    """The new pod goes to the first subset; what might change that is to be read."""
    rows = (SubsetStatus(name="a", missing_replicas=-1), SubsetStatus(name="b", missing_replicas=-1, **row))
    made = allocate(written(*rows, of=topology(subset("a"), subset("b", minReplicas=1))), creations(1), now=NOON)
    assert made.choices == {"of-0": 0}
    assert (made.uncertainty.full, set(made.uncertainty.deleting)) == (full, deleting)


def test_a_floor_without_nodes_is_skipped_as_any_subset() -> None:
    """Adaptive: it was found full."""
    of = counted(topology(subset("a"), subset("b", minReplicas=2), adaptive=True))
    shortage = Shortage(name="b", until=at(60), times=1)
    assert chosen(of, 1) == ["b"]
    full = with_status(of, msgspec.structs.replace(of.status, shortages=(shortage,)))
    assert chosen(full, 1) == ["a"]


def test_former_reservations_are_restored_while_their_pods_may_come() -> None:
    """Of a UnitedTopology that was deleted and created again: in subsets that it still has, and not too old."""
    of = topology(subset("a", 5), subset("b"))
    former = {
        (REVISION, "a"): {"over": NOON, "young": at(1)},
        (REVISION, "gone"): {"x": at(1)},
        ("r0", "b"): {"y": at(1)},
        ("r9", "b"): {"z": NOON},
    }
    table = Table(with_status(of, restore(of, former, now=NOON + CREATION_LIMIT)))
    found = {(revision, row.name): dict(row.creating) for revision, row in table.all() if row.creating}
    assert found == {(REVISION, "a"): {"young": at(1)}, ("r0", "b"): {"y": at(1)}}


def test_the_reservations_of_a_status_are_found_by_revision_and_subset() -> None:
    """So that they can be restored when the UnitedTopology is created again."""
    of = counted(topology(subset("a", 1), subset("b"), subset("c")))
    of = with_status(of, allocate(of, [*creations(2), PodCreation("other", "r2")], now=NOON).status)
    found = reservations(of)
    assert found == {(REVISION, "a"): {"of-0": NOON}, (REVISION, "b"): {"of-1": NOON}, ("r2", "a"): {"other": NOON}}
    again = topology(subset("a", 1), subset("b"), subset("c"))
    assert reservations(with_status(again, restore(again, found, now=at(1)))) == found
