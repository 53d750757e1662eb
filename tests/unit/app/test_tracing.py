"""Traces: a span for each review and for the requests it makes; nothing at all without an endpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.unit.admission.test_server import body, served
from trimtab.admission.server import Hook, admitted
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.app import tracing
from trimtab.kube.calls import Observation

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def traced() -> tuple[tracing.OpenTelemetryTracing, InMemorySpanExporter]:
    """Tracing into memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return tracing.OpenTelemetryTracing(provider), exporter


async def test_a_review_is_a_span_below_that_of_the_api_server_with_its_requests_below(tmp_path: Path) -> None:
    """With what was reviewed, and the answer."""
    made, exporter = traced()

    async def decide(request: AdmissionRequest) -> AdmissionResponse:
        made.call(Observation("PATCH", "/api/v1/namespaces/shop/pods/web-1", 200, 0.25))
        return admitted(request, "kept 7/7/6")

    made.call(Observation("GET", "/api/v1/pods", 200, 1.0))
    async with served(tmp_path, [Hook("scale", "/h", decide, 1.0)], tracing=made) as (server, session):
        data = body(namespace="shop", name="web", operation="UPDATE", kind={"group": "apps", "kind": "Deployment"})
        url = f"https://127.0.0.1:{server.port}/h"
        async with session.post(url, data=data, headers={"traceparent": PARENT}) as answer:
            assert answer.status == 200
    call, review = exporter.get_finished_spans()
    assert review.name == "review scale"
    assert review.attributes == {
        "trimtab.hook": "scale",
        "k8s.namespace.name": "shop",
        "trimtab.kind": "Deployment",
        "trimtab.name": "web",
        "trimtab.operation": "UPDATE",
        "trimtab.allowed": True,
        "trimtab.warnings": ("kept 7/7/6",),
    }
    assert f"{review.context.trace_id:032x}" == TRACE
    assert review.parent is not None
    assert f"{review.parent.span_id:016x}" == "b7ad6b7169203331"
    assert call.parent is not None
    assert call.parent.span_id == review.context.span_id
    assert call.start_time is not None
    assert call.end_time is not None
    assert call.end_time - call.start_time == 250_000_000


def test_without_an_endpoint_there_is_no_tracing_and_nothing_is_imported() -> None:
    """The product does not pay for an extra that is not used."""
    assert tracing.start({}) is None
    assert tracing.start({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) is None
    program = "import sys, trimtab.app, trimtab.app.admission; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603 - our own program


def test_an_endpoint_without_the_extra_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With what to install; the process goes on."""
    monkeypatch.setattr(tracing, "_is_installed", lambda: False)
    assert tracing.start({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}) is None
    assert "pip install 'trimtab[tracing]'" in caplog.text


def test_an_endpoint_starts_it() -> None:
    """And closing it ends its thread."""
    made = tracing.start({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"})
    assert made is not None
    made.close()
