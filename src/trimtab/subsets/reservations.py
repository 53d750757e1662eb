"""The states of a reservation, as a table.

Capacity of a subset is held for a pod from before it exists until it is deleted:

- **reserved**: in `creating`. The pod was admitted, and has not been counted yet.
- **counted**: in `replicas`. A recount has observed the pod.
- **deleting**: in `deleting` too. A deletion was requested: the pod's successor may have the capacity as soon as an
  uncached read shows the pod terminating or gone. Until then `creating` or `replicas` still holds it.
- **gone**: nowhere. The pod is terminating, has finished, or does not exist.

`TRANSITIONS` is complete: the webhooks and the recount use it, and the documentation's diagram is drawn from it
(`diagram`). `after` raises for anything that is not in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """The state of a pod's reservation."""

    NONE = "none"
    RESERVED = "reserved"
    COUNTED = "counted"
    DELETING = "deleting"
    GONE = "gone"


class Event(StrEnum):
    """What happens to a pod. The comment names the component that observes it."""

    ADMITTED = "the pod is admitted to the subset"  # the creation webhook
    DELETION_REQUESTED = "its deletion or eviction is requested"  # the deletion webhook
    ACTIVE = "the pod is running or starting"  # the recount
    ENDED = "the pod is terminating, finished or gone"  # the recount
    UNSEEN = "the pod is not in the cache yet"  # the recount
    ABSENT = "the pod does not exist after the time limit"  # the recount, after an uncached read
    DELETION_FAILED = "the pod still exists after the time limit"  # the deletion webhook or the recount


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.NONE, Event.ADMITTED): State.RESERVED,
    (State.NONE, Event.ACTIVE): State.COUNTED,
    (State.NONE, Event.ENDED): State.GONE,
    (State.RESERVED, Event.ACTIVE): State.COUNTED,
    (State.RESERVED, Event.ENDED): State.GONE,
    (State.RESERVED, Event.UNSEEN): State.RESERVED,
    (State.RESERVED, Event.ABSENT): State.GONE,
    (State.RESERVED, Event.DELETION_REQUESTED): State.DELETING,
    (State.COUNTED, Event.ACTIVE): State.COUNTED,
    (State.COUNTED, Event.ENDED): State.GONE,
    (State.COUNTED, Event.DELETION_REQUESTED): State.DELETING,
    (State.DELETING, Event.ACTIVE): State.DELETING,
    (State.DELETING, Event.DELETION_REQUESTED): State.DELETING,
    (State.DELETING, Event.UNSEEN): State.DELETING,
    (State.DELETING, Event.DELETION_FAILED): State.COUNTED,
    (State.DELETING, Event.ENDED): State.GONE,
    (State.DELETING, Event.ABSENT): State.GONE,
}
"""The state after each event. `NONE` is a pod without a reservation: admitted without one, or older than the
UnitedTopology."""


def after(state: State, event: Event) -> State:
    """The next state; KeyError where the table has none."""
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
