"""Reading of reviews, which takes no longer than their hook may.

Small ones are read on the event loop, all others in threads of the server's own: one for those that are as large as
most objects are at most, and one for all larger ones. Whoever reaches the port decides how large a review is, and a
review of megabytes takes long to read; those of API servers do not wait for it, nor does what else the process reads
beside its event loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from trimtab.admission.deadlines import Deadlines
from trimtab.api import admission
from trimtab.api.admission import AdmissionRequest
from trimtab.kube.threads import LARGE_OBJECT, LARGE_REVIEW


class ReviewReader:
    """Reads reviews, each until a deadline."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._reviews = ThreadPoolExecutor(1, thread_name_prefix="reviews")
        self._large_reviews = ThreadPoolExecutor(1, thread_name_prefix="large-reviews")

    async def read(self, body: bytes, budget: float, started: int) -> AdmissionRequest:
        """The request of a review.

        Raises what `admission.read_review` raises, or TimeoutError if it has not been read within so many seconds of a
        moment on the monotonic clock. One whose turn has not come by then is not read at all.
        """
        if len(body) <= LARGE_REVIEW:
            return admission.read_review(body)
        executor = self._large_reviews if len(body) > LARGE_OBJECT else self._reviews
        reading = asyncio.get_running_loop().run_in_executor(executor, admission.read_review, body)
        return await self._deadlines.within(budget, started, reading)

    def close(self) -> None:
        """Read nothing any more."""
        for each in (self._reviews, self._large_reviews):
            each.shutdown(wait=False, cancel_futures=True)
