"""Reports of reviews that were admitted without a decision.

Such a report reads the objects of its review first. For a large review that would keep the event loop busy, and most of
all when it is late already; so large ones are read in another thread, one after the other, and reported then. Callers
decide how large reviews are and how many come at once, so only a few wait for that: the report of a further one is
dropped, which is logged and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from trimtab.admission.server import is_large
from trimtab.api.admission import AdmissionRequest
from trimtab.kube.dropped_events import DropReason

T = TypeVar("T")

MOST = 8
"""How many large reviews wait to be read."""

log = logging.getLogger(__name__)


class UndecidedReports:
    """Reads reviews and reports them: small ones at once, large ones beside the event loop."""

    def __init__(self, on_drop: Callable[[DropReason], None]) -> None:
        """`on_drop` is called for each report that is dropped, with the reason."""
        self._on_drop = on_drop
        self._waiting: set[asyncio.Future[None]] = set()
        self._turn = asyncio.Lock()

    def submit(
        self, request: AdmissionRequest, read: Callable[[AdmissionRequest], T], report: Callable[[T], None]
    ) -> None:
        """Report what is read of a review. `read` may be called in another thread, `report` never is."""
        if not is_large(request):
            self._read_here(request, read, report)
        elif len(self._waiting) < MOST:
            task = asyncio.ensure_future(self._read_beside(request, read, report))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        else:
            self._drop(request, DropReason.LARGE, f"{MOST} large requests wait to be reported already")

    def _read_here(
        self, request: AdmissionRequest, read: Callable[[AdmissionRequest], T], report: Callable[[T], None]
    ) -> None:
        try:
            report(read(request))
        except Exception as error:  # noqa: BLE001 - the request is admitted all the same
            self._drop(request, DropReason.FAILED, f"{type(error).__name__}: {error}")

    async def _read_beside(
        self, request: AdmissionRequest, read: Callable[[AdmissionRequest], T], report: Callable[[T], None]
    ) -> None:
        try:
            async with self._turn:
                found = await asyncio.to_thread(read, request)
            report(found)
        except Exception as error:  # noqa: BLE001 - of one review, and not of those that wait
            self._drop(request, DropReason.FAILED, f"{type(error).__name__}: {error}")

    def _drop(self, request: AdmissionRequest, reason: DropReason, why: str) -> None:
        log.warning("%s/%s was admitted without a decision and gets no event: %s", request.namespace, request.name, why)
        self._on_drop(reason)
