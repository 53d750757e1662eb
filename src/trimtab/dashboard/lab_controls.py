"""Passes the buttons of the lab on to the lab's own process, which does what they say.

The dashboard itself never writes to a cluster. Where the lab has started it, it knows the address of the lab's controls
on this machine; anywhere else there is none, and the paths do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from aiohttp import web

from trimtab.dashboard.guards import failure

ACTIONS = frozenset({"add-zone", "fail-zone", "recover-zone", "scale"})
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_LONGEST = 4096


class LabControls:
    """The controls of the lab at an address of this machine."""

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {secret}"}

    async def act(self, request: web.Request) -> web.Response:
        """Pass a request on, and its answer back."""
        action = request.match_info["action"]
        if action not in ACTIONS:
            raise web.HTTPNotFound
        body = await request.content.read(_LONGEST)
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=False) as session,
                session.post(f"{self._url}/{action}", data=body, headers=self._headers) as answer,
            ):
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            return failure(502, f"the lab does not answer: {error}")
        return web.Response(status=answer.status, body=text, content_type="application/json")
