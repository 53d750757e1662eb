"""Reports of reviews that were admitted without a decision."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from trimtab.admission.undecided import MOST, UndecidedReports
from trimtab.api.admission import AdmissionRequest
from trimtab.api.documents import Document
from trimtab.kube.dropped_events import DropReason

LARGE = 200_000


class Reader:
    """Reads reviews, as far as the test lets it."""

    def __init__(self) -> None:
        self.on_the_loop: list[bool] = []
        self.may_read = threading.Event()
        self.reported: list[str] = []
        self.submitted = self.dropped = 0
        self.reasons: set[DropReason] = set()
        self.reports = UndecidedReports(self._drop)

    def _drop(self, reason: DropReason) -> None:
        self.dropped += 1
        self.reasons.add(reason)

    def submit(self, name: str, size: int) -> None:
        """Submit a review with an object of that size."""
        self.submitted += 1
        request = AdmissionRequest(uid="u", name=name, object=Document({"filling": "x" * size}))
        self.reports.submit(request, self._read, self.reported.append)

    def _read(self, request: AdmissionRequest) -> str:
        is_on_the_loop = threading.current_thread() is threading.main_thread()
        self.on_the_loop.append(is_on_the_loop)
        if not is_on_the_loop:
            assert self.may_read.wait(30)
        if request.name == "broken":
            raise RuntimeError("cannot be read")
        return request.name

    async def until_ended(self) -> None:
        """Wait until nothing is left to read."""
        self.may_read.set()
        while len(self.reported) + self.dropped < self.submitted:
            await asyncio.sleep(0)


async def test_a_small_review_is_reported_at_once() -> None:
    """It takes no longer to read than to start a thread."""
    reader = Reader()
    reader.submit("web", 100)
    assert (reader.reported, reader.on_the_loop) == (["web"], [True])


async def test_a_large_review_is_read_in_another_thread() -> None:
    """It is reported on the event loop, when it has been read."""
    reader = Reader()
    reader.submit("web", LARGE)
    assert reader.reported == []
    await reader.until_ended()
    assert (reader.reported, reader.on_the_loop, reader.dropped) == (["web"], [False], 0)


async def test_only_a_few_large_reviews_wait(caplog: pytest.LogCaptureFixture) -> None:
    """Callers decide how many come at once; what is dropped is counted, and there is room again later."""
    reader = Reader()
    names = [f"web-{number}" for number in range(MOST + 2)]
    with caplog.at_level(logging.WARNING):
        for name in names:
            reader.submit(name, LARGE)
    assert (reader.dropped, reader.reasons) == (2, {DropReason.LARGE})
    assert [record.getMessage().split()[0] for record in caplog.records] == [f"/{name}" for name in names[-2:]]
    await reader.until_ended()
    assert reader.reported == names[:-2]
    reader.submit("later", LARGE)
    await reader.until_ended()
    assert (reader.reported[-1], reader.dropped) == ("later", 2)


@pytest.mark.parametrize("size", [pytest.param(100, id="small"), pytest.param(LARGE, id="large")])
async def test_a_review_that_cannot_be_read_is_dropped(size: int, caplog: pytest.LogCaptureFixture) -> None:
    """Its request is admitted all the same, and those that wait behind it are reported."""
    reader = Reader()
    reader.submit("broken", size)
    reader.submit("web", size)
    with caplog.at_level(logging.WARNING):
        await reader.until_ended()
    assert (reader.reported, reader.dropped, reader.reasons) == (["web"], 1, {DropReason.FAILED})
    assert "RuntimeError: cannot be read" in caplog.text
