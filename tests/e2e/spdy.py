"""SPDY/3.1, as far as a kubelet needs it to forward ports: frames of a connection, read and written.

The protocol is in the draft at https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/. A frame starts with
two words: the stream of data, or the type of a control frame; then flags and the length of the rest. Headers are
compressed with zlib, with a dictionary that the draft prescribes and one state for all frames of a direction. Windows
are not observed: Kubernetes neither sends nor expects their updates. No library that is maintained speaks SPDY.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

DATA, SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 0, 1, 2, 3, 6, 7
"""Types of frames; DATA is ours, as data has no type."""
_CONTROL = 0x80030000
"""The first bit of a control frame, and the version of the protocol."""
_FIN = 0x01000000
_LENGTH = 0xFFFFFF
_ASSOCIATED = 10
"""Where the headers of a SYN_STREAM start: behind its stream, the associated stream, and the priority."""

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_VALUES = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _sized(text: str) -> bytes:
    """A text behind its length, as headers have names and values."""
    return struct.pack("!I", len(text)) + text.encode()


_DICTIONARY = b"".join(map(_sized, (*_NAMES.split(), *_VALUES))) + _TEXT.encode()


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was read."""

    kind: int
    stream: int
    is_last: bool
    """Whether the sender sends nothing more on the stream."""
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of a SYN_STREAM."""


class Frames:
    """The frames of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._inflater = zlib.decompressobj(zdict=_DICTIONARY)
        self._deflater = zlib.compressobj(zdict=_DICTIONARY)

    async def read(self) -> Frame:
        """The next frame. Raises IncompleteReadError at the end of the connection."""
        first, second = struct.unpack("!II", await self._reader.readexactly(8))
        payload = await self._reader.readexactly(second & _LENGTH)
        is_last = bool(second & _FIN)
        if first < _CONTROL:
            return Frame(DATA, first, is_last, payload)
        kind = first & 0xFFFF
        stream = struct.unpack_from("!I", payload)[0]
        headers = dict(_parse(self._inflater.decompress(payload[_ASSOCIATED:]))) if kind == SYN_STREAM else {}
        return Frame(kind, stream, is_last, payload, headers)

    async def accept(self, stream: int) -> None:
        """Answer a SYN_STREAM, without a header."""
        none = self._deflater.compress(struct.pack("!I", 0)) + self._deflater.flush(zlib.Z_SYNC_FLUSH)
        await self.control(SYN_REPLY, struct.pack("!I", stream) + none)

    async def control(self, kind: int, payload: bytes) -> None:
        """Write a control frame."""
        await self._write(_CONTROL | kind, len(payload), payload)

    async def data(self, stream: int, payload: bytes, *, is_last: bool = False) -> None:
        """Write data of a stream."""
        await self._write(stream, len(payload) | (_FIN if is_last else 0), payload)

    async def _write(self, first: int, second: int, payload: bytes) -> None:
        self._writer.write(struct.pack("!II", first, second) + payload)
        await self._writer.drain()


def _parse(block: bytes) -> Iterator[tuple[str, str]]:
    """The names and values of a block of headers."""
    count, position = struct.unpack_from("!I", block)[0], 4
    for _ in range(count):
        pair = []
        for _ in range(2):
            size = struct.unpack_from("!I", block, position)[0]
            pair.append(block[position + 4 : position + 4 + size].decode())
            position += 4 + size
        yield pair[0], pair[1]
