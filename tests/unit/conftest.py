"""What all unit tests share: no mistake of the code is hidden by a loop that logs failures and goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

MISTAKES = (AttributeError, IndexError, KeyError, NameError, TypeError)
"""Errors that no input and no server causes: work queues, informers and hooks log them, and try again."""


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, MISTAKES):
            self.found.append(f"{record.getMessage()}: {error!r}")


@pytest.fixture(autouse=True)
def no_mistakes_are_logged() -> Iterator[None]:
    """Fail a test during which Trimtab logged a mistake of its own code."""
    collector, logger = _Collector(), logging.getLogger("trimtab")
    logger.addHandler(collector)
    yield
    logger.removeHandler(collector)
    assert collector.found == []
