"""Where costs that are kept current are written: an annotation of each pod, or one object for the whole group. Pure.

| carrier | where | deleted first | read by |
|---|---|---|---|
| `Annotation` | `controller.kubernetes.io/pod-deletion-cost` | the lower | every built-in controller, CloneSets |
| `AlphaAnnotation` | `scheduling.alpha.kubernetes.io/cost` | the higher | Trimtab's CloneSets, with `CloneSetPodCost` |
| `PodGroupCost` | a PodGroupCost of the group | the higher | Trimtab's CloneSets, with `CloneSetPodCost` |

Costs are reverted from what the objects carry: pods have an annotation beside the cost (see `pod_costs`), PodGroupCosts
have one too. There is no finalizer: a cost that is not reverted because Trimtab is not running does no harm, and
`sweeps` finds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.ranking.costs import Band, Carrier


def cost_of(number: int, carrier: Carrier, band: Band) -> int:
    """A number that rises with rank, as this carrier counts, inside a band."""
    return -carrier.sign * band.place(-number)


def number_of(cost: int, carrier: Carrier, band: Band) -> int:
    """The number that a cost stands for; a cost of another band gives a number that is out of range."""
    return band.centre + carrier.sign * cost


@dataclass(slots=True)
class CarrierReport:
    """What was written to the carriers of a group, and what was not."""

    written: int = 0
    reverted: int = 0
    foreign: list[str] = field(default_factory=list)
    """Pods whose cost belongs to another program."""
    failed: dict[str, str] = field(default_factory=dict)
    """Objects whose write failed, and the error."""
