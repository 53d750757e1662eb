"""PodTopologySpread: which nodes would unbalance a topology, and which would balance it best.

A constraint divides the nodes into domains, by the value of a label, and compares how many matching pods each domain
has. The snapshot keeps that number for each node (`Snapshot.matching`), and `domains` keeps which node is in which
domain, so a domain's number is one sum away; no pod is read here.

Rules, which tests cite. Those of a hard constraint (`DoNotSchedule`):

1. Counted are pods of the incoming pod's namespace that match the selector and are not terminating. An absent
   selector matches nothing; an empty one matches the incoming pod, and yet counts no pods.
2. A node counts for a constraint if it has the keys of all hard constraints and the constraint's policies include it:
   `nodeAffinityPolicy` (default Honor) requires the pod's required node affinity, `nodeTaintsPolicy` (default Ignore)
   taints that the pod tolerates.
3. The minimum is that of the domains with a node that counts, and 0 if there are fewer of them than `minDomains`.
4. A node is refused if its domain, with the incoming pod if that matches, would exceed the minimum by more than
   `maxSkew`. This holds for every node, also for one that does not count.
5. A node that lacks a key is refused as unresolvable. Constraints are tried in order, and the first that fails decides.

Those of soft constraints (`ScheduleAnyway`), among the feasible nodes:

6. A feasible node that lacks a soft constraint's key gets 0, and is no part of 7 to 9. The `System` and `Proposal`
   defaults differ: there such a node takes part, and its missing label is a value like any other, the empty one.
7. A node's raw score is the sum, over constraints, of `count * ln(domains + 2) + (maxSkew - 1)`, rounded; a key that
   the node lacks adds nothing. `domains` are those of the feasible nodes.
8. `count` is the domain's, as in 1 and 2 (but for the keys of all soft constraints). For the hostname it is the node's
   own, whatever the policies, and `domains` is the number of nodes: hostnames are not compared.
9. The score is `100 * (max + min - raw) / max`, truncated: the best node gets 100, the worst `100 * min / max`.
"""

from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.placement import defaults
from trimtab.placement.framework import PluginKind
from trimtab.placement.spread.hints import HINTS
from trimtab.placement.spread.plugin import LACKS_LABEL, SKEWED, PodTopologySpread

__all__ = ["HINTS", "LACKS_LABEL", "PLUGIN", "SKEWED", "PodTopologySpread"]

PLUGIN = PluginKind(
    ("preFilter", "filter", "preScore", "score"),
    needs=("preFilter", "preScore"),
    args=PodTopologySpreadArgs,
    make=PodTopologySpread,
    check=defaults.check,
    hints=HINTS,
)
