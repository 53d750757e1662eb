"""Status conditions: find, set and remove them as Kubernetes' controllers do.

A condition with the same status and reason is kept unchanged, with its message and times. If only the reason changes,
lastTransitionTime is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

import msgspec

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.kube.clocks import SECOND

C = TypeVar("C", bound=Condition)

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


def find(conditions: Iterable[C], kind: str) -> C | None:
    """The condition of that type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def put(conditions: tuple[C, ...], new: C) -> tuple[C, ...]:
    """The conditions with this one appended, in place of one of the same type; unchanged if nothing changed."""
    known = find(conditions, new.type)
    if known is not None and known.status == new.status:
        if known.reason == new.reason:
            return conditions
        new = msgspec.structs.replace(new, last_transition_time=known.last_transition_time)
    return (*drop(conditions, new.type), new)


def drop(conditions: tuple[C, ...], kind: str) -> tuple[C, ...]:
    """The conditions without the one of that type."""
    return tuple(condition for condition in conditions if condition.type != kind)


def moment(now: int) -> datetime:
    """A time in whole seconds, as objects carry it."""
    return times.from_ns(now // SECOND * SECOND)


def trees(conditions: Iterable[Condition]) -> list[JSON]:
    """Conditions as JSON, for writing: our condition types have every field of Kubernetes' conditions."""
    return [_tree(condition) for condition in conditions]


def _tree(condition: Condition) -> JSON:
    named = {field.name: field.encode_name for field in msgspec.structs.fields(condition)}
    values = {encoded: getattr(condition, name) for name, encoded in named.items()}
    return {name: _plain(value) for name, value in values.items() if value not in (None, "")}


def _plain(value: object) -> object:
    return times.format_time(times.to_ns(value)) if isinstance(value, datetime) else value
