"""Events that were not written.

An event is the only way in which some results reach a user, so one that is dropped is counted. Every client has one
`DroppedEvents`, to which the recorders that use it report (`events`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class DropReason(StrEnum):
    """Why an event was dropped."""

    QUEUE_FULL = "queue-full"
    """More events were recorded than the API server takes."""
    RATE_LIMITED = "rate-limited"
    """One object had too many events."""
    REFUSED = "refused"
    """The API server refused it (a terminating namespace, missing permissions), or its object has no valid name."""
    UNAVAILABLE = "unavailable"
    """The API server did not answer, in all attempts."""
    LARGE = "large"
    """It was about one of many large requests that were admitted without a decision at the same time."""
    FAILED = "failed"
    """An error of ours."""
    STOPPED = "stopped"
    """It was not written in the grace period when its component stopped."""


class DroppedEvents:
    """Reports events that were not written."""

    def __init__(self) -> None:
        self.on_report: Callable[[str, DropReason], None] | None = None
        """Called with the component and the reason for each event that was dropped."""

    def report(self, component: str, reason: DropReason) -> None:
        """Note that an event of a component was dropped."""
        if self.on_report is not None:
            self.on_report(component, reason)
