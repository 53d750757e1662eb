"""The runbook: an entry for every alert and every reason of an event, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from tools import reasons
from trimtab.install.monitoring import ALERTS

PAGE = (Path(__file__).parents[3] / "docs" / "runbook.md").read_text()
ALERT_PART, EVENT_PART = PAGE.split("\n## Alerts\n")[1].split("\n## Events\n")
LAST = "Nothing to do"


def headings(text: str) -> list[str]:
    """The headings of entries."""
    return re.findall(r"^### (.+)$", text, flags=re.MULTILINE)


def test_every_alert_has_an_entry_in_the_order_of_the_table() -> None:
    """Under the heading that the alert's annotation names."""
    assert headings(ALERT_PART) == [alert.name for alert in ALERTS]
    assert [alert.runbook for alert in ALERTS] == [f"docs/runbook.md#{alert.name.lower()}" for alert in ALERTS]


def test_every_reason_of_an_event_has_an_entry() -> None:
    """An entry of its own, or a row of the last table; each once, in alphabetical order."""
    wanted = sorted(entry.reason for entry in reasons.entries() if "vent on" in entry.where)
    *entries, last = headings(EVENT_PART)
    rows = re.findall(r"^\| `(\w+)` \|", EVENT_PART.split(f"### {LAST}")[1], flags=re.MULTILINE)
    assert last == LAST
    assert sorted([*entries, *rows]) == wanted
    assert entries == sorted(entries)
    assert rows == sorted(rows)


def test_no_entry_without_an_action() -> None:
    """A reason with something to do in the table of reasons is not among those with nothing to do."""
    rows = set(re.findall(r"^\| `(\w+)` \|", EVENT_PART.split(f"### {LAST}")[1], flags=re.MULTILINE))
    with_action = {entry.reason for entry in reasons.entries() if entry.action and entry.reason in rows}
    assert with_action == {"ScaleDownObserved"}
