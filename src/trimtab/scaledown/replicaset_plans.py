"""What one controller of pods loses when its workload shrinks: the plan, and the costs that bring it about. Pure.

A workload is one step, unless it is a Deployment with several ReplicaSets: those are planned one by one, each for the
size that it will have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.api import codec
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.ranking import plan
from trimtab.ranking.costs import Side
from trimtab.ranking.plan import Plan, Policy, Victim
from trimtab.ranking.plan import Workload as Shrinking
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown import clonesets, cost_writer, deliveries
from trimtab.scaledown.deliveries import Delivery
from trimtab.scaledown.metrics import Outcome
from trimtab.scaledown.proportional import Share
from trimtab.scaledown.view import Workload
from trimtab.snapshot import Snapshot
from trimtab.snapshot.nodes import ABSENT

_NAMED = 6
"""How many domains a warning counts one by one."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one controller loses, and what is written for that."""

    share: Share
    plan: Plan
    delivery: Delivery | None = None
    """The costs that bring the plan about; None where none are needed, or none could."""
    changes: tuple[tuple[Pod, int], ...] = ()
    """Those of the costs that do not stand there yet."""
    victims: Mapping[str, str] = field(default_factory=dict)
    """The UIDs of the pods that go, and what decided that; those of earlier requests that are still there included."""
    survivors: frozenset[str] = frozenset()
    standing: tuple[Pod, ...] = ()
    """Pods whose costs of earlier plans it relies on, those included that these plans are still sending away."""


def step(
    live: Workload,
    share: Share,
    pods: Sequence[Pod],
    snapshot: Snapshot,
    policy: Policy,
    *,
    defaults: Sequence[Constraint],
    now: int,
) -> Step | None:
    """What a controller with these pods loses when it shrinks to its share; None if that is nothing.

    Where its own choice is as good nothing needs to be written, unless costs of a plan that came to nothing are there.
    """
    named = [pod for pod in pods if pod.active and clonesets.is_named(live, pod)]
    assumed = list({pod.key: pod for pod in (*going(pods, live.desired_replicas), *named)}.values())
    with snapshot.with_assumed(gone=[pod.key for pod in assumed]):
        workload = _shrinking(live, share, snapshot, constraints_for(live.spec.template, snapshot, defaults))
        if len(workload.rows) <= share.size:
            return None
        made = plan(workload, snapshot, policy, replicas=share.size, now=now)
        if not improves(made, policy) and not workload.own_costs:
            return Step(share, made)
        delivery = deliveries.deliver(made, workload, snapshot, policy, now=now)
        if delivery is None:
            return Step(share, made)
        uids = {pod.key: pod.metadata.uid for pod in pods if pod.active}
        victims = {uids[victim.key]: _decision(victim) for victim in made.victims}
        earlier = dict.fromkeys((pod.metadata.uid for pod in assumed), "earlier")
        staying = frozenset(uids.values()) - victims.keys() - earlier.keys()
        return Step(
            share,
            made,
            delivery,
            deliveries.changes(delivery, snapshot),
            {**earlier, **victims},
            staying,
            standing=_relied_on(delivery, pods, assumed),
        )


def _relied_on(delivery: Delivery, pods: Sequence[Pod], assumed: Sequence[Pod]) -> tuple[Pod, ...]:
    leaving = [pod for pod in assumed if cost_writer.own_cost(pod) is not None]
    found = {pod.key: pod for pod in (*deliveries.standing(delivery, pods), *leaving)}
    return tuple(found.values())


def _shrinking(live: Workload, share: Share, snapshot: Snapshot, constraints: tuple[Constraint, ...]) -> Shrinking:
    found = Shrinking.owned_by(snapshot, share.uid, related=share.siblings)
    objects = (snapshot.pods.objects[row] for row in found.rows.tolist())
    ours = frozenset(pod.key for pod in objects if pod is not None and _is_ours_alone(pod))
    if isinstance(live, CloneSet):
        return Shrinking(found.rows, found.related, constraints, kind="CloneSet", own_costs=ours)
    return Shrinking(found.rows, found.related, constraints, own_costs=ours)


def _is_ours_alone(pod: Pod) -> bool:
    """Whether a pod's cost is nobody's wish. One that we moved inside of a subset's band still says which band."""
    return cost_writer.own_cost(pod) is not None and cost_writer.before_us(pod) is None


def improves(made: Plan, policy: Policy) -> bool:
    """Whether a plan is better than what the controller would do by itself."""
    if policy.combination.strategies:
        return set(made.keys) != set(made.stock)
    return not made.as_stock


def going(pods: Sequence[Pod], size: int) -> list[Pod]:
    """Pods that earlier requests sent away, and that are still there; `size` is what their workload wants now.

    A request has taken effect if the workload wants no more than that. Where its victims were written, they are those;
    where its survivors were, everybody else. This is believed only as far as it leaves as many pods as were to stay.
    """
    active = [pod for pod in pods if pod.active]
    found = ((pod.key, cost_writer.mark_of(pod)) for pod in active)
    marks = {key: mark for key, mark in found if mark is not None and mark.to >= size}
    if not marks:
        return []
    spared = any(mark.side == Side.SURVIVORS.value for mark in marks.values())
    gone = [pod for pod in active if (marks[pod.key].side == Side.VICTIMS.value if pod.key in marks else spared)]
    share = max(marks.values(), key=lambda mark: mark.at).share
    return gone if len(active) - len(gone) >= share else []


# What workloads are kept level on.


class _TemplateSpec(Model):
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()


class _Template(Model):
    spec: _TemplateSpec = _TemplateSpec()


def constraints_for(
    template: Document | None, snapshot: Snapshot, defaults: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """What a workload is kept level on: what its template states, or else the defaults.

    The first one is never traded for a later one, so hard constraints come before soft ones, and of those, coarse ones
    (zones) before fine ones (nodes). A key that no node has says nothing.
    """
    stated = _stated(template)
    soft = {each.topology_key: each.when_unsatisfiable != "DoNotSchedule" for each in stated}
    soft |= {each.topology_key: False for each in stated if each.when_unsatisfiable == "DoNotSchedule"}
    keys = dict.fromkeys([Constraint(each.topology_key) for each in stated] or defaults)
    domains = {each: _domains(snapshot, each.topology_key) for each in keys}
    known = [each for each in keys if domains[each]]
    return tuple(sorted(known, key=lambda each: (soft.get(each.topology_key, True), domains[each])))


def _stated(template: Document | None) -> tuple[TopologySpreadConstraint, ...]:
    try:
        return () if template is None else codec.view(template, _Template).spec.topology_spread_constraints
    except InvalidError:
        return ()


def _domains(snapshot: Snapshot, topology_key: str) -> int:
    codes = set(snapshot.nodes.codes(topology_key)[snapshot.nodes.known].tolist())
    return len(codes - {ABSENT})


# What is said of it.


def nothing(steps: Sequence[Step], policy: Policy) -> Outcome:
    """Why there is nothing to write."""
    if any(each.delivery is not None for each in steps):
        return Outcome.REPEATED
    return Outcome.FOREIGN if any(improves(each.plan, policy) for each in steps) else Outcome.AS_STOCK


def warnings(steps: Sequence[Step]) -> tuple[str, ...]:
    """What the user is told: what stays, and what would have."""
    several = len(steps) > 1
    return tuple(f"{each.share.name}: {_told(each.plan)}" if several else _told(each.plan) for each in steps)


def _told(made: Plan) -> str:
    for each in made.levelings:
        if sorted(each.after) == sorted(each.stock):
            continue
        if each.skew_after > each.skew_stock:  # then it was not levels that decided
            break
        if len(each.domains) <= _NAMED:
            kept, stock = ("/".join(map(str, counts)) for counts in (each.after, each.stock))
            return f"kept {kept}; stock would leave {stock}"
        skews = f"a skew of {each.skew_after} over {len(each.domains)} values of {each.topology_key}"
        return f"kept {skews}; stock would leave {each.skew_stock}"
    chosen = len(set(made.keys) - set(made.stock))
    return f"the policy's strategies chose {chosen} of {len(made.victims)} pods that stock would have kept"


def _decision(victim: Victim) -> str:
    """What decided that a pod goes, in a word."""
    if victim.topology_key is not None:
        return victim.topology_key
    if victim.criterion is not None:
        return victim.criterion.name.lower()
    return "strategies" if victim.parts else "all"
