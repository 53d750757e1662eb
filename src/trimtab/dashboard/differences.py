"""The state of a page as rows by section and key, and the difference between two states.

States are never changed: a new one shares the rows that stayed the same with the one before, so that comparing two of
them is mostly a comparison of identities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Rows = Mapping[str, Any]
State = Mapping[str, Rows]
"""Rows by key, by section."""


def settled(before: State, after: State) -> State:
    """The new state, with the rows and sections of the one before where they are equal."""
    return {name: _settled(before.get(name, {}), rows) for name, rows in after.items()}


def _settled(before: Rows, after: Rows) -> Rows:
    rows = {key: old if (old := before.get(key)) == row else row for key, row in after.items()}
    is_same = len(rows) == len(before) and all(before.get(key) is row for key, row in rows.items())
    return before if is_same else rows


def difference(before: State, after: State) -> dict[str, dict[str, Any]]:
    """What to set and what is gone, by section; sections without a difference are left out."""
    found: dict[str, dict[str, Any]] = {}
    for name, rows in after.items():
        old = before.get(name, {})
        if old is rows:
            continue
        changed = {key: row for key, row in rows.items() if old.get(key) is not row}
        gone = [key for key in old if key not in rows]
        if changed or gone:
            found[name] = {"set": changed, "gone": gone}
    return found


def applied(state: State, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The state after some changes: what a page does with them."""
    after = {name: dict(rows) for name, rows in state.items()}
    for name, change in changes.items():
        rows = after.setdefault(name, {})
        rows.update(change["set"])
        for key in change["gone"]:
            rows.pop(key, None)
    return after
