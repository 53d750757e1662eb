"""PromQL that reads one namespace only: the check of a query, and its placeholders.

The authors of policies may read one namespace, Trimtab's Prometheus knows all of them. What a query returns becomes
ranks, which its author sees: a query that compares its own pods with numbers of another namespace would reveal those,
bit by bit. So every selector of a query has to carry the matcher `namespace="$namespace"`, in which Trimtab writes the
policy's namespace. Matchers can only narrow a selector: no series of another namespace is read, whatever the query
computes.

This is a check of words, not a parser: it refuses what it does not know. Whether a query makes sense otherwise is for
Prometheus to say.

1. A word is a metric's name if braces follow it, and the name of a function or aggregation if a parenthesis or `by` or
   `without` does. Every other word is a keyword where that keyword can stand, or refused: bare `up` would be a selector
   of all namespaces, and so would metrics that are called `sum` or `offset`.
2. Braces hold matchers, separated by commas. One of them is `namespace="$namespace"`.
3. `$namespace` and `$pods` stand in strings only. What they are replaced with (names of Kubernetes, `|` and `[.]`) ends
   no string. `$pods` is a regular expression that matches the names of the workload's pods.
4. `info` is refused: it reads series that no selector of the query names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trimtab.api.errors import InvalidError

LONGEST = 2000
"""Characters of a query."""
NAMESPACE, PODS = "$namespace", "$pods"

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\r\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<number>\.?[0-9][0-9A-Za-z_.]*)
    |(?P<range>\[[0-9a-z\s:.]*\])
    |(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<mark>=~|!~|==|!=|<=|>=|[-+*/%^=<>(){},@])""",
    re.VERBOSE,
)
_REQUIRED = 'namespace="$namespace"'
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_OPERATORS = frozenset("+-*/%^") | _COMPARISONS
_SET_OPERATORS = frozenset({"and", "or", "unless", "atan2"})
_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_GROUPINGS = frozenset({"by", "without"})
_KEYWORDS = _SET_OPERATORS | _LABEL_LISTS | {"offset", "bool", "start", "end"}
_NUMBERS = frozenset({"inf", "nan"})
_REFUSED = frozenset({"info"})

Token = tuple[str, str]
_NONE: Token = ("", "")
_OPEN: Token = ("mark", "(")
_OPEN_BRACE: Token = ("mark", "{")


def check(query: str) -> None:
    """Raise InvalidError, with an empty path, for a query that may read other namespaces."""
    if not query.strip() or len(query) > LONGEST:
        raise InvalidError("", f"is empty, or longer than {LONGEST} characters")
    _Check(list(_tokens(query))).run()


def expand(query: str, namespace: str, pods: Iterable[str]) -> str:
    """The query with its placeholders replaced."""
    names = "|".join(name.replace(".", "[.]") for name in sorted(pods))
    return query.replace(NAMESPACE, namespace).replace(PODS, names)


def _tokens(query: str) -> Iterable[Token]:
    at = 0
    while at < len(query):
        found = _TOKEN.match(query, at)
        if found is None:
            raise InvalidError("", f'"{query[at : at + 10]}" is not understood, at character {at + 1}')
        if found.lastgroup != "space":
            yield found.lastgroup or "", found[0]
        at = found.end()


class _Check:
    """The check of one query, from its first token to its last."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._modifiers: set[int] = set()
        """The parentheses that end the labels of a modifier: an operand follows them."""

    def run(self) -> None:
        """Raise InvalidError for what may read other namespaces."""
        at, has_selector = 0, False
        while at < len(self._tokens):
            kind, text = self._tokens[at]
            if (kind, text) == _OPEN_BRACE:
                at, has_selector = self._matchers(at), True
            elif kind == "word":
                at = self._word(at)
            elif text in ("=", "=~", "!~", "}"):
                raise InvalidError("", f'"{text}" stands outside of a selector')
            else:
                at += 1
        if not has_selector:
            raise InvalidError("", f"selects nothing; write a selector such as jobs{{{_REQUIRED}}}")

    def _at(self, at: int) -> Token:
        return self._tokens[at] if 0 <= at < len(self._tokens) else _NONE

    def _word(self, at: int) -> int:
        """Check a word outside of braces; where to go on."""
        text, following = self._tokens[at][1], self._at(at + 1)
        word = text.lower()
        if following == _OPEN_BRACE or word in _NUMBERS:
            return at + 1
        if word in _KEYWORDS:
            if self._stands_as_keyword(at, word):
                return self._after_labels(at) if word in _LABEL_LISTS and following == _OPEN else at + 1
        elif word in _REFUSED:
            raise InvalidError("", f"{text} is not allowed: it reads series that the query does not select")
        elif following == _OPEN or following[1].lower() in _GROUPINGS:  # a function or an aggregation
            return at + 1
        raise InvalidError("", f"{text} is not restricted to the namespace; write {text}{{{_REQUIRED}}}")

    def _stands_as_keyword(self, at: int, word: str) -> bool:
        """Whether a keyword stands where no operand can, and so is not the name of a metric."""
        (kind, text), following = self._at(at - 1), self._at(at + 1)
        ends_labels = at - 1 in self._modifiers
        ends_operand = kind in ("number", "range") or text == "}" or (text == ")" and not ends_labels)
        if word in _SET_OPERATORS or word == "offset":
            return ends_operand
        if word in _GROUPINGS:
            is_aggregation = kind == "word" and text.lower() not in _KEYWORDS
            return following == _OPEN and (is_aggregation or (text == ")" and ends_operand))
        if word in ("on", "ignoring"):
            return following == _OPEN and (text in _OPERATORS or text.lower() in (*_SET_OPERATORS, "bool"))
        if word in ("start", "end"):
            return text == "@" and following == _OPEN
        return ends_labels if word in _LABEL_LISTS else text in _COMPARISONS  # group_left, group_right; bool

    def _after_labels(self, at: int) -> int:
        """The end of the labels of a modifier, which stands here."""
        follows_operand = self._at(at - 1)[1] == ")" and self._tokens[at][1].lower() in _GROUPINGS
        for end in range(at + 2, len(self._tokens)):
            kind, text = self._tokens[end]
            if (kind, text) == ("mark", ")"):
                if not follows_operand:
                    self._modifiers.add(end)
                return end + 1
            if kind not in ("word", "string") and text != ",":
                break
        raise InvalidError("", "has a list of labels that does not end; write them as in by (pod)")

    def _matchers(self, at: int) -> int:
        """Check the matchers in braces that begin here; where to go on."""
        is_restricted, at = False, at + 1
        while self._at(at) != ("mark", "}"):
            at, restricts = self._matcher(at)
            is_restricted = is_restricted or restricts
            if self._at(at) == ("mark", ","):
                at += 1
            elif self._at(at) != ("mark", "}"):
                raise InvalidError("", 'has matchers that are not understood; separate them by commas: {a="1", b="2"}')
        if not is_restricted:
            raise InvalidError("", f"has a selector that is not restricted to the namespace; add {_REQUIRED} to it")
        return at + 1

    def _matcher(self, at: int) -> tuple[int, bool]:
        """Where one matcher ends, and whether it is the one that restricts a selector to the namespace."""
        (kind, label), (_, operator), (value_kind, value) = (self._at(at + step) for step in range(3))
        if kind == "string" and operator in (",", "}"):  # a metric's name in quotes
            return at + 1, False
        if kind not in ("word", "string") or operator not in ("=", "!=", "=~", "!~") or value_kind != "string":
            raise InvalidError("", 'has matchers that are not understood; write them as in {pod=~"$pods"}')
        return at + 3, label == "namespace" and operator == "=" and value[1:-1] == NAMESPACE
