"""Whether a new pod finds a node in a subset: simulated once, and where it is shaped."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from trimtab.api.errors import InvalidError
from trimtab.kube.threads import LARGE_OBJECT, LARGE_REVIEW
from trimtab.unitedtopology.admission.fits import SimulatedFits
from trimtab.unitedtopology.metrics import AdmissionMetrics, Doubt

JSON = dict[str, Any]


class Trial:
    """A pod of some size with two subsets; nodes take it in the second."""

    def __init__(self, size: int, answer: bool | Doubt | None = None) -> None:
        self.answer = answer
        self.simulated: list[int] = []
        self.threads: list[int] = []
        self.metrics = AdmissionMetrics()
        self.fits = SimulatedFits(
            self._simulate, self._shaped, size=size, subsets=2, namespace="shop", metrics=self.metrics
        )

    def _shaped(self, subset: int) -> JSON:
        self.threads.append(threading.get_ident())
        if self.answer is None and subset == 0:
            raise InvalidError("patch", "does not apply")
        return {"subset": subset}

    def _simulate(self, pod: JSON, namespace: str) -> bool | Doubt:
        assert namespace == "shop"
        self.simulated.append(pod["subset"])
        return True if self.answer is None else self.answer

    def doubts(self, doubt: Doubt) -> float:
        """How many pods were not simulated."""
        labels = {"reason": doubt.value}
        return self.metrics.registry.get_sample_value("trimtab_subset_simulations_skipped_total", labels) or 0


@pytest.mark.parametrize("size", [LARGE_REVIEW, LARGE_REVIEW + 1])
async def test_each_subset_is_simulated_once(size: int) -> None:
    """However often the batch is repeated; where the patch does not apply, the pod does not fit."""
    trial = Trial(size)
    assert [await trial.fits.find(index) for index in (0, 1, 0, 1)] == [False, True, False, True]
    assert [trial.fits(index) for index in (0, 1)] == [False, True]
    assert trial.simulated == [1]


async def test_a_large_pod_is_shaped_in_another_thread() -> None:
    """A small one is not: that takes less time than to change the thread."""
    small, large = Trial(LARGE_REVIEW), Trial(LARGE_REVIEW + 1)
    for trial in (small, large):
        await trial.fits.find(1)
    assert small.threads == [threading.get_ident()]
    assert large.threads
    assert threading.get_ident() not in large.threads


async def test_a_pod_that_is_too_large_takes_every_subset() -> None:
    """It is not even shaped, and counted once for each subset."""
    trial = Trial(LARGE_OBJECT + 1)
    assert [await trial.fits.find(index) for index in (0, 1, 1)] == [True, True, True]
    assert trial.fits(0)
    assert (trial.threads, trial.doubts(Doubt.LARGE)) == ([], 2)


async def test_a_subset_that_was_added_meanwhile_is_taken() -> None:
    """The pod's version of the spec does not have it."""
    trial = Trial(LARGE_REVIEW)
    assert await trial.fits.find(2)
    assert (trial.threads, trial.doubts(Doubt.LARGE)) == ([], 0)


async def test_in_doubt_the_pod_takes_the_subset() -> None:
    """A metric says why."""
    trial = Trial(LARGE_REVIEW, Doubt.NOT_FILLED)
    assert await trial.fits.find(0)
    assert trial.fits(0)
    assert trial.doubts(Doubt.NOT_FILLED) == 1
