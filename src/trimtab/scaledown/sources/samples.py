"""The last sample of each pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of one pod; `at` is on the monotonic clock."""

    uid: str
    value: float
    at: int


class Samples:
    """Samples by pod (`namespace/name`). A sample of a deleted pod is not used for another pod of the same name."""

    def __init__(self) -> None:
        self._by_key: dict[str, Sample] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def put(self, pod: Pod, value: float, at: int) -> None:
        """Store a value of this pod."""
        self._by_key[pod.key] = Sample(pod.metadata.uid, value, at)

    def fresh(self, pods: Iterable[Pod], *, now: int, max_age: float) -> dict[str, float]:
        """The values of these pods that are not older than `max_age` seconds."""
        oldest = now - round(max_age * SECOND)
        found = ((pod, self._by_key.get(pod.key)) for pod in pods)
        return {
            pod.key: sample.value
            for pod, sample in found
            if sample is not None and sample.uid == pod.metadata.uid and sample.at >= oldest
        }

    def oldest(self, now: int) -> float:
        """The age of the oldest sample in seconds; 0 where there are none."""
        return max(((now - sample.at) / SECOND for sample in self._by_key.values()), default=0.0)

    def keep(self, uids: frozenset[str]) -> None:
        """Drop the samples of all other pods."""
        self._by_key = {key: sample for key, sample in self._by_key.items() if sample.uid in uids}
