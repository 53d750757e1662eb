"""The status of a CloneSet."""

from __future__ import annotations

import msgspec

from tests.unit.cloneset.test_revisions import cloneset
from trimtab.api import codec, times
from trimtab.api.cloneset import CloneSetStatus, RankWait
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition
from trimtab.cloneset import reports
from trimtab.cloneset.plan import Plan, Step
from trimtab.cloneset.reports import Finding
from trimtab.kube.clocks import SECOND
from trimtab.testing.clocks import START

LATER = START + 60 * SECOND


def test_every_field_is_written() -> None:
    """So that a merge patch leaves nothing of before; and what is written is read again as it was."""
    whole = CloneSetStatus(
        replicas=3,
        next_instance=7,
        rank_wait=RankWait(since=times.from_ns(START), among="abc"),
        conditions=(Condition(type="Refused", status="True", last_transition_time=times.from_ns(START)),),
    )
    assert set(reports.tree(whole)) == set(CloneSetStatus.__struct_encode_fields__)
    assert codec.convert(reports.tree(whole), CloneSetStatus) == whole
    assert codec.convert(reports.tree(CloneSetStatus()), CloneSetStatus) == CloneSetStatus()


def test_conditions_keep_their_time_while_they_hold() -> None:
    """However their words change; those of others stay, and ours go when nothing is found any more."""
    theirs = Condition(type="Theirs", status="True")
    first = reports.with_findings(CloneSetStatus(conditions=(theirs,)), [Finding("Refused", "a", "one")], START)
    second = reports.with_findings(first, [Finding("Refused", "b", "two")], LATER)
    (kept, refused) = second.conditions
    assert kept == theirs
    assert (refused.message, refused.last_transition_time) == ("two", times.from_ns(START))
    assert reports.with_findings(second, [], LATER).conditions == (theirs,)


def test_findings_tell_what_stands_in_the_way() -> None:
    """A failure in the server's words, rivals by name, and what is waited for."""
    plan = Plan(wait=RankWait(since=times.from_ns(START)), waits_for="p1 has no rank")
    found = reports.findings(plan, (cloneset(name="copy"),), reports.failure(Step.CREATE, "quota"))
    assert [(each.type, each.message) for each in found] == [
        (reports.FAILED_SCALE, "quota"),
        (reports.SELECTOR_OVERLAP, "CloneSet copy selects the same pods; give each CloneSet labels of its own"),
        (reports.RANKS_AWAITED, "the scale-down waits: p1 has no rank"),
    ]
    assert reports.findings(Plan(), (), None) == []


def test_a_refusal_names_every_field() -> None:
    """In one message."""
    told = reports.refusal([InvalidError("spec.a", "is wrong"), InvalidError("spec.b", "too")])
    assert told.message == "spec.a: is wrong; spec.b: too"


def test_a_status_that_says_the_same_is_equal() -> None:
    """Or it would be written again and again."""
    found = [Finding("Refused", "a", "one")]
    once = reports.with_findings(CloneSetStatus(), found, START)
    assert reports.with_findings(msgspec.structs.replace(once), found, LATER) == once
