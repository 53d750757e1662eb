"""The transport interface: send a request, or open a stream. `sessions` has the implementation.

A transport knows nothing of Kubernetes: it returns any status and body, and raises only if there was no response. Tests
replace it with a fake API server without opening a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request; `path` is already encoded, `timeout` is in seconds for one attempt."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    timeout: float = 30.0
    urgent: bool = False
    """Whether it skips the limit of concurrent requests: a lease is lost if its renewal waits too long."""

    @property
    def call(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response of any status. Warnings are the messages of its Warning headers."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()


class Stream(Protocol):
    """A streaming response."""

    @property
    def status(self) -> int:
        """The HTTP status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers."""
        ...

    async def read(self) -> bytes:
        """The next chunk; empty at the end of the stream. Raises Unreachable if the connection breaks."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class Transport(Protocol):
    """A connection to an API server. It raises `errors.Unreachable` and `errors.Timeout` only."""

    async def send(self, request: Request) -> Response:
        """Send a request and read the whole response."""
        ...

    async def stream(self, request: Request) -> Stream:
        """Open a streaming response; `timeout` is the longest time without data."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
