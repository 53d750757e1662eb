"""When ages distinguish pods, and when they do not. Pure.

Kubernetes compares ages by the integer part of their logarithm to base 2, so pods whose ages differ by less than a
factor of two may have the same scale; then their UIDs decide, which is random. Two times count: since when a pod has
been ready, and when it was created. Each is compared only with the same time of other pods.

For times from `oldest` to `youngest`, all ages have scale n exactly from `youngest + 2ⁿ` until `oldest + 2ⁿ⁺¹`
nanoseconds. There is such a window for every n with 2ⁿ > youngest − oldest, and each is twice as long as the one
before: it is enough to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trimtab.api import times
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND

MARGIN = 2 * SECOND
"""How much of a window must be left for a request to reach the controller."""

_SCALES = range(20, 62)
"""From a millisecond to seventy years."""


def comparable_times(pods: Iterable[Pod]) -> list[list[int]]:
    """The times that Kubernetes compares, in nanoseconds: of readiness, and of creation."""
    ready, created = [], []
    for pod in pods:
        condition = pod.status.condition("Ready")
        if condition is not None and condition.last_transition_time is not None:
            ready.append(times.to_ns(condition.last_transition_time))
        if pod.metadata.creation_timestamp is not None:
            created.append(times.to_ns(pod.metadata.creation_timestamp))
    return [group for group in (ready, created) if group]


def old_enough(groups: Sequence[Sequence[int]], age: float) -> int:
    """The moment from which all pods are this many seconds old."""
    return max((max(group) for group in groups), default=0) + round(age * SECOND)


def next_common_scale(groups: Sequence[Sequence[int]], now: int, margin: int = MARGIN) -> int:
    """The first moment from now on at which the ages of each group have one scale, and keep it for the margin."""
    windows = [list(_windows(group)) for group in groups]
    starts = sorted({now, *(start for each in windows for start, _ in each if start > now)})
    for moment in starts:
        if all(any(start <= moment and moment + margin <= end for start, end in each) for each in windows):
            return moment
    raise ValueError("the ages are too far apart to ever have one scale")


def _windows(group: Sequence[int]) -> Iterator[tuple[int, int]]:
    oldest, youngest = min(group), max(group)
    for scale in _SCALES:
        start, end = youngest + 2**scale, oldest + 2 ** (scale + 1)
        if start < end:
            yield start, end
