"""Which pods are deleted first: victim orders, strategies, the plan for a target size, certainty, costs. Pure.

Belongs here: the order in which pods are deleted and by which criterion, which pods leave the rest level, what
Kubernetes or OpenKruise may delete instead, and which costs make a plan certain; each as a function of the snapshot's
columns and of arguments (`now` included).

Does not belong here: writing a cost or deleting a pod (see `scaledown`, `cloneset`), where a new pod goes (see
`placement`). Default constraints and scores are arguments.

May import: the standard library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.
"""

from trimtab.ranking.plan import Leveling, Plan, Policy, Victim, Workload, plan
from trimtab.ranking.rankers import Constraint

__all__ = ["Constraint", "Leveling", "Plan", "Policy", "Victim", "Workload", "plan"]
