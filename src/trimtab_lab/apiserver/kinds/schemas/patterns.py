"""Go regular expressions, rewritten for a matcher with JavaScript's syntax.

The matcher uses automata like Go's, so that no expression takes exponential time. Where the syntax differs it is
rewritten: names of groups, inline flags, POSIX classes, quoted text, anchors. What cannot be rewritten is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import jsonschema_rs

_CLASSES: Mapping[str, str] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-\/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|\Z)
      | \\(?P<escaped>p\w|P\w|.)
      | \[:(?P<posix>\w+):\]
      | \(\?(?P<flags>[imsU-]+)\)
      | (?P<named>\(\?P<)
      | (?P<open>\((?!\?P<))
      | (?P<close>\))
      | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def rewritten(pattern: str) -> str:
    """The expression in the syntax of the matcher. Raises ValueError if it is invalid."""
    try:
        made = "".join(_parts(pattern))
        jsonschema_rs.Draft7Validator({"pattern": made}, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, KeyError):
        raise ValueError(pattern) from None
    return made


def _parts(pattern: str) -> Iterator[str]:
    pending = [0]  # for each open group, how many groups were opened for flags inside it
    for match in _TOKEN.finditer(pattern):
        match match.lastgroup:
            case "quoted":
                yield re.escape(match["quoted"])
            case "escaped":
                yield _escape(match["escaped"])
            case "posix":
                yield _CLASSES[match["posix"]]
            case "flags":
                pending[-1] += 1
                yield f"(?{match['flags']}:"
            case "named" | "open":
                pending.append(0)
                yield "(?<" if match.lastgroup == "named" else "("
            case "close":
                yield ")" * (pending.pop() + 1 if len(pending) > 1 else 1)
            case _:
                yield match[0]
    yield ")" * pending[0]


def _escape(escaped: str) -> str:
    if len(escaped) == 2:
        return f"\\{escaped[0]}{{{escaped[1]}}}"
    return {"A": "^", "z": "$"}.get(escaped, f"\\{escaped}")
