"""Creation in slow-start batches, as the controllers of Kubernetes create pods: 1, 2, 4, … at a time.

If a batch fails, the rest is not tried, so that a permanent failure (a quota, a webhook) is met once and not five
hundred times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from trimtab.kube.errors import ApiError

T = TypeVar("T")


async def create_in_batches(
    wanted: Sequence[T], create: Callable[[T], Awaitable[ApiError | None]], failed: Callable[[int], None]
) -> ApiError | None:
    """Create these; the first error, which `create` returns. `failed` is called with the number not created."""
    left = list(wanted)
    for size in batches(len(left)):
        batch, left = left[:size], left[size:]
        outcomes = await asyncio.gather(*(create(each) for each in batch))
        errors = [outcome for outcome in outcomes if outcome is not None]
        if errors:
            failed(len(left) + len(errors))
            return errors[0]
    return None


def batches(count: int) -> Iterator[int]:
    """The sizes of the batches."""
    size = 1
    while count > 0:
        yield min(size, count)
        count -= size
        size *= 2
