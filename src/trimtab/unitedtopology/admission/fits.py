"""Whether a new pod finds a node in each subset: simulated as the subset shapes it, once for each."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.kube.threads import LARGE_OBJECT, read_beside
from trimtab.unitedtopology.metrics import AdmissionMetrics, Doubt

Simulate = Callable[[JSON, str], bool | Doubt]
"""Whether a node in the cluster can take a shaped pod, or why that is not known. The second argument is its
namespace."""


class SimulatedFits:
    """The results for one pod, however often its batch is repeated.

    A pod takes a fit: where it is too large to be simulated, in doubt, and in a subset that was added to the spec after
    the pod was read.
    """

    def __init__(
        self,
        simulate: Simulate,
        shaped: Callable[[int], JSON],
        *,
        size: int,
        subsets: int,
        namespace: str,
        metrics: AdmissionMetrics,
    ) -> None:
        """`shaped` returns the pod as a subset shapes it; the pod has `size` bytes."""
        self._simulate = simulate
        self._shaped = shaped
        self._size = size
        self._subsets = subsets
        self._namespace = namespace
        self._metrics = metrics
        self._results: dict[int, bool] = {}

    def __call__(self, subset: int) -> bool:
        """Whether a node can take the pod."""
        if subset not in self._results:
            self._results[subset] = self._takes_unseen(subset) or self._fits(self._pod(subset))
        return self._results[subset]

    async def find(self, subset: int) -> bool:
        """The same; a large pod is shaped in another thread."""
        if subset not in self._results:
            takes = self._takes_unseen(subset)
            self._results[subset] = takes or self._fits(await read_beside(self._size, self._pod, subset))
        return self._results[subset]

    def _takes_unseen(self, subset: int) -> bool:
        """Whether the pod takes a subset without a simulation."""
        if subset >= self._subsets:
            return True
        if self._size > LARGE_OBJECT:
            self._metrics.record_doubts(Doubt.LARGE)
        return self._size > LARGE_OBJECT

    def _pod(self, subset: int) -> JSON | None:
        try:
            return self._shaped(subset)
        except InvalidError:
            return None

    def _fits(self, pod: JSON | None) -> bool:
        found = False if pod is None else self._simulate(pod, self._namespace)
        if isinstance(found, Doubt):
            self._metrics.record_doubts(found)
            return True
        return found
