"""Traces of reviews, as an interface: without a tracer nothing is called and nothing is measured.

`app.tracing` implements it with OpenTelemetry, which is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from trimtab.api.admission import AdmissionRequest, AdmissionResponse

TRACEPARENT = "traceparent"
"""The header in which an API server with tracing names its own span."""


class Tracing(Protocol):
    """Records a span for each review."""

    def review(
        self, hook: str, request: AdmissionRequest, traceparent: str
    ) -> AbstractContextManager[Callable[[AdmissionResponse], None]]:
        """The span of a review, from now to the end of the block; the function takes the answer."""
        ...
