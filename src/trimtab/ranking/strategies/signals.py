"""Signals: values of pods that a source outside the cluster reports, such as a monitoring system.

A strategy that ranks by such a value has an attribute `signal`, which says which source to ask for what. The source is
asked in the background, and what it reported is in the view: `view.signal(rows, signal)`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """What a source is asked for. Strategies with equal signals share the samples of a pod."""

    source: str
    """The name of the source, as in the configuration."""
    query: str = ""
    """What the source is to report; its form is the source's own."""
    period_seconds: int = 30
    """How often it is asked."""
    max_age_seconds: int = 120
    """How old a value may be before it counts as none."""


def signal_of(strategy: object) -> Signal | None:
    """The signal that a strategy ranks by, if there is one."""
    found = getattr(strategy, "signal", None)
    return found if isinstance(found, Signal) else None
