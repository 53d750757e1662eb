"""What Trimtab wrote to other people's objects, found and taken back by looking at the cluster alone.

Each sweep may be run at any time and again, needs no running Trimtab, and leaves what somebody else has written since.
They are in an order: a plan's costs give way to what stood before them, which may be a policy's or a subset's, and
those give way to nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from trimtab.api.annotations import NAMESPACE_LABEL
from trimtab.api.core import Namespace
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict
from trimtab.scaledown import cost_writer
from trimtab.scaledown.continuous import carriers
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.pod_annotator import PodAnnotator

Sweep = Callable[[Client], Awaitable[int]]
"""Takes something back everywhere; how many objects had it."""

_ATTEMPTS = 5


async def subsets(client: Client) -> int:
    """Take back the marks and costs of subsets. Pods stay where they are."""
    count = 0
    annotator = PodAnnotator(client, Metrics())
    for _ in range(_ATTEMPTS):
        pods = [pod async for page in client.pages(Pod) for pod in page.items if not pod.terminating]
        found = [(pod, change) for pod in pods if (change := costs.revert_change(pod))]
        if not found:
            return count
        count += len(await annotator.write(found, reason="sweep"))
    raise Conflict("some pods of subsets change faster than they can be written to; run this again")


async def namespace_labels(client: Client) -> int:
    """Take the label off the namespaces that have a UnitedTopology."""
    labelled = await client.list(Namespace, label_selector=NAMESPACE_LABEL)
    for namespace in labelled.items:
        await client.patch(Namespace, namespace.metadata.name, {"metadata": {"labels": {NAMESPACE_LABEL: None}}})
    return len(labelled.items)


SWEEPS: Mapping[str, Sweep] = {
    "costs of scale-downs": cost_writer.sweep,
    "costs kept current by policies": carriers.sweep,
    "marks and costs of subsets": subsets,
    "labels of namespaces": namespace_labels,
}
"""By what they take back, in order."""
