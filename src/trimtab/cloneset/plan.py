"""What is done next about the pods of a CloneSet, as one value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from trimtab.api.cloneset import CloneSet, RankWait
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.cloneset import instances, ranks, sizes, victims
from trimtab.cloneset.instances import Instance
from trimtab.cloneset.observation import Group
from trimtab.cloneset.ranks import ByRank, Original, Terms, Verdict, Wait
from trimtab.cloneset.settings import Settings
from trimtab.cloneset.sizes import Sizes
from trimtab.ranking.rankers import Constraint
from trimtab.snapshot import Snapshot


class Step(StrEnum):
    """What is done."""

    NOTHING = "nothing"
    CREATE = "create"
    MARKED = "delete marked pods"
    SHRINK = "shrink"
    REPLACE = "replace old pods"


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: pods to make, or pods to delete, the first one first."""

    step: Step = Step.NOTHING
    births: tuple[Instance, ...] = ()
    victims: tuple[Pod, ...] = ()
    held_back: int = 0
    """How many more would be made if scaleStrategy.maxUnavailable did not hold them back."""
    wait: RankWait | None = None
    """The wait for ranks that the scale-down is in."""
    waits_for: str = ""
    fell_back: str = ""
    """Why ranks were ignored, where there were to be some."""
    recheck_in: float | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a plan depends on besides the pods."""

    cloneset: CloneSet
    snapshot: Snapshot
    taken: Callable[[str], bool]
    """Whether there is a pod of that name."""
    now: int
    settings: Settings
    terms: Terms | None = None
    """On what terms ranks are honoured; not at all, where None."""
    costs: PodGroupCost | None = None
    waited: RankWait | None = field(default=None)
    refused: frozenset[Step] = frozenset()
    """What has just been tried in vain: what else there is to do is done."""

    @property
    def rules(self) -> tuple[Constraint, ...]:
        """The constraints that the pods are kept level by."""
        return victims.constraints(self.cloneset.spec.template, self.settings.default_constraints)


def plan(around: Circumstances, group: Group) -> Plan:
    """The first thing that there is to do."""
    needed = sizes.sizes(sizes.bounds(around.cloneset.spec), sizes.count(group))
    made = _first(around, group, needed) or Plan(held_back=needed.held_back)
    if Step.SHRINK in around.refused:  # what it waited for is not to be waited for again
        made = replace(made, wait=around.waited)
    return made


def _first(around: Circumstances, group: Group, needed: Sizes) -> Plan | None:
    for step, work in _WORK.items():
        made = None if step in around.refused else work(around, group, needed)
        if made is not None:
            return made
    return None


def _births(around: Circumstances, _: Group, needed: Sizes) -> Plan | None:
    count = min(needed.create, around.settings.burst)
    if not count:
        return None
    metadata, used_up = around.cloneset.metadata, around.cloneset.status.next_instance
    made = instances.free(metadata, used_up, around.taken, count)
    return Plan(Step.CREATE, births=made, held_back=needed.held_back)


def _marked(around: Circumstances, group: Group, needed: Sizes) -> Plan | None:
    if not needed.marked:
        return None
    order = victims.in_order(around.snapshot, group, group.marked, around.rules, scale=around.settings.scale)
    waited = around.waited if needed.shrink else None  # it goes on meanwhile
    return _deletion(Step.MARKED, group, victims.sparing(group, order, needed.spare), waited)


def _surplus(around: Circumstances, group: Group, needed: Sizes) -> Plan | None:
    if not needed.shrink:
        return None
    verdict = _verdict(around, group)
    if isinstance(verdict, Wait):
        return Plan(wait=verdict.wait, waits_for=verdict.because, recheck_in=verdict.seconds)
    count, costs = needed.shrink, None
    if isinstance(verdict, ByRank):
        count, costs = min(count, verdict.allowance), victims.as_costs(verdict.ranks)
    order = victims.old_first(around.snapshot, group, around.rules, scale=around.settings.scale, costs=costs)
    fell_back = verdict.because if isinstance(verdict, Original) else ""
    waited = around.waited if fell_back else None  # it is over until all have gone
    going = victims.sparing(group, order, needed.spare, needed.shrink_new)
    return _deletion(Step.SHRINK, group, going[:count], waited, fell_back)


def _verdict(around: Circumstances, group: Group) -> Verdict:
    if around.terms is None:
        return Original()
    there = ranks.found(around.terms, group.pods, around.costs)
    return ranks.judge(around.terms, there, group.names, around.waited, around.now)


def _outdated(around: Circumstances, group: Group, needed: Sizes) -> Plan | None:
    """Which old pods give way first is a matter of the order; costs are about shrinking, and are not asked."""
    if not needed.replace:
        return None
    old = ~group.updated & ~group.marked
    order = victims.in_order(around.snapshot, group, old, around.rules, scale=around.settings.scale)
    return _deletion(Step.REPLACE, group, victims.sparing(group, order, needed.spare)[: needed.replace])


def _deletion(
    step: Step, group: Group, places: Sequence[int], waited: RankWait | None = None, fell_back: str = ""
) -> Plan | None:
    if not places:
        return None
    return Plan(step, victims=tuple(group.pods[place] for place in places), wait=waited, fell_back=fell_back)


_WORK: Mapping[Step, Callable[[Circumstances, Group, Sizes], Plan | None]] = {
    Step.CREATE: _births,
    Step.MARKED: _marked,
    Step.SHRINK: _surplus,
    Step.REPLACE: _outdated,
}
"""What can be done, the first thing first."""
