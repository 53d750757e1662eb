"""The life of a place in a subset, as a table.

A place is held for a pod from before the pod exists until it is on its way out:

- **reserved**: in `creating`. The pod was admitted, and nobody has counted it yet.
- **seen**: in `replicas`. The controller has seen it and counts it.
- **deleting**: in `deleting` too. Somebody asked for the pod to go: its successor may have the place as soon as a live
  read shows that the pod is really going. It is still held by what held it before, `creating` or `replicas`.
- **gone**: nowhere. The pod is terminating, has finished, or is not there.

`TRANSITIONS` is all there is to it: the webhooks and the recount ask it, and the documentation's diagram is drawn from
it (`diagram`). What is not in the table does not happen, and `after` raises for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a pod's place stands."""

    NONE = "none"
    RESERVED = "reserved"
    SEEN = "seen"
    DELETING = "deleting"
    GONE = "gone"


class Event(StrEnum):
    """What happens to a place. The comment says who notices."""

    ADMITTED = "the pod is admitted to the subset"  # the creation webhook
    LEAVING = "its deletion or eviction is asked for"  # the deletion webhook
    ACTIVE = "the pod is seen running or starting"  # the recount
    ENDED = "the pod is seen terminating, finished or no more"  # the recount
    UNSEEN = "the pod is not seen yet"  # the recount
    ABSENT = "there is no such pod after the time limit"  # the recount, after a live read
    LIVES_ON = "the pod is seen to live on"  # the deletion webhook or the recount


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.NONE, Event.ADMITTED): State.RESERVED,
    (State.NONE, Event.ACTIVE): State.SEEN,
    (State.NONE, Event.ENDED): State.GONE,
    (State.RESERVED, Event.ACTIVE): State.SEEN,
    (State.RESERVED, Event.ENDED): State.GONE,
    (State.RESERVED, Event.UNSEEN): State.RESERVED,
    (State.RESERVED, Event.ABSENT): State.GONE,
    (State.RESERVED, Event.LEAVING): State.DELETING,
    (State.SEEN, Event.ACTIVE): State.SEEN,
    (State.SEEN, Event.ENDED): State.GONE,
    (State.SEEN, Event.LEAVING): State.DELETING,
    (State.DELETING, Event.ACTIVE): State.DELETING,
    (State.DELETING, Event.LEAVING): State.DELETING,
    (State.DELETING, Event.UNSEEN): State.DELETING,
    (State.DELETING, Event.LIVES_ON): State.SEEN,
    (State.DELETING, Event.ENDED): State.GONE,
    (State.DELETING, Event.ABSENT): State.GONE,
}
"""What becomes of a place. `NONE` is a pod that was never given one: let go, or older than the UnitedTopology."""


def after(state: State, event: Event) -> State:
    """The state that follows; KeyError where the table has none."""
    return TRANSITIONS[state, event]


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for (state, event), following in TRANSITIONS.items():
        if following is not state:
            lines.append(f"    {_drawn(state)} --> {_drawn(following)}: {event.value}")
    return "\n".join([*lines, f"    {_drawn(State.GONE)} --> [*]"]) + "\n"


def _drawn(state: State) -> str:
    return "[*]" if state is State.NONE else state.value
