"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

Two pods are near each other if their nodes have the same value of a topology key. Terminating pods count, since they
still run.

Rules, which tests cite:

1. **Required affinity** holds where the node has the key of every term, and each of these domains has a pod that meets
   *all* terms. If no such pod is in any domain at all and the pod meets its own terms, it is the first of its kind, and
   any node that has the keys will do.
2. **Required anti-affinity** refuses the domains with a pod that meets a term; a node without the key is never refused.
3. The required anti-affinity of existing pods refuses their domains to the pod, if it meets their terms.
4. **The score** adds the weights of preferred terms that are met, both the pod's own and those of existing pods;
   anti-affinity subtracts. Required affinity of existing pods counts with a weight from the arguments.

A term applies to the namespaces that it lists, and to those that its namespace selector matches. For an incoming pod's
term, kube-scheduler 1.36 also tries the selector on a namespace without labels, for any pod: `{}`, `NotIn` and
`DoesNotExist` thus reach every namespace. That looks like an oversight upstream; Trimtab places pods the same way.
"""

from trimtab.api.schedulerconfig import InterPodAffinityArgs
from trimtab.placement.framework import PluginKind
from trimtab.placement.interpod.hints import HINTS
from trimtab.placement.interpod.plugin import UNREADABLE, InterPodAffinity

__all__ = ["HINTS", "PLUGIN", "UNREADABLE", "InterPodAffinity"]

PLUGIN = PluginKind(
    ("preFilter", "filter", "preScore", "score"),
    needs=("preFilter", "preScore"),
    args=InterPodAffinityArgs,
    make=InterPodAffinity,
    hints=HINTS,
)
