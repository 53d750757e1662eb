"""The states of a reservation: the table, and that the functions follow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.subsets.topologies import NOON, REVISION, at, counted, member, subset, topology, with_status
from trimtab.api.unitedtopology import SubsetStatus, UnitedTopology
from trimtab.subsets.allocation import PodCreation, PodDeletion, allocate, announce, revert_deletions
from trimtab.subsets.reservations import TRANSITIONS, Event, State, after, diagram

ROOT = Path(__file__).parents[3]


def state_of(of: UnitedTopology, name: str) -> State:
    """The state of a pod's reservation, from a status of one subset; `of-name` is its reservation."""
    (row,) = of.status.subset_statuses
    if name in row.deleting:
        return State.DELETING
    if f"of-{name}" in row.creating or f"{name}@of-{name}" in row.creating:
        return State.RESERVED
    return State.COUNTED if row.replicas else State.GONE


def given_state(state: State) -> UnitedTopology:
    """A UnitedTopology of one subset, in which the pod `p` has this state."""
    empty = counted(topology(subset("a", 1)))
    if state in (State.NONE, State.GONE):
        return empty
    if state is State.COUNTED:
        return counted(empty, member("p", "a"))
    reserved = with_status(empty, allocate(empty, [PodCreation("of-p", REVISION)], now=NOON).status)
    return reserved if state is State.RESERVED else left(reserved)


def left(of: UnitedTopology) -> UnitedTopology:
    """The same after the deletion of `p` was announced."""
    return with_status(of, announce(of, [PodDeletion("p", REVISION, "a", "of-p")], now=NOON))


def happens(of: UnitedTopology, event: Event) -> UnitedTopology:
    """What the product makes of an event."""
    match event:
        case Event.ADMITTED:
            return with_status(of, allocate(of, [PodCreation("of-p", REVISION)], now=NOON).status)
        case Event.DELETION_REQUESTED:
            return left(of)
        case Event.ACTIVE:
            return counted(of, member("p", "a"))
        case Event.ENDED:
            return counted(of, member("p", "a", active=False))
        case Event.UNSEEN:
            return counted(of)
        case Event.ABSENT:
            return counted(of, now=at(100), absent={"of-p", "p@of-p"})
        case Event.DELETION_FAILED:
            return counted(with_status(of, revert_deletions(of, ["p"])), member("p", "a"))


@pytest.mark.parametrize(
    ("state", "event"),
    [pytest.param(state, event, id=f"{state}: {event}") for state, event in TRANSITIONS],
)
def test_the_functions_follow_the_table(state: State, event: Event) -> None:
    """Every line of the table, on a status."""
    assert state_of(happens(given_state(state), event), "p") == TRANSITIONS[state, event]


def test_events_that_are_not_in_the_table_raise() -> None:
    """A pod that has gone does not come back."""
    with pytest.raises(KeyError):
        after(State.GONE, Event.ADMITTED)


def test_every_state_is_reached_and_ends() -> None:
    """From every state the capacity can become free again."""
    leads = {state: {to for (source, _), to in TRANSITIONS.items() if source is state} for state in State}
    for state in set(State) - {State.GONE}:
        reached = {state}
        for _ in State:
            reached |= {to for each in reached for to in leads[each]}
        assert State.GONE in reached
    assert {to for targets in leads.values() for to in targets} | {State.NONE} == set(State)


def test_the_diagram_has_every_change_of_state() -> None:
    """What the documentation shows is the table."""
    changes = [(source, to) for (source, _), to in TRANSITIONS.items() if source is not to]
    assert diagram().count("-->") == len(changes) + 1
    lines = [line.strip() for line in diagram().splitlines()]
    assert "[*] --> reserved: the pod is admitted to the subset" in lines, "a pod without a reservation is the start"
    assert "reserved --> deleting: its deletion or eviction is requested" in lines
    assert lines[-1] == "gone --> [*]"


def test_a_row_of_a_status_is_as_the_proposal_writes_it() -> None:
    """`missingReplicas`, `creating` and `deleting` are what a reservation is read from."""
    row = given_state(State.DELETING).status.subset_statuses[0]
    assert row == SubsetStatus(name="a", missing_replicas=1, creating={"p@of-p": NOON}, deleting={"p": NOON})
