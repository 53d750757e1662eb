"""Who goes first: victim orders, rankers, strategies, combination, the plan for a target. Pure.

Belongs here: which pod goes before which and by which criterion, which pods leave the rest level, and what Kubernetes
or OpenKruise would have done; each as a function of the snapshot's columns and of values handed in (`now` included).

Does not belong here: writing a cost or deleting a pod (see `controllers`), where a new pod goes (see `placement`).
What placement knows – default constraints, scores – is handed in as values.

May import: the standard library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.
"""

from trimtab.ranking.plan import Leveling, Plan, Policy, Victim, Workload, plan
from trimtab.ranking.rankers import Constraint

__all__ = ["Constraint", "Leveling", "Plan", "Policy", "Victim", "Workload", "plan"]
