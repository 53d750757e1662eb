"""How well pods are placed on their nodes, by the scheduler's own rules: for `Scheduled`.

A pod's score is what its node would get if the pod were scheduled now, with itself taken out: the total of all scoring
plugins in percent of what they could give. A node that is not feasible any more (cordoned or tainted since) counts 0,
and the only feasible one counts 100. A pod that Trimtab cannot evaluate (see `placement.support`) has no score.

Each pod is scored once a minute, a few at a time, so that the event loop is not blocked: on 5,000 nodes one takes some
milliseconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import msgspec

from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.informers import Informer
from trimtab.placement.decisions import Outcome
from trimtab.placement.engine import place
from trimtab.placement.profiles import Profile
from trimtab.scaledown.sources.samples import Samples
from trimtab.snapshot import Snapshot

PERIOD = 60
"""Seconds between two scores of a pod."""
MAX_AGE = 300.0
"""Seconds after which a score counts as none."""
AT_A_TIME = 50
"""How many pods are scored each time."""
BEST = 100.0


class ScoreSource:
    """The last score of each pod."""

    def __init__(self, clock: Clock, snapshot: Snapshot, profile: Profile) -> None:
        self.samples = Samples()
        self._clock = clock
        self._snapshot = snapshot
        self._profile = profile
        self._due: dict[str, int] = {}

    def follow(self, groups: Iterable[Informer[Any]]) -> None:
        """Keep workloads in the snapshot: default constraints need them to group pods."""
        for informer in groups:
            informer.subscribe(
                added=self._snapshot.put,
                updated=lambda _, new: self._snapshot.put(new),
                deleted=lambda old: self._snapshot.drop(type(old), old.metadata.namespace, old.metadata.name),
            )

    async def score(self, pods: Iterable[Pod]) -> None:
        """Score the pods that are due, a few at most; other tasks run in between."""
        now = self._clock.monotonic()
        due = [pod for pod in pods if pod.active and self._due.get(pod.metadata.uid, now) <= now]
        for pod in due[:AT_A_TIME]:
            self._due[pod.metadata.uid] = now + PERIOD * SECOND
            score = score_of(pod, self._snapshot, self._profile)
            if score is not None:
                self.samples.put(pod, score, self._clock.monotonic())
            await asyncio.sleep(0)

    def keep(self, uids: frozenset[str]) -> None:
        """Drop the samples of all other pods."""
        self.samples.keep(uids)
        self._due = {uid: due for uid, due in self._due.items() if uid in uids}


def score_of(pod: Pod, snapshot: Snapshot, profile: Profile) -> float | None:
    """The score of the pod's node for it now, from 0 to 100; None where it cannot be computed."""
    row = snapshot.nodes.rows.index.get(pod.spec.node_name)
    if row is None or not snapshot.nodes.known[row]:
        return None
    loose = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    try:
        with snapshot.with_assumed(gone=[pod.key]):
            decision = place(loose, snapshot, profile, random.Random(0))  # noqa: S311 - which node is chosen does not matter
    except InvalidError:
        return None
    if decision.outcome in (Outcome.GATED, Outcome.UNSUPPORTED):
        return None
    if not decision.feasible[row]:
        return 0.0
    most = sum(given.weight for given in decision.scores.values()) * BEST
    return BEST * float(decision.total[row]) / most if most else BEST
