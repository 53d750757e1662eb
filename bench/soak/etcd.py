"""etcd's API, as far as filling and clearing its database needs it: JSON over HTTPS."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass
from typing import Any

import aiohttp

_PREFIX = b"/soak/"
_CHUNK = 1 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=20.0)


class EtcdError(RuntimeError):
    """etcd refused a call."""


@dataclass(frozen=True)
class Etcd:
    """One etcd server."""

    url: str
    context: ssl.SSLContext

    async def fill(self, most: int) -> int:
        """Write mebibytes until the quota is reached; how many were written. Raises EtcdError where `most` fit."""
        for number in range(most):
            value = base64.b64encode(os.urandom(_CHUNK)).decode()
            try:
                await self._call("kv/put", key=_text(_PREFIX + str(number).encode()), value=value)
            except EtcdError as error:
                if "space exceeded" in str(error):
                    return number
                raise
        raise EtcdError(f"the quota was not reached with {most} MiB")

    async def clear(self) -> None:
        """Delete what was written, compact, defragment, and clear the alarm."""
        await self._call("kv/deleterange", key=_text(_PREFIX), range_end=_text(_PREFIX[:-1] + b"0"))
        status = await self._call("maintenance/status")
        await self._call("kv/compaction", revision=status["header"]["revision"], physical=True)
        await self._call("maintenance/defragment")
        for alarm in (await self._call("maintenance/alarm", action="GET")).get("alarms", ()):
            await self._call(
                "maintenance/alarm", action="DEACTIVATE", memberID=alarm.get("memberID", "0"), alarm=alarm["alarm"]
            )

    async def _call(self, path: str, **body: Any) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(ssl=self.context)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session,
                session.post(f"{self.url}/v3/{path}", json=body) as answer,
            ):
                tree: dict[str, Any] = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EtcdError(f"{path}: {error}") from error
        if answer.status != 200:
            raise EtcdError(f"{path}: {tree.get('message') or tree}")
        return tree


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()
