"""How requests are held."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.ranking.rankers import DefaultsFor
from trimtab.scaledown.constraints import zones_and_nodes
from trimtab.scaledown.cost_writer import WRITERS
from trimtab.scaledown.intent.overdue import OVERDUE
from trimtab.scaledown.intent.planner import MODEL, ModelSettings
from trimtab.scaledown.intent.ratelimits import RATES, Rates
from trimtab.scaledown.intent.requests import BUDGET
from trimtab.scaledown.intent.settle_time import INITIAL, LONGEST
from trimtab.scaledown.results.evaluation import PATIENCE
from trimtab.scaledown.results.plan_tracker import ABANDONED


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How requests are held; times in seconds."""

    budget: float = BUDGET
    settle: float = INITIAL
    longest_settle: float = LONGEST
    """The settle time never takes more of the budget than is left for writing."""
    patience: float = PATIENCE
    """How long an answered request may take to be stored before its costs are reverted."""
    abandoned: float = ABANDONED
    """How long the plans of other processes are left to them."""
    overdue: float = OVERDUE
    """After how long a scale-down that no running process tracks is taken over."""
    writers: int = WRITERS
    rates: Rates = RATES
    constraints: DefaultsFor = zones_and_nodes
    """The constraints of workloads whose templates state none."""
    model: ModelSettings = MODEL


SETTINGS = HoldSettings()
