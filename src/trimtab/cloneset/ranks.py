"""Costs honoured as ranks, behind the feature gate `CloneSetPodCost`. Pure.

Ranks are looked for where the policy's carrier says: in the proposal's annotation, or in the PodGroupCost of the
CloneSet; without a policy, in the PodGroupCost if there is one, else in the annotations. In all of them the higher rank
goes first. A policy that writes `pod-deletion-cost` is not asked here: that is criterion 4 of the CloneSet's own order,
where no cost counts as 0.

| ranks | what happens |
|---|---|
| nobody has written any, and no policy asks for some | the original order |
| every pod has one | the order of ranks, where the original order looks at costs |
| one has none | wait, up to the policy's timeout; then the original order, with an event |
| a removal changes the others' | one pod goes; none until the ranks are those of exactly the pods that are left |

**Ranks of exactly these pods.** Whether ranks were recomputed is seen from the ranks themselves, so that it survives
a crash: a PodGroupCost names the pods that were ranked together, and in annotations each pod names them by a
fingerprint (`RANKED_AMONG`). Ranks that were worked out among other pods than those that are there do not hold.

**The wait** begins when the scale-down is first held up, and is kept in the status. Where every removal begins a new
one, it is kept with the fingerprint of the pods that it is about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.api import times
from trimtab.api.annotations import ALPHA_COST, RANKED_AMONG, fingerprint
from trimtab.api.cloneset import RankWait
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.kube.clocks import SECOND
from trimtab.ranking.combination import Combination
from trimtab.ranking.costs import Carrier
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.ranking.strategies.stated import number

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms ranks are honoured: what the policy says, or what holds where there is none."""

    carrier: Carrier | None = None
    """Where they are; wherever there are some, if None."""
    patience: float = 0.0
    """Seconds to wait for missing ones."""
    recompute: bool = False
    """Whether a removal changes the ranks of the others."""
    renewal: float = 0.0
    """Seconds to wait until they are recomputed: those that wait for no missing rank still go one at a time."""

    @property
    def asked_for(self) -> bool:
        """Whether somebody has promised ranks."""
        return self.carrier is not None


WITHOUT_POLICY = Terms()


@dataclass(frozen=True, slots=True)
class Found:
    """The ranks that there are, by name, and the pods that they were worked out among (None: nobody says)."""

    ranks: Mapping[str, float]
    among: str | None = None


@dataclass(frozen=True, slots=True)
class ByRank:
    """Go on, by these ranks, in the order of the group; so many pods at most."""

    ranks: tuple[float, ...]
    allowance: int


@dataclass(frozen=True, slots=True)
class Original:
    """Go on in the original order; `because` is for people, where ranks were to be had."""

    because: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Delete nothing yet."""

    wait: RankWait
    seconds: float
    because: str


Verdict = ByRank | Original | Wait


def terms(policy: ScaleDownPolicySpec | None, registry: Mapping[str, Factory] = STRATEGIES) -> Terms | None:
    """What a policy asks for; None where it writes deletion costs, which need nobody's help. Raises InvalidError."""
    if policy is None:
        return WITHOUT_POLICY
    carrier = Carrier(policy.carrier)
    if carrier is Carrier.ANNOTATION:
        return None
    combination = Combination.of(policy.strategies, registry)
    waits = policy.when_unranked
    recompute = combination.recompute or combination.one_at_a_time
    timeout = float(waits.timeout_seconds)
    return Terms(
        carrier=carrier,
        patience=timeout if waits.action == "Wait" else 0.0,
        recompute=recompute,
        renewal=timeout if recompute else 0.0,
    )


def found(asked: Terms, pods: Sequence[Pod], costs: PodGroupCost | None) -> Found | None:
    """The ranks that there are; None where nobody has promised or written any."""
    if asked.carrier is Carrier.POD_GROUP_COST or (asked.carrier is None and costs is not None):
        return _from_group(costs)
    annotated = _from_annotations(pods)
    return annotated if annotated.ranks or asked.asked_for else None


def _from_group(costs: PodGroupCost | None) -> Found:
    if costs is None:
        return Found({})
    return Found({name: float(cost) for name, cost in costs.spec.costs.items()}, fingerprint(costs.spec.costs))


def _from_annotations(pods: Sequence[Pod]) -> Found:
    written = {pod.metadata.name: number(pod.metadata.annotations.get(ALPHA_COST, "")) for pod in pods}
    among = {pod.metadata.annotations.get(RANKED_AMONG) for pod in pods}
    ranks = {name: rank for name, rank in written.items() if not math.isnan(rank)}
    return Found(ranks, among.pop() if len(among) == 1 else None)


def judge(asked: Terms, there: Found | None, names: Sequence[str], waited: RankWait | None, now: int) -> Verdict:
    """How a scale-down of these pods goes on; `waited` is the wait that the status tells of."""
    if there is None:
        return Original()
    missing = [name for name in names if name not in there.ranks]
    among = fingerprint(names) if asked.recompute else ""
    if not missing and (not asked.recompute or there.among == among):
        allowance = 1 if asked.recompute else len(names)
        return ByRank(tuple(there.ranks[name] for name in names), allowance)
    because = _unranked(missing, len(names)) if missing else "the ranks have not been recomputed since the last removal"
    patience = asked.patience if missing else asked.renewal
    if not patience:
        return Original(because)
    since = _since(waited, among, now)
    left = patience - (now - since) / SECOND
    if left <= 0:
        return Original(f"{because} after {patience:g} s")
    return Wait(RankWait(since=times.from_ns(since), among=among), left, because)


def _since(waited: RankWait | None, among: str, now: int) -> int:
    """When the wait began: times are kept in whole seconds, and a wait must not begin before it does. One that has not
    begun yet was written by a faster clock, and begins now."""
    begins = -(-now // SECOND) * SECOND
    if waited is not None and waited.among == among:
        return min(times.to_ns(waited.since), begins)
    return begins


def _unranked(missing: Sequence[str], total: int) -> str:
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"{len(missing)} of {total} pods have no rank: {', '.join(missing[:_NAMED])}{more}"
