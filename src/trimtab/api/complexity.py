"""How deep JSON is nested and how many values it has, and limits on both.

Anyone who may create an object decides how deep its free-form parts are nested: an API server stores ten thousand
levels. Decoding, comparing and patching recurse, and fail at about a thousand. And they decide of how many values
those parts consist: 400,000 empty lists fit in a megabyte, and take some hundred milliseconds to decode, in which the
process does nothing else. So what is kept is limited:

1. A `Document`, and the arguments of a strategy, have at most `MAX_DEPTH` levels and `MAX_VALUES` values; anything more
   is refused. An object of a type with such parts has at most as many values in all: its text is refused before it is
   decoded.
2. What no type declares (`managedFields`, for example) may be deeper. Where that is too deep to be skipped, the levels
   below `CUT_DEPTH` are removed from the text first. No type declares a field at that depth, and a document that lost
   levels in this way is still deeper than rule 1 allows: nothing that is used is ever incomplete. Of the objects of an
   admission review, `metadata.managedFields` alone may be deeper, and is then left out.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 128
"""The deepest nesting of a free-form part. Pod templates have about 15 levels, schemas of CRDs up to about 60."""
CUT_DEPTH = 256
"""Levels that are always safe to decode: Python's limit is 1,000, and the caller is some calls deep already."""

MAX_VALUES = 100_000
"""The most values of a free-form part, and of an object that has any. Large pods have a few thousand; a UnitedTopology
of a thousand subsets, with their statuses and the managers of its fields, has fifty thousand and more."""

TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep; make it flatter"
TOO_MANY_VALUES = f"has more than {MAX_VALUES:,} values; make it smaller"

_QUOTE, _OPEN, _CLOSE, _LOWER, _COMMA = 0x22, 0x7B, 0x7D, 0x20, 0x2C
_SMALL = 1 << 14
"""Bytes that are counted sooner without numpy."""


def is_too_deep(text: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether the JSON text has more than so many levels. Text with few brackets is not examined."""
    if len(text) <= _SMALL and text.count(b"{") + text.count(b"[") <= limit:
        return False
    _, opens, closes = _brackets(_structure(text)[0])
    return bool(opens.sum() > limit) and int(_depths(opens, closes).max()) > limit


def has_more_values(text: bytes, limit: int = MAX_VALUES) -> bool:
    """Whether the JSON text has more values than that, itself included. Short text is not examined."""
    if len(text) <= 2 * limit:
        return False
    symbols, places = _structure(text)
    outside, opens, closes = _brackets(symbols)
    commas = outside & (symbols == _COMMA)
    empty = opens[:-1] & closes[1:] & (places[1:] - places[:-1] == 1)
    # an object or array that is not empty has one value more than commas
    return int(commas.sum()) + int(opens.sum()) - int(empty.sum()) + 1 > limit


def problem(text: bytes) -> str:
    """Why the text of a free-form part is refused; empty if it is not."""
    if has_more_values(text):
        return TOO_MANY_VALUES
    return TOO_DEEP if is_too_deep(text) else ""


def cut(text: bytes, limit: int = CUT_DEPTH) -> bytes:
    """The JSON text with `0` for each object and array below so many levels."""
    _, opens, closes = _brackets(_unescaped(text))
    depths = _depths(opens, closes)
    starts = opens & (depths == limit + 1)
    inside = (depths > limit) | (closes & (depths == limit))
    symbols = _symbols(text).copy()
    symbols[starts] = ord("0")
    return bytes(symbols[starts | ~inside].tobytes())


def _symbols(text: bytes) -> Any:
    import numpy as np  # most processes never read such an object

    return np.frombuffer(text, dtype=np.uint8)


def _unescaped(text: bytes) -> Any:
    """The symbols of JSON text, with others for escaped quotes: each quote begins or ends a string."""
    return _symbols(text.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in text else text)


def _structure(text: bytes) -> tuple[Any, Any]:
    """The brackets, commas and quotes of JSON text, those inside strings included, and their places in it.

    Mostly they are a small part of the text.
    """
    import numpy as np

    symbols = _unescaped(text)
    lower = symbols | _LOWER
    places = np.flatnonzero((lower == _OPEN) | (lower == _CLOSE) | (symbols == _COMMA) | (symbols == _QUOTE))
    return symbols[places], places


def _brackets(symbols: Any) -> tuple[Any, Any, Any]:
    """For each symbol: whether it is outside of strings, and whether it opens or closes an object or array."""
    import numpy as np

    outside = np.cumsum(symbols == _QUOTE, dtype=np.uint8) & 1 == 0
    brackets = symbols | _LOWER  # maps [ to { and ] to }, and nothing else to either
    return outside, (brackets == _OPEN) & outside, (brackets == _CLOSE) & outside


def _depths(opens: Any, closes: Any) -> Any:
    """For each symbol: the level after it."""
    import numpy as np

    return np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
