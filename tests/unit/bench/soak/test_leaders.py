"""Who led when, from logs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bench.soak.leaders import Term, overlaps, terms

LEASE = "trimtab-controllers"


def line(at: float, message: str) -> dict[str, Any]:
    """A line of a log."""
    return {"time": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"), "message": message}


def acquired(at: float) -> dict[str, Any]:
    """The line of a process that leads from now on."""
    return line(at, f"vm_1 acquired the lease trimtab-system/{LEASE}")


def lost(at: float) -> dict[str, Any]:
    """The line of a process that leads no longer."""
    return line(at, f"vm_1 lost the lease trimtab-system/{LEASE}, stopping")


def test_a_term_lasts_until_the_lease_is_lost_or_the_process_dies() -> None:
    lines = [line(1, "vm_1 is waiting for the lease x"), acquired(10), lost(20), line(21, "other"), acquired(30)]
    assert terms("one", lines, 0.0, died=40) == [Term(LEASE, "one", 10, 20), Term(LEASE, "one", 30, 40)]


def test_a_shifted_clock_is_corrected() -> None:
    assert terms("one", [acquired(3610)], 3600.0, died=40) == [Term(LEASE, "one", 10, 40)]


def test_two_leaders_at_the_same_time_are_noticed() -> None:
    one, other = Term(LEASE, "one", 10, 20), Term(LEASE, "other", 19, 30)
    assert overlaps([other, one]) == [(one, other)]


def test_leaders_one_after_the_other_are_right() -> None:
    found = [Term(LEASE, "one", 10, 20), Term(LEASE, "other", 20, 30), Term(LEASE, "one", 31, 40)]
    assert overlaps(found) == []


def test_different_leases_and_the_same_process_do_not_overlap() -> None:
    assert overlaps([Term(LEASE, "one", 10, 20), Term("trimtab-webhooks", "other", 10, 20)]) == []
    assert overlaps([Term(LEASE, "one", 10, 20), Term(LEASE, "one", 12, 20)]) == []
