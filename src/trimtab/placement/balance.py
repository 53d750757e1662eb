"""NodeResourcesBalancedAllocation: prefers nodes whose resources are in use to equal fractions.

The standard deviation of the fractions, with the pod and without, decides whether the pod makes a node more even
(towards 100) or less (towards 50). Containers without requests count as 0, and a pod that requests none of the
resources is not scored. Floating-point operations are in kube-scheduler's order, since another order rounds otherwise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trimtab.api.errors import InvalidError
from trimtab.api.schedulerconfig import NodeResourcesBalancedAllocationArgs
from trimtab.placement.framework import MAX_SCORE, Cycle, PluginKind, Scores
from trimtab.placement.resources import requests_of
from trimtab.placement.utilization import Occupancy, Use, uses, weighed
from trimtab.snapshot.columns import IntColumn, Mask

FloatColumn = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation:
    """Prefers the nodes that a pod makes more even."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        """Raises InvalidError with the path of an argument that is wrong."""
        args = args or NodeResourcesBalancedAllocationArgs()
        self._resources = weighed(args.resources, "resources", most=1)
        names = [resource.name for resource in self._resources]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise InvalidError(f"resources[{index}].name", f'"{name}" is listed twice')

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:  # noqa: ARG002 – nodes are scored independently
        """How much more even each node becomes."""
        requests, nodes = requests_of(cycle), cycle.snapshot.nodes
        if not any(requests.amounts.get(resource.name) for resource in self._resources):
            return None
        raw = nodes.kept(self, requests, lambda rows, more: self._made_even(Occupancy(nodes, requests, rows, more)))
        return Scores(raw, raw)

    def _made_even(self, occupancy: Occupancy) -> IntColumn:
        in_use = uses(occupancy, self._resources, occupancy.requests.amounts, assumed=False)
        length = len(occupancy.pods)
        divisors = [use.divisor.astype(np.float64) for use in in_use]
        raw = _evenness(in_use, [use.used + use.requested for use in in_use], divisors, length)
        raw -= _evenness(in_use, [use.used for use in in_use], divisors, length)
        raw += MAX_SCORE // 2
        raw >>= 1
        raw += MAX_SCORE // 2
        return raw


def _evenness(in_use: list[Use], used: list[IntColumn], divisors: list[FloatColumn], length: int) -> IntColumn:
    """100 where all fractions are the same, down to 50 where they could not differ more."""
    fractions = [_fraction(amount, divisor) for amount, divisor in zip(used, divisors, strict=True)]
    if len(in_use) == 2 and all(use.counted is None for use in in_use):
        deviation = fractions[0] - fractions[1]
        np.abs(deviation, out=deviation)
        deviation /= 2
    else:
        deviation = _deviation(fractions, [use.capacity != 0 for use in in_use], length)
    np.subtract(1, deviation, out=deviation)
    deviation *= MAX_SCORE
    return deviation.astype(np.int64)


def _fraction(used: IntColumn, divisor: FloatColumn) -> FloatColumn:
    fraction = used.astype(np.float64)
    fraction /= divisor
    np.minimum(fraction, 1, out=fraction)
    return fraction


def _deviation(fractions: list[FloatColumn], counted: list[Mask], length: int) -> FloatColumn:
    """The standard deviation of each node's fractions, without the resources that it does not have."""
    number, total = np.zeros(length, dtype=np.int64), np.zeros(length)
    for fraction, has in zip(fractions, counted, strict=True):
        number += has
        total += np.where(has, fraction, 0)
    mean, squares = total / np.maximum(number, 1), np.zeros(length)
    low, high = np.ones(length), np.zeros(length)
    for fraction, has in zip(fractions, counted, strict=True):
        squares += np.where(has, (fraction - mean) * (fraction - mean), 0)
        low = np.where(has, np.minimum(low, fraction), low)
        high = np.where(has, np.maximum(high, fraction), high)
    # The deviation of two is exactly half their difference; the general formula would round.
    return np.where(number == 2, (high - low) / 2, np.sqrt(squares / np.maximum(number, 1)))


PLUGIN = PluginKind(
    ("preScore", "score"), args=NodeResourcesBalancedAllocationArgs, make=NodeResourcesBalancedAllocation
)
