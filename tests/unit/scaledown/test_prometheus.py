"""The source Prometheus against a small HTTP server: what is asked, what is taken of an answer, what is reported."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.lab.prometheus import JOBS, FakePrometheus, serving, vector
from trimtab.admission.certificate_authority import make_authority, sign
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.scaledown.sources import SourceError
from trimtab.scaledown.sources import prometheus as module
from trimtab.scaledown.sources.prometheus import PrometheusSource
from trimtab.testing.builders import pod


def pods(*names: str, namespace: str = "shop") -> list[Pod]:
    """Pods of one workload."""
    return [pod(name, namespace=namespace).on("a").build() for name in names]


@asynccontextmanager
async def connected(fake: FakePrometheus, **settings: Any) -> AsyncIterator[PrometheusSource]:
    """The source, at the address of a server."""
    source = PrometheusSource.configured({"url": fake.url, **settings})
    try:
        yield source
    finally:
        await source.close()


async def problem(fake: FakePrometheus, query: str = JOBS, **settings: Any) -> str:
    """What the author of a policy is told."""
    async with connected(fake, **settings) as source:
        with pytest.raises(SourceError) as error:
            await source.sample(query, pods("a"))
    return str(error.value)


async def test_the_values_of_the_workloads_pods_are_taken() -> None:
    """Of this namespace alone, by an instant query with a time limit."""
    async with serving() as fake, connected(fake, timeoutSeconds=2) as source:
        fake.jobs = {("shop", "a"): 1.0, ("shop", "b.c"): 2.5, ("shop", "other"): 3.0, ("bank", "a"): 9.0}
        assert await source.sample(JOBS, pods("a", "b.c", "absent")) == {"a": 1.0, "b.c": 2.5}
    (asked,) = fake.requests
    assert asked["query"] == 'sum by (pod) (jobs{namespace="shop", pod=~"a|absent|b[.]c"})'
    assert asked["timeout"] == "2s"
    assert asked["authorization"] == ""


async def test_series_of_other_pods_and_namespaces_are_not_used() -> None:
    """Whatever a server answers: nothing of them reaches a rank."""
    answered = vector(
        ({"pod": "a", "namespace": "bank"}, 1),
        ({"pod": "b", "namespace": "shop"}, 2),
        ({"pod": "elsewhere"}, 3),
        ({"pod": "twice", "instance": "1"}, 4),
        ({"pod": "twice", "instance": "2"}, 5),
        ({"instance": "1"}, 6),
        ({"pod": "odd"}, "NaN"),
        ({"pod": "odder"}, "many"),
    )
    found = module.values(web.json_response(answered).body, "shop", {"a", "b", "twice", "odd", "odder"})  # type: ignore[arg-type]
    assert {name: value for name, value in found.items() if value == value} == {"b": 2.0}


async def test_a_query_that_reads_more_is_not_sent() -> None:
    """A strategy of an installed package may have made it."""
    async with serving() as fake:
        assert "up is not restricted to the namespace" in await problem(fake, "up")
    assert fake.requests == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(
            400,
            {"status": "error", "errorType": "bad_data", "error": "1:4: parse error: unexpected end of input"},
            "the query is refused: 1:4: parse error: unexpected end of input",
            id="a mistake in the query",
        ),
        pytest.param(
            422,
            {"status": "error", "errorType": "execution", "error": "duplicate series on {pod='secret'}"},
            "the query cannot be executed",
            id="an error of its execution, without what it names",
        ),
        pytest.param(
            503, {"status": "error", "errorType": "timeout", "error": "x"}, "the query took too long", id="too slow"
        ),
        pytest.param(
            503, {"status": "error", "errorType": "internal", "error": "secret"}, "an error of its own", id="internal"
        ),
        pytest.param(401, {}, "it answered 401; see tokenFile in Trimtab's configuration", id="no token"),
        pytest.param(302, {}, "it answered 302", id="a redirect, which is not followed"),
        pytest.param(200, [], "not that of a Prometheus server", id="another server"),
        pytest.param(
            200,
            {"status": "success", "data": {"resultType": "matrix", "result": []}},
            "the query returns a matrix; write one that returns an instant vector",
            id="no instant vector",
        ),
        pytest.param(
            200, vector(({"instance": "1"}, 1)), "series without a label pod; write sum by (pod)", id="no label pod"
        ),
        pytest.param(
            200,
            {"status": "success", "data": {"resultType": "vector", "result": [{"value": 5}]}},
            "not that of a Prometheus server",
            id="a vector of another form",
        ),
    ],
)
async def test_why_there_are_no_values_is_reported(status: int, body: Any, words: str) -> None:
    """Of the query to its author; of everything else only of what sort it is."""

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response(body, status=status, headers={"Location": "/elsewhere"})

    async with serving() as fake:
        fake.answer = refuse
        said = await problem(fake)
    assert words in said
    assert "secret" not in said


async def test_a_large_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the memory of a process that holds requests."""
    monkeypatch.setattr(module, "LARGEST", 1 << 20)

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(64):
                await response.write(b"[" * (1 << 17))
        except ConnectionError:
            pass
        return response

    async with serving() as fake:
        fake.answer = flood
        assert "its answer is larger than 1 MiB" in await problem(fake)


async def test_a_server_that_cannot_be_reached_is_reported_without_its_address() -> None:
    """The address is the administrator's."""
    async with serving() as fake:
        pass
    said = await problem(fake)
    assert said == "it cannot be reached: Connection refused"


def certificate(folder: Path) -> ssl.SSLContext:
    """A server certificate for loopback, whose authority is in ca.pem."""
    now = datetime.now(UTC)
    authority = make_authority(now)
    made = sign(authority, ["127.0.0.1"], now)
    (folder / "ca.pem").write_bytes(authority.certificate)
    (folder / "server.pem").write_bytes(made.certificate)
    (folder / "server.key").write_bytes(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


async def test_the_token_is_sent_to_the_server_that_the_ca_vouches_for(tmp_path: Path) -> None:
    """And to no other; a token that was replaced is read again."""
    token = tmp_path / "token"
    token.write_text("first\n")
    async with serving(certificate(tmp_path)) as fake:
        fake.jobs = {("shop", "a"): 1.0}
        async with connected(fake, tokenFile=str(token), caFile=str(tmp_path / "ca.pem")) as source:
            await source.sample(JOBS, pods("a"))
            token.write_text("second")
            assert await source.sample(JOBS, pods("a")) == {"a": 1.0}
        assert [each["authorization"] for each in fake.requests] == ["Bearer first", "Bearer second"]
        assert "its certificate is not trusted" in await problem(fake, tokenFile=str(token))
        assert "the tokenFile" in await problem(fake, tokenFile=str(tmp_path / "absent"))
        assert "the caFile" in await problem(fake, caFile=str(tmp_path / "absent"))
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        pytest.param({}, "args.url", id="no address"),
        pytest.param({"url": "prometheus:9090"}, "args.url", id="no scheme"),
        pytest.param({"url": "http://admin:secret@x"}, "args.url", id="a password"),
        pytest.param({"url": "http://x/?a=b"}, "args.url", id="a query"),
        pytest.param({"url": "http://x", "tokenFile": "/t"}, "args.tokenFile", id="a token in the clear"),
        pytest.param({"url": "http://x", "timeoutSeconds": 0}, "args.timeoutSeconds", id="no time"),
        pytest.param({"url": "http://x", "token": "y"}, "args.token", id="a token in the file itself"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], path: str) -> None:
    """With the setting; a password is not shown."""
    with pytest.raises(InvalidError) as error:
        PrometheusSource.configured(settings)
    assert error.value.path == path
    assert "secret" not in str(error.value)
