"""The status of a CloneSet."""

from __future__ import annotations

import msgspec

from tests.unit.cloneset.test_revisions import cloneset
from trimtab.api import codec, times
from trimtab.api.annotations import Reason
from trimtab.api.cloneset import CloneSetStatus, RankWait
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition
from trimtab.cloneset import status as statuses
from trimtab.cloneset.plan import Plan, Step
from trimtab.cloneset.status import Finding
from trimtab.kube.clocks import SECOND
from trimtab.testing.clocks import START

LATER = START + 60 * SECOND


def test_every_field_is_written() -> None:
    """So that a merge patch leaves nothing of before; and what is written is read again as it was."""
    whole = CloneSetStatus(
        replicas=3,
        next_instance=7,
        rank_wait=RankWait(since=times.from_ns(START), among="abc"),
        conditions=(Condition(type="InvalidSpec", status="True", last_transition_time=times.from_ns(START)),),
    )
    assert set(statuses.tree(whole)) == set(CloneSetStatus.__struct_encode_fields__)
    assert codec.convert(statuses.tree(whole), CloneSetStatus) == whole
    assert codec.convert(statuses.tree(CloneSetStatus()), CloneSetStatus) == CloneSetStatus()


def test_conditions_keep_their_time_while_they_hold() -> None:
    """However their words change; those of others stay, and ours go when nothing is found any more."""
    theirs = Condition(type="Theirs", status="True")
    first = statuses.with_findings(CloneSetStatus(conditions=(theirs,)), [Finding("InvalidSpec", "a", "one")], START)
    second = statuses.with_findings(first, [Finding("InvalidSpec", "b", "two")], LATER)
    (kept, invalid) = second.conditions
    assert kept == theirs
    assert (invalid.message, invalid.last_transition_time) == ("two", times.from_ns(START))
    assert statuses.with_findings(second, [], LATER).conditions == (theirs,)


def test_findings_name_what_is_in_the_way() -> None:
    """A failure in the server's words, conflicting CloneSets by name, and what is waited for."""
    plan = Plan(wait=RankWait(since=times.from_ns(START)), wait_reason="p1 has no rank")
    found = statuses.findings(plan, (cloneset(name="copy"),), statuses.failure(Step.CREATE, "quota"))
    assert [(each.type, each.message) for each in found] == [
        (Reason.FAILED_SCALE, "quota"),
        (Reason.SELECTOR_OVERLAP, "CloneSet copy selects the same pods; give each CloneSet labels of its own"),
        (Reason.WAITING_FOR_RANKS, "the scale-down waits: p1 has no rank"),
    ]
    assert statuses.findings(Plan(), (), None) == []


def test_an_invalid_spec_is_reported_with_every_field() -> None:
    """In one message."""
    finding = statuses.invalid_spec([InvalidError("spec.a", "is wrong"), InvalidError("spec.b", "too")])
    assert finding.message == "spec.a: is wrong; spec.b: too"


def test_a_status_that_says_the_same_is_equal() -> None:
    """Or it would be written again and again."""
    found = [Finding("InvalidSpec", "a", "one")]
    once = statuses.with_findings(CloneSetStatus(), found, START)
    assert statuses.with_findings(msgspec.structs.replace(once), found, LATER) == once
