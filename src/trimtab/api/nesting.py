"""How deep JSON is nested, and limits on it.

Anyone who may create an object decides how deep its free-form parts are nested: an API server stores ten thousand
levels. Decoding, comparing and patching recurse, and fail at about a thousand. So what is kept is limited:

1. A `Document`, and the arguments of a strategy, have at most `MAX_DEPTH` levels; anything deeper is refused.
2. What no type declares (`managedFields`, for example) may be deeper. Where that is too deep to be skipped, the levels
   below `CUT_DEPTH` are removed from the text first. No type declares a field at that depth, and a document that lost
   levels in this way is still deeper than rule 1 allows: nothing that is used is ever incomplete.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 128
"""The deepest nesting of a free-form part. Pod templates have about 15 levels, schemas of CRDs up to about 60."""
CUT_DEPTH = 256
"""Levels that are always safe to decode: Python's limit is 1,000, and the caller is some calls deep already."""

TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep; make it flatter"

_QUOTE, _OPEN, _CLOSE, _LOWER = 0x22, 0x7B, 0x7D, 0x20


def is_too_deep(text: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether the JSON text has more than so many levels. Text with few brackets is not examined."""
    if text.count(b"{") + text.count(b"[") <= limit:
        return False
    return int(_levels(text)[0].max()) > limit


def cut(text: bytes, limit: int = CUT_DEPTH) -> bytes:
    """The JSON text with `0` for each object and array below so many levels."""
    depths, opens, closes = _levels(text)
    starts = opens & (depths == limit + 1)
    inside = (depths > limit) | (closes & (depths == limit))
    symbols = _symbols(text).copy()
    symbols[starts] = ord("0")
    return bytes(symbols[starts | ~inside].tobytes())


def _symbols(text: bytes) -> Any:
    import numpy as np  # most processes never read such an object

    return np.frombuffer(text, dtype=np.uint8)


def _levels(text: bytes) -> tuple[Any, Any, Any]:
    """For each byte: the level after it, and whether it opens or closes one."""
    import numpy as np

    unescaped = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    symbols = _symbols(unescaped)
    outside = np.cumsum(symbols == _QUOTE, dtype=np.uint8) & 1 == 0
    brackets = symbols | _LOWER  # maps [ to { and ] to }, and nothing else to either
    opens = (brackets == _OPEN) & outside
    closes = (brackets == _CLOSE) & outside
    depths = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
    return depths, opens, closes
