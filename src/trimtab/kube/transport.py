"""What the client needs of a connection: send a request, or open a stream. `sessions` has the one that is used.

A transport knows nothing of Kubernetes: it answers with whatever code and bytes came, and raises only where there was
no answer. So a test can put an API server of its own in its place without opening a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `path` is encoded already, `timeout` is for one attempt, in seconds."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    timeout: float = 30.0
    urgent: bool = False
    """Whether it must not wait behind others: a lease is lost while its renewal stands in line."""

    @property
    def call(self) -> str:
        """As messages name it."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, whatever it means. Warnings are the texts of its warning headers."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()


class Stream(Protocol):
    """An answer that keeps coming."""

    @property
    def status(self) -> int:
        """The HTTP code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer."""
        ...

    async def read(self) -> bytes:
        """What has come, cut anywhere; nothing when the server has ended it. Raises Unreachable where it breaks."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class Transport(Protocol):
    """A connection to an API server. Failures are `errors.Unreachable` and `errors.Timeout`, nothing else."""

    async def send(self, request: Request) -> Response:
        """One request, one answer."""
        ...

    async def stream(self, request: Request) -> Stream:
        """One request whose answer keeps coming; `timeout` is how long it may be silent."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
