"""Checks of every request, and headers of every answer.

1. **Host.** The Host header must be an address, `localhost`, or a name that the operator allows. A page of another site
   whose name was made to point here (DNS rebinding) has its own name in it, and is refused.
2. **Origin.** A request that changes anything must come from our own page, and so must every request of a browser for
   data; other pages could not read the answer, but keep the server busy.
3. **Token.** Everything under `/api/` needs the caller's rights; without a valid token it answers 401, and no more.
   The pages themselves have no content of a cluster.
4. **Headers.** Nothing but our own files may be loaded, no script or style in the page itself, no frames, no sniffing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.dashboard.access import Access, UnauthenticatedError
from trimtab.dashboard.rights import Rights
from trimtab.kube.errors import KubeError

RIGHTS = web.RequestKey("rights", Rights)
API = "/api/"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}

log = logging.getLogger(__name__)


def is_allowed_host(header: str, names: Collection[str]) -> bool:
    """Whether a Host header is an address, `localhost`, or one of these names; the port may be any."""
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    if not name or "@" in header or "/" in header:
        return False
    name = name.removesuffix(".")
    return name == "localhost" or name in names or _is_address(name)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address to listen on."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def failure(status: int, text: str) -> web.Response:
    """An error as JSON."""
    return web.Response(status=status, body=codec.encode({"error": text}), content_type="application/json")


class WithoutContent(logging.Filter):
    """Leaves the content of malformed requests out of the log: it may be a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record, without the error that quotes the request."""
        if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
            record.exc_info = None
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return True


def guards(access: Access, names: Collection[str]) -> list[Middleware]:
    """The middlewares, the outermost first."""

    @web.middleware
    async def translate_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except InvalidError as error:
            return failure(400, str(error))
        except UnauthenticatedError as error:
            answer = failure(401, str(error))
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        except web.HTTPException as error:
            return failure(error.status, error.reason)
        except KubeError as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            return failure(502, "the API server did not answer as expected; see the log of the dashboard")

    @web.middleware
    async def check_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_allowed_host(request.headers.get("Host", ""), names):
            return failure(
                421, "the Host header names another site; connect by address, or allow the name (--host-name)"
            )
        if request.method not in ("GET", "HEAD"):
            origin = urlsplit(request.headers.get("Origin", ""))
            if origin.netloc != request.headers.get("Host"):
                return failure(403, "requests that change anything must come from the dashboard's own page")
        if request.path.startswith(API):
            if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
                return failure(403, "data is for the dashboard's own page")
            request[RIGHTS] = await access.rights(bearer(request))
        return await handler(request)

    return [translate_errors, check_request]


def bearer(request: web.Request) -> str:
    """The token of a request; empty where it has none, or one with characters that no token has."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else ""


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every answer, streams and errors included."""
    response.headers.update(HEADERS)
