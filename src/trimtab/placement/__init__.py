"""Where may a pod go: plugins that filter and score nodes, default constraints, profiles. Pure.

Belongs here: which nodes are feasible for a pod and which of them is best, as functions of the snapshot's columns, over
all nodes at once and without sampling; and which changes of a cluster may help a pod that found no node.

Does not belong here: queues, bindings and retries (see `scheduler`), and which pod is deleted first (see `ranking`).

May import: the standard library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.

A plugin is one module or folder with its filter, its score and its requeue hints; `plugins` registers it by one line:

    engine → profiles → plugins → affinity, interpod, resources, spread, taints, … → framework → hints → changes
                           ↑
                        requeue
"""

from trimtab.placement.decisions import Decision
from trimtab.placement.engine import place
from trimtab.placement.profiles import default_profile, profiles

__all__ = ["Decision", "default_profile", "place", "profiles"]
