"""From the pods that are there to the status as it should be."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.subsets.topologies import NOON, REVISION, at, counted, member, subset, topology, with_status
from trimtab.api.meta import Condition
from trimtab.api.unitedtopology import Shortage, SubsetStatus, UnitedTopology
from trimtab.subsets.allocation import PodCreation, PodDeletion, allocate, announce, revert_deletions, withdraw
from trimtab.subsets.apportionment import limits
from trimtab.subsets.members import Member
from trimtab.subsets.recount import CREATION_LIMIT, DELETION_LIMIT, Observation, Recount, Stale, recount

OF = topology(subset("a", 2), subset("b", "50%"), subset("c"))


def made(of: UnitedTopology, *members: Member, now: float = 0, version: str = "1", **more: Any) -> Recount:
    """A count of these pods, so many seconds after noon."""
    observed = Observation(members, more.pop("replicas", 10), more.pop("revision", REVISION), version, **more)
    found = recount(of, observed, now=at(now))
    assert isinstance(found, Recount)
    return found


def rows(of: UnitedTopology | Recount) -> dict[str, SubsetStatus]:
    """The subsets of the newest revision, by name."""
    return {row.name: row for row in of.status.subset_statuses}


def reserved(of: UnitedTopology, *names: str) -> UnitedTopology:
    """The same with reservations for these pods."""
    return with_status(of, allocate(of, [PodCreation(f"of-{name}", REVISION) for name in names], now=NOON).status)


def announced(of: UnitedTopology, name: str, reservation: str = "") -> UnitedTopology:
    """The same with the deletion of a pod in the first subset announced."""
    return with_status(of, announce(of, [PodDeletion(name, REVISION, "a", reservation)], now=NOON))


def test_active_pods_are_counted() -> None:
    """Each in its subset; -1 is missing where there is no maximum; more than the maximum leaves none missing."""
    pods = [member(f"a{n}", "a") for n in range(3)] + [member("b1", "b"), member("c1", "c"), member("x", "")]
    found = rows(made(OF, *pods, member("done", "b", active=False)))
    assert [(row.name, row.replicas, row.missing_replicas) for row in found.values()] == [
        ("a", 3, 0),
        ("b", 1, 4),
        ("c", 1, -1),
    ]


def test_a_recount_sets_generation_size_and_revision() -> None:
    """What was counted, by which spec, for which size; conditions stay."""
    conditions = (Condition(type="Ready", status="True"),)
    of = with_status(OF, msgspec.structs.replace(OF.status, conditions=conditions))
    status = made(of, member("p", "a", version="7"), member("q", "a", version="12"), version="30").status
    assert (status.observed_generation, status.replicas, status.revision) == (1, 10, REVISION)
    assert (status.counted_version, status.conditions) == ("12", conditions)
    assert made(OF, member("p", "a", version="1")).status.counted_version == "1"


def test_other_revisions_are_kept_while_they_have_pods() -> None:
    """And the newest is what the status is about first."""
    pods = [member("old", "a", revision="r0"), member("new", "a")]
    first = made(OF, *pods)
    assert [(each.revision, each.subset_statuses[0].replicas) for each in first.status.other_revisions] == [("r0", 1)]
    assert made(with_status(OF, first.status), pods[1]).status.other_revisions == ()


def test_a_reservation_is_removed_when_its_pod_is_counted() -> None:
    """In the same value: the capacity is always held exactly once."""
    before = reserved(counted(OF), "p", "q")
    after = rows(made(before, member("p", "a")))
    assert after["a"].replicas == 1
    assert list(after["a"].creating) == ["of-q"]
    assert after["a"].missing_replicas == 1


def test_a_reservation_is_removed_when_its_pod_has_ended() -> None:
    """It came and went."""
    assert not rows(made(reserved(counted(OF), "p"), member("p", "a", active=False)))["a"].creating


def test_an_overdue_reservation_is_removed_after_an_uncached_read_only() -> None:
    """The cache may be old: that it shows no pod does not mean that there is none."""
    before = reserved(counted(OF), "p")
    late = CREATION_LIMIT.total_seconds()
    early = made(before, now=late - 5)
    assert (early.overdue, early.recheck) == ((), 5)
    found = made(before, now=late)
    assert (found.overdue, found.recheck) == (("of-p",), None)
    assert list(rows(found)["a"].creating) == ["of-p"]
    confirmed = made(before, now=late, absent={"of-p"})
    assert not rows(confirmed)["a"].creating
    assert [entry.key for entry in confirmed.expired] == ["of-p"]


@pytest.mark.parametrize("first", ["reservation", "deletion"])
def test_the_recount_is_repeated_at_the_earlier_of_two_deadlines(first: str) -> None:
    """Whichever of the two entries comes first in the status."""
    names = ("a", "b") if first == "reservation" else ("b", "a")
    of = topology(subset(names[0], 2), subset(names[1], 2))
    reservations, deletions = ({"of-x": at(0)}, {"p": at(10)})
    status = counted(of, member("p", "b")).status
    entries = tuple(
        msgspec.structs.replace(row, creating=reservations)
        if row.name == "a"
        else msgspec.structs.replace(row, deleting=deletions)
        for row in status.subset_statuses
    )
    before = with_status(of, msgspec.structs.replace(status, subset_statuses=entries))
    late = CREATION_LIMIT.total_seconds()
    assert made(before, member("p", "b"), now=10.5).recheck == DELETION_LIMIT.total_seconds() - 0.5
    assert made(before, member("p", "b"), now=10 + late).recheck is None


def test_an_uncached_read_before_the_time_limit_removes_no_reservation() -> None:
    """The pod may still be on its way through admission."""
    assert rows(made(reserved(counted(OF), "p"), now=1, absent={"of-p"}))["a"].creating


def test_a_deletion_is_removed_with_its_pod() -> None:
    """Terminating or gone: it is not counted any more, and the same value removes the announcement."""
    before = announced(counted(OF, member("p", "a")), "p")
    for pods in ([], [member("p", "a", active=False)]):
        after = rows(made(before, *pods))["a"]
        assert (after.replicas, after.deleting) == (0, {})


def test_a_refused_deletion_is_reverted() -> None:
    """The pod still exists after the time limit."""
    before = announced(counted(OF, member("p", "a")), "p")
    limit = DELETION_LIMIT.total_seconds()
    early = made(before, member("p", "a"), now=limit - 1)
    assert (list(rows(early)["a"].deleting), early.recheck) == (["p"], 1)
    late = made(before, member("p", "a"), now=limit)
    assert not rows(late)["a"].deleting
    assert [entry.key for entry in late.reverted] == ["p"]


def test_a_reserved_pod_with_an_announced_deletion_is_read_at_once() -> None:
    """It did exist: if it is not there any more, both entries go."""
    before = announced(reserved(counted(OF), "p"), "p", "of-p")
    unseen = made(before, now=2)
    assert unseen.overdue == ("p@of-p",)
    assert rows(unseen)["a"].creating
    assert rows(unseen)["a"].deleting
    gone = rows(made(before, now=2, absent={"p@of-p"}))["a"]
    assert (gone.creating, gone.deleting) == ({}, {})
    counted_now = rows(made(before, member("p", "a"), now=1))["a"]
    assert (counted_now.replicas, counted_now.creating, list(counted_now.deleting)) == (1, {}, ["p"])


def test_a_later_pod_of_a_name_is_not_the_one_that_was_announced() -> None:
    """A CloneSet may use a name again: the announcement is removed when its pod is not counted any more."""
    before = reserved(announced(counted(OF, member("p", "a")), "p"), "again")
    after = rows(made(before, member("p", "a", reservation="of-again")))["a"]
    assert (after.replicas, after.creating, after.deleting) == (1, {}, {})


def test_an_earlier_pod_of_a_name_does_not_end_the_reservation_of_a_later_one() -> None:
    """A cache that lags has the one that has ended; the one that is being deleted now is not there yet."""
    before = announced(reserved(counted(OF), "p"), "p", "of-p")
    earlier = member("p", "a", active=False, reservation="of-earlier")
    assert list(rows(made(before, earlier))["a"].creating) == ["p@of-p"]


def test_a_deletion_announced_in_another_subset_is_dropped() -> None:
    """The pod is not counted there."""
    before = announced(counted(OF, member("p", "a")), "p")
    assert not rows(made(before, member("p", "b")))["a"].deleting


def test_a_cache_older_than_the_last_recount_is_stale() -> None:
    """It might miss pods whose reservations are gone already."""
    before = counted(OF, member("p", "a", version="40"), version="50")
    observed = Observation([], 10, REVISION, "39")
    assert recount(before, observed, now=NOON) == Stale("40")


@pytest.mark.parametrize("pods", [[], [member("p", "a")]], ids=["nothing", "a pod"])
def test_a_second_recount_changes_nothing(pods: list[Member]) -> None:
    """A doubled event is no event."""
    once = counted(OF, *pods)
    assert made(once, *pods).status == once.status


@pytest.mark.parametrize(
    ("replicas", "want"),
    [
        pytest.param(6, (2, 3), id="five are missing"),
        pytest.param(4, (2, 1), id="three are missing"),
        pytest.param(2, (1, 0), id="one is missing"),
        pytest.param(1, (0, 0), id="none is missing"),
    ],
)
def test_pods_to_reschedule_are_limited_to_missing_pods(replicas: int, want: tuple[int, int]) -> None:
    """A scale-down in the middle of a rescheduling leaves no expectation for ever; earlier subsets keep theirs."""
    adaptive = topology(subset("a"), subset("b"), subset("c"), adaptive=True)
    first = counted(adaptive, member("p", "a"), replicas=6)
    expected = {"b": 2, "c": 3}
    expecting = tuple(
        msgspec.structs.replace(row, missing_reschedule=expected.get(row.name, 0))
        for row in first.status.subset_statuses
    )
    of = with_status(first, msgspec.structs.replace(first.status, subset_statuses=expecting))
    found = rows(made(of, member("p", "a"), replicas=replicas))
    assert (found["b"].missing_reschedule, found["c"].missing_reschedule) == want


def test_pods_that_are_created_are_not_missing_and_those_that_are_deleted_are() -> None:
    """Of six pods there is one, which is being deleted, and another one is reserved."""
    of = reserved(counted(topology(subset("a"), subset("b"), adaptive=True), member("p", "a"), replicas=6), "x")
    of = announced(of, "p")
    first, second = of.status.subset_statuses
    expecting = (first, msgspec.structs.replace(second, missing_reschedule=9))
    of = with_status(of, msgspec.structs.replace(of.status, subset_statuses=expecting))
    assert rows(made(of, member("p", "a"), replicas=6))["b"].missing_reschedule == 5


def test_shortages_expire() -> None:
    """After the while, and as long again; or when the strategy or the subset is no more."""
    adaptive = topology(subset("a"), subset("b"), adaptive=True)
    shortages = (Shortage(name="a", until=at(60), times=1), Shortage(name="gone", until=at(60), times=1))
    of = with_status(adaptive, msgspec.structs.replace(adaptive.status, shortages=shortages))
    assert made(of, now=100).status.shortages == shortages[:1]
    assert made(of, now=120).status.shortages == ()
    assert made(with_status(OF, of.status)).status.shortages == ()


def test_a_renamed_subset_keeps_its_reservations() -> None:
    """Their pods may be between admission and storage; they are counted where they match."""
    of = reserved(counted(OF), "p", "q")
    subsets = (subset("first", 2), *OF.spec.subsets[1:])
    spec = msgspec.structs.replace(of.spec, subsets=subsets)
    metadata = msgspec.structs.replace(of.metadata, generation=2)
    renamed = msgspec.structs.replace(of, metadata=metadata, spec=spec)
    found = made(renamed)
    assert rows(found)["first"].creating.keys() == {"of-p", "of-q"}
    after = with_status(renamed, found.status)
    full = allocate(after, [PodCreation("of-r", REVISION)], now=NOON)
    assert full.choices == {"of-r": 1}
    found = made(after, member("p", "first"), member("q", "first"))
    assert (rows(found)["first"].creating, rows(found)["first"].replicas) == ({}, 2)


def test_a_removed_subset_does_not() -> None:
    """Nothing says where its pods are counted."""
    of = reserved(counted(OF), "p")
    spec = msgspec.structs.replace(of.spec, subsets=OF.spec.subsets[1:])
    removed = msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, generation=2), spec=spec)
    assert not any(row.creating for row in made(removed).status.subset_statuses)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["create", "announce", "confirm", "withdraw", "revert", "resize", "count"]), max_size=12),
    st.integers(0, 2**32),
)
def test_missing_replicas_equal_a_recount_after_every_write(steps: list[str], seed: int) -> None:
    """Whoever wrote last, a webhook or the controller: the limit at the size of the status, less the pods counted."""
    rng = random.Random(seed)
    size, members = 10, [member(f"p{number}", rng.choice("abc")) for number in range(rng.randrange(8))]
    of = counted(topology(subset("a", 2), subset("b", "50%", minReplicas=1), subset("c")), *members, replicas=size)
    for number, step in enumerate(steps):
        name = rng.choice([pod.name for pod in members] or ["none"])
        match step:
            case "create":
                status = allocate(of, [PodCreation(f"of-{number}", REVISION)], now=NOON, replicas=size).status
            case "announce":
                status = announce(of, [PodDeletion(name, REVISION, rng.choice("abc"))], now=NOON)
            case "confirm":
                status = allocate(of, [PodCreation(f"of-{number}", REVISION)], now=NOON, confirmed=[name]).status
            case "withdraw":
                status = withdraw(of, [f"of-{rng.randrange(12)}"])
            case "revert":
                status = revert_deletions(of, [name])
            case "resize":
                size = rng.randrange(20)
                status = allocate(of, [], now=NOON, replicas=size).status
            case _:
                members = members[: rng.randrange(9)]
                status = made(of, *members, replicas=size).status
        of = with_status(of, status)
        counts = Counter(pod.subset for pod in members)
        of_size = limits(of.spec.subsets, status.replicas)
        for row, limit in zip(status.subset_statuses, of_size, strict=True):
            assert row.missing_replicas == (-1 if limit is None else max(0, limit - counts[row.name]))
