"""Traces of held requests and pod admissions, with OpenTelemetry: `pip install 'trimtab[tracing]'`.

Configured by OpenTelemetry's own environment variables; without an endpoint nothing is imported. Each review is a span,
below that of the API server if it sent one, and the requests that are made to decide it are spans below that. What is
left of a held request after its last request is the settle time.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trimtab import __version__
from trimtab.admission.tracing import TRACEPARENT
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.kube.calls import Observation
from trimtab.kube.clocks import SECOND

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables of which one must be set."""
_MODULE = "opentelemetry.exporter.otlp.proto.http"

log = logging.getLogger(__name__)


class OpenTelemetryTracing:
    """Spans of reviews and of the requests that they make."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("trimtab", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def review(
        self, hook: str, request: AdmissionRequest, traceparent: str
    ) -> Iterator[Callable[[AdmissionResponse], None]]:
        """The span of a review."""
        parent = self._propagator.extract({TRACEPARENT: traceparent}) if traceparent else None
        attributes = {
            "trimtab.hook": hook,
            "k8s.namespace.name": request.namespace,
            "trimtab.kind": request.kind.kind,
            "trimtab.name": request.name,
            "trimtab.operation": request.operation,
        }
        with self._tracer.start_as_current_span(f"review {hook}", context=parent, attributes=attributes) as span:

            def record(response: AdmissionResponse) -> None:
                span.set_attribute("trimtab.allowed", response.allowed)
                if response.warnings:
                    span.set_attribute("trimtab.warnings", list(response.warnings))

            yield record

    def call(self, seen: Observation) -> None:
        """Record a request to the API server, if a review makes it."""
        from opentelemetry import trace

        if not trace.get_current_span().is_recording():
            return
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{seen.method} {seen.path.split('?')[0]}",
            start_time=end - round(seen.seconds * SECOND),
            attributes={"http.request.method": seen.method, "http.response.status_code": seen.status},
        )
        span.end(end)

    def close(self) -> None:
        """Send what has not been sent."""
        self._provider.shutdown()


def start(environment: Mapping[str, str]) -> OpenTelemetryTracing | None:
    """Tracing as the environment configures it; None if it names no endpoint, or the extra is not installed."""
    if not any(environment.get(name) for name in ENDPOINTS):
        return None
    if not _is_installed():
        log.warning("%s is set, but tracing is not installed: pip install 'trimtab[tracing]'", ENDPOINTS[1])
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = environment.get("OTEL_SERVICE_NAME") or "trimtab"
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    log.info("reviews are traced to %s", next(environment[name] for name in ENDPOINTS if environment.get(name)))
    return OpenTelemetryTracing(provider)


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(_MODULE) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False
