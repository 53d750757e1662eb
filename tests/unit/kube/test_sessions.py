"""Sessions: requests over real sockets, with credentials, TLS and proxies; and what comes of failures."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from aiohttp import web

from tests.unit.kube.certificates import Authority, Pair
from trimtab.kube.clocks import SystemClock
from trimtab.kube.credentials import Credentials, FileMaterial, Grant, InlineMaterial, StaticCredentials
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.errors import CredentialsError, Timeout, Unreachable, Untrusted
from trimtab.kube.execplugins import ExecCredentials, Plugin
from trimtab.kube.sessions import Session
from trimtab.kube.tls import Trust
from trimtab.kube.transport import Request, Stream

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
AUTHORITY = Authority()


def server_context(pair: Pair, directory: Path, *, clients: bool = False) -> ssl.SSLContext:
    """TLS as a server does it; with `clients`, it wants to see their certificates."""
    (directory / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    return context


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server on this machine, and its address."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


async def show(request: web.BaseRequest) -> web.StreamResponse:
    """Echo the request."""
    peer = request.get_extra_info("peercert") or {}
    body = await request.read()
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "body": body.decode(),
            "headers": [[name.lower(), value] for name, value in request.headers.items()],
            "client": [value for part in peer.get("subject", ()) for name, value in part if name == "commonName"],
        }
    )


def parsed(body: bytes) -> dict[str, Any]:
    """What `show` answered."""
    tree: dict[str, Any] = json.loads(body)
    return tree


def token(text: str) -> Credentials:
    """A token."""
    return StaticCredentials(token=InlineMaterial(text.encode()))


async def test_a_request_arrives_unchanged() -> None:
    """Method, path, parameters, body and the headers that matter."""
    request = Request(
        "PATCH", "/api/x%3Ay", (("labelSelector", "a in (b,c)"), ("p", "1+1&2")), b"{}", "application/p+json"
    )
    async with serving(show) as address, Session(Endpoint(f"{address}/prefix/")) as session:
        response = await session.send(request)
    seen = parsed(response.body)
    headers = dict(seen["headers"])
    assert seen["method"] == "PATCH"
    path, _, query = seen["path"].partition("?")
    assert unquote(path) == "/prefix/api/x:y"
    assert parse_qsl(query) == list(request.params)
    assert seen["body"] == "{}"
    assert headers["content-type"] == "application/p+json"
    assert headers["accept"] == "application/json"
    assert headers["user-agent"].startswith("trimtab/")
    assert "authorization" not in headers


async def test_credentials_and_impersonation_are_headers() -> None:
    """Several values of one header stay several."""
    impersonate = {"Impersonate-User": ("jane",), "Impersonate-Group": ("a", "b")}
    async with (
        serving(show) as address,
        Session(Endpoint(address, credentials=token("t"), impersonate=impersonate)) as session,
    ):
        seen = parsed((await session.send(Request("GET", "/"))).body)
    assert ["authorization", "Bearer t"] in seen["headers"]
    assert [value for name, value in seen["headers"] if name.startswith("impersonate")] == ["jane", "a", "b"]


async def test_credentials_are_not_sent_without_tls() -> None:
    """Only over TLS, or to this machine; the error says why."""
    assert Endpoint("https://api.example.com").can_send_credentials
    assert Endpoint("http://localhost:8001").can_send_credentials
    async with Session(Endpoint("http://api.example.com", credentials=token("hunter2"))) as session:
        with pytest.raises(CredentialsError, match="not sent without TLS"):
            await session.send(Request("GET", "/"))


async def test_an_invalid_token_is_refused_before_it_is_sent() -> None:
    """And is not shown."""
    async with serving(show) as address, Session(Endpoint(address, credentials=token("hunter2\nX: y"))) as session:
        with pytest.raises(CredentialsError, match="characters that are not allowed in a token") as caught:
            await session.send(Request("GET", "/"))
    assert "hunter2" not in str(caught.value)


async def test_responses_of_any_status_are_returned() -> None:
    """Codes, headers and bodies are passed on; redirects are not followed, for they would take the token along."""

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "https://elsewhere.example.com"}, body=b"moved")

    async with serving(handler) as address, Session(Endpoint(address, credentials=token("t"))) as session:
        response = await session.send(Request("GET", "/"))
    assert (response.status, response.body) == (302, b"moved")


async def test_warnings_are_read_from_their_headers() -> None:
    """One header may hold several, and quotes are escaped."""

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        response = web.Response()
        response.headers.add("Warning", '299 - "old \\"v1\\" API", 299 - "odd"')
        response.headers.add("Warning", '199 - "not for us"')
        return response

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        assert (await session.send(Request("GET", "/"))).warnings == ('old "v1" API', "odd")


async def test_a_refused_token_is_renewed_once(tmp_path: Path) -> None:
    """The file has another one by now; any call may be sent again, for a 401 did nothing."""
    file = tmp_path / "token"
    file.write_text("old")
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(f"{request.method} {request.headers['Authorization']}")
        file.write_text("new")
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    credentials = StaticCredentials(token=FileMaterial(file, SystemClock()))
    async with serving(handler) as address, Session(Endpoint(address, credentials=credentials)) as session:
        assert (await session.send(Request("POST", "/", body=b"{}"))).status == 200
        assert seen == ["POST Bearer old", "POST Bearer new"]
        file.write_text("old")
        credentials = StaticCredentials(token=FileMaterial(file, SystemClock()))
    async with serving(handler) as address, Session(Endpoint(address, credentials=credentials)) as session:
        stream = await session.stream(Request("GET", "/"))
        assert stream.status == 200
        await stream.close()


async def test_a_repeated_401_is_returned() -> None:
    """There is nothing else to try with."""
    asked = 0

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.Response(status=401)

    async with serving(handler) as address, Session(Endpoint(address, credentials=token("t"))) as session:
        assert (await session.send(Request("GET", "/"))).status == 401
    assert asked == 1


async def test_an_exec_plugin_is_run_again_on_a_401(tmp_path: Path) -> None:
    """The second token is another one."""
    script = (
        "import json, pathlib, sys; runs = pathlib.Path(sys.argv[1]);"
        "runs.write_text((runs.read_text() if runs.exists() else '') + 'x');"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        "'status': {'token': 't' + str(len(runs.read_text()))}}))"
    )

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer t2" else 401)

    args = ("-c", script, str(tmp_path / "runs"))
    plugin = Plugin(sys.executable, "client.authentication.k8s.io/v1", args, interactive_mode="Never")
    credentials = ExecCredentials(plugin, SystemClock(), environ=os.environ)
    async with serving(handler) as address, Session(Endpoint(address, credentials=credentials)) as session:
        assert (await session.send(Request("GET", "/"))).status == 200
        assert await credentials.grant() == Grant("t2")


# TLS.


async def test_a_server_of_the_right_authority_is_trusted(tmp_path: Path) -> None:
    """And sees our client certificate."""
    tls = server_context(AUTHORITY.server("127.0.0.1"), tmp_path, clients=True)
    pair = AUTHORITY.client("jane")
    credentials = StaticCredentials(certificate=InlineMaterial(pair.certificate), key=InlineMaterial(pair.key))
    async with serving(show, tls) as address:
        endpoint = Endpoint(address, credentials=credentials, trust=Trust(InlineMaterial(AUTHORITY.certificate)))
        async with Session(endpoint) as session:
            assert parsed((await session.send(Request("GET", "/"))).body)["client"] == ["jane"]


async def test_a_client_certificate_is_replaced_while_running(tmp_path: Path) -> None:
    """A new one in the file is a new context, and new connections."""
    tls = server_context(AUTHORITY.server("127.0.0.1"), tmp_path, clients=True)
    files = tmp_path / "crt", tmp_path / "key"

    def write(name: str) -> None:
        pair = AUTHORITY.client(name)
        files[0].write_bytes(pair.certificate)
        files[1].write_bytes(pair.key)

    write("first")
    materials = [FileMaterial(file, SystemClock()) for file in files]
    credentials = StaticCredentials(certificate=materials[0], key=materials[1])
    async with serving(show, tls) as address:
        endpoint = Endpoint(address, credentials=credentials, trust=Trust(InlineMaterial(AUTHORITY.certificate)))
        async with Session(endpoint) as session:
            first = parsed((await session.send(Request("GET", "/"))).body)["client"]
            write("second")
            for material in materials:
                material.reread()
            second = parsed((await session.send(Request("GET", "/"))).body)["client"]
    assert (first, second) == (["first"], ["second"])


@pytest.mark.parametrize(
    ("names", "trust", "trusted"),
    [
        pytest.param(["127.0.0.1"], Trust(InlineMaterial(AUTHORITY.certificate)), True, id="the right authority"),
        pytest.param(["127.0.0.1"], Trust(InlineMaterial(Authority().certificate)), False, id="another authority"),
        pytest.param(["127.0.0.1"], Trust(), False, id="none but the machine's"),
        pytest.param(["127.0.0.1"], Trust(insecure=True), True, id="not asked"),
        pytest.param(["kubernetes"], Trust(InlineMaterial(AUTHORITY.certificate)), False, id="another name"),
        pytest.param(
            ["kubernetes"], Trust(InlineMaterial(AUTHORITY.certificate), "kubernetes"), True, id="that name was meant"
        ),
    ],
)
async def test_which_certificates_are_trusted(tmp_path: Path, names: list[str], trust: Trust, trusted: bool) -> None:
    """A stranger gets no request."""
    tls = server_context(AUTHORITY.server(*names), tmp_path)
    async with serving(show, tls) as address, Session(Endpoint(address, trust=trust)) as session:
        if trusted:
            assert (await session.send(Request("GET", "/"))).status == 200
        else:
            with pytest.raises(Untrusted, match=r"GET /: TLS: the server's certificate is not trusted"):
                await session.send(Request("GET", "/"))


# Proxies.


async def test_a_proxy_is_asked_for_the_connection() -> None:
    """The proxy receives target and credentials; a refusal is not the server's response, and shows no password."""
    asked: list[tuple[str, str, str]] = []

    async def proxy(request: web.BaseRequest) -> web.StreamResponse:
        asked.append((request.method, request.raw_path, request.headers.get("Proxy-Authorization", "")))
        return web.Response(status=407)

    async with serving(proxy) as address:
        url = address.replace("http://", "http://user:hunter2@")
        async with Session(Endpoint("https://api.example.com:6443", proxy=url)) as session:
            with pytest.raises(Unreachable, match="the proxy refused the connection: 407") as caught:
                await session.send(Request("GET", "/"))
    assert asked == [("CONNECT", "api.example.com:6443", "Basic dXNlcjpodW50ZXIy")]
    assert not caught.value.sent
    assert "hunter2" not in str(caught.value)


@asynccontextmanager
async def tunnelling() -> AsyncIterator[tuple[str, list[str]]]:
    """A working proxy, its address, and the requests it received."""
    asked: list[str] = []

    async def pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.splitlines()[0])
        host, _, port = head.split()[1].rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pour(reader, far_writer), pour(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}", asked
    finally:
        server.close()


async def test_a_request_goes_through_a_proxy(tmp_path: Path) -> None:
    """The server behind it is still verified."""
    tls = server_context(AUTHORITY.server("127.0.0.1"), tmp_path)
    trust = Trust(InlineMaterial(AUTHORITY.certificate))
    async with (
        serving(show, tls) as address,
        tunnelling() as (proxy, asked),
        Session(Endpoint(address, trust=trust, proxy=proxy)) as session,
    ):
        assert (await session.send(Request("GET", "/"))).status == 200
    assert asked == [f"CONNECT {address.removeprefix('https://')} HTTP/1.1"]


# Failures.


async def test_a_refused_connection_is_unreachable() -> None:
    """Nothing was sent, and the message has the address."""
    async with serving(show) as address:
        pass
    async with Session(Endpoint(address)) as session:
        with pytest.raises(Unreachable, match=r"GET /x: cannot connect to 127\.0\.0\.1:\d+: ") as caught:
            await session.send(Request("GET", "/x"))
        with pytest.raises(Unreachable):
            await session.stream(Request("GET", "/x"))
    assert not caught.value.sent
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
async def test_aiohttp_does_not_retry_broken_connections(method: str) -> None:
    """It is unknown what the server did, so the request is not sent again here, not even on a keep-alive connection."""
    asked: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.method)
        if len(asked) > 1 and request.transport is not None:
            request.transport.abort()
        return web.Response()

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        await session.send(Request("GET", "/"))
        with pytest.raises(Unreachable) as caught:
            await session.send(Request(method, "/"))
    assert caught.value.sent
    assert asked == ["GET", method]


async def test_a_server_that_does_not_respond_times_out() -> None:
    """The time that one attempt may take is the request's."""
    release = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/ready":
            await release.wait()
        return web.Response()

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        await session.send(Request("GET", "/ready"))
        with pytest.raises(Timeout, match="GET /: no response in time"):
            await session.send(Request("GET", "/", timeout=0.02))
        await session.send(Request("GET", "/ready"))
        with pytest.raises(Timeout):
            await session.stream(Request("GET", "/", timeout=0.02))
        release.set()


async def test_concurrent_requests_are_limited_except_urgent_ones() -> None:
    """Each request is a connection; a flood of them waits in line, and what is urgent passes it."""
    release, busy = asyncio.Event(), asyncio.Semaphore(0)
    under_way = most = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal under_way, most
        if request.path == "/flood":
            under_way += 1
            most = max(most, under_way)
            busy.release()
            await release.wait()
            under_way -= 1
        return web.Response()

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        flood = [asyncio.create_task(session.send(Request("GET", "/flood"))) for _ in range(100)]
        for _ in range(64):
            await busy.acquire()
        assert (await session.send(Request("PUT", "/lease", urgent=True))).status == 200
        assert most == 64
        release.set()
        await asyncio.gather(*flood)
        assert most == 64


# Streams.


async def test_a_stream_is_read_in_chunks() -> None:
    """Each piece when the server sends it."""
    proceed = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await proceed.wait()
        await response.write(b"two\n")
        return response

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        stream = await session.stream(Request("GET", "/"))
        assert await stream.read() == b"one\n"
        proceed.set()
        assert await stream.read() == b"two\n"
        assert await stream.read() == b""
        await stream.close()


async def test_closing_wakes_readers() -> None:
    """A reader must not wait forever on a closed connection; and a closed session stays closed."""
    release = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await release.wait()
        return response

    async with serving(handler) as address:
        async with Session(Endpoint(address)) as session:
            reading = asyncio.create_task((await session.stream(Request("GET", "/"))).read())
            await asyncio.sleep(0)
        with pytest.raises(Unreachable, match="the stream was closed"):
            await reading
        with pytest.raises(Unreachable, match="the session is closed"):
            await session.send(Request("GET", "/"))
        release.set()


async def to_the_end(stream: Stream) -> None:
    """Read all there is."""
    while await stream.read():
        pass


async def test_a_broken_stream_is_unreachable() -> None:
    """An end that the server did not make is not an end."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        stream = await session.stream(Request("GET", "/"))
        with pytest.raises(Unreachable):
            await to_the_end(stream)
        await stream.close()


async def test_a_silent_stream_times_out() -> None:
    """A connection may be broken without notice."""
    release = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await release.wait()
        return response

    async with serving(handler) as address, Session(Endpoint(address)) as session:
        stream = await session.stream(Request("GET", "/", timeout=0.5))
        assert await stream.read() == b"one\n"
        with pytest.raises(Timeout):
            await stream.read()
        await stream.close()
        release.set()
