"""A webhook server for recordings: the path selects the response.

It keeps every review that it receives, so that a recording also has the reviews.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Tree = dict[str, Any]

_SLOW = 5.0


class WebhookServer:
    """HTTPS on loopback with a self-signed certificate; `url` and `ca` are for webhook configurations."""

    def __init__(self) -> None:
        self.reviews: list[Tree] = []
        self.url = ""
        self.ca = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_post("/{answer}", self._respond)
        self._runner = web.AppRunner(application, shutdown_timeout=0)
        await self._runner.setup()
        context, self.ca = _certificate()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def taken(self) -> list[Tree]:
        """The reviews since the last call, in the order of their paths."""
        reviews, self.reviews = sorted(self.reviews, key=lambda review: str(review["path"])), []
        return reviews

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["answer"]
        review = await request.json()
        self.reviews.append({"path": f"/{name}", "query": dict(request.query), "review": review})
        return await _RESPONSES[name](review)


Respond = Callable[[Tree], Awaitable[web.StreamResponse]]


def _responding(**response: Any) -> Respond:
    async def answer(review: Tree) -> web.StreamResponse:
        full = {"uid": review["request"]["uid"], "allowed": True} | response
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": full})

    return answer


def _patch(*operations: Tree) -> dict[str, str]:
    return {"patch": base64.b64encode(json.dumps(operations).encode()).decode(), "patchType": "JSONPatch"}


async def _append(review: Tree) -> web.StreamResponse:
    """Append a letter to an annotation, which counts the calls."""
    notes = (review["request"]["object"]["metadata"].get("annotations") or {}).get("calls", "")
    change = {"op": "add", "path": "/metadata/annotations/calls", "value": f"{notes}x"}
    return await _responding(**_patch(change))(review)


async def _slow(review: Tree) -> web.StreamResponse:
    await asyncio.sleep(_SLOW)
    return await _responding()(review)


async def _error(_review: Tree) -> web.StreamResponse:
    return web.Response(status=500, text="out of order")


async def _missing(_review: Tree) -> web.StreamResponse:
    return web.Response(status=404, text="not here")


async def _garbage(_review: Tree) -> web.StreamResponse:
    return web.Response(text="this is not a review", content_type="application/json")


async def _empty(review: Tree) -> web.StreamResponse:
    return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview"})


_RESPONSES: Mapping[str, Respond] = {
    "allow": _responding(),
    "warn": _responding(warnings=["take care", 'and "more" care']),
    "deny": _responding(allowed=False, status={"message": "not today"}),
    "deny-with-code": _responding(allowed=False, status={"message": "teapot", "code": 418, "reason": "Teapot"}),
    "deny-with-reason": _responding(allowed=False, status={"reason": "Forbidden", "code": 403}),
    "deny-silently": _responding(allowed=False),
    "deny-and-warn": _responding(allowed=False, status={"message": "no"}, warnings=["told you"]),
    "label": _responding(**_patch({"op": "add", "path": "/metadata/labels/patched", "value": "yes"})),
    "container": _responding(
        **_patch({"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "s"}})
    ),
    "same": _responding(**_patch({"op": "add", "path": "/metadata/labels/case", "value": "same"})),
    "bad-patch": _responding(**_patch({"op": "replace", "path": "/nothing/there", "value": 1})),
    "bad-type": _responding(**_patch({"op": "add", "path": "/data", "value": "text"})),
    "patch-without-type": _responding(patch="W10="),
    "wrong-uid": _responding(uid="another"),
    "append": _append,
    "slow": _slow,
    "error": _error,
    "missing": _missing,
    "garbage": _garbage,
    "empty": _empty,
}


def _certificate() -> tuple[ssl.SSLContext, str]:
    """A context with a certificate for 127.0.0.1, and that certificate as a `caBundle`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "recorded webhooks")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "certificate", Path(folder) / "key"
        files[0].write_bytes(pem)
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context.load_cert_chain(*files)
    return context, base64.b64encode(pem).decode()
