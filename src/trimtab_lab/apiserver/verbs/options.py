"""Query options of a request, validated as in Kubernetes.

A flag is false if it is absent, `false` or `0`, and true for every other value. Unknown parameters are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from trimtab_lab.apiserver.kinds.errors import bad_request, invalid_options
from trimtab_lab.apiserver.kinds.validation.causes import Cause, forbidden, invalid, too_long, unsupported

Query = Mapping[str, tuple[str, ...]]

_NOTHING: Query = {}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DURATION = re.compile(r"[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+")
_LONGEST_MANAGER = 128


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Selectors, version and paging of a list or watch."""

    labels: str = ""
    fields: str = ""
    watch: bool = False
    bookmarks: bool = False
    version: str = ""
    match: str = ""
    timeout: int | None = None
    limit: int = 0
    token: str = ""
    initial_events: bool | None = None
    include_object: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Dry run and field validation of a write."""

    dry_run: bool = False
    validation: str = "Warn"


def read_query(text: str) -> Query:
    """The parameters of a query, in order; invalid escapes are kept as they are."""
    if not text:
        return _NOTHING
    query: dict[str, tuple[str, ...]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        query[name] = (*query.get(name, ()), value)
    return query


def list_options(query: Query) -> ListOptions:
    """The options of a list or watch. Raises a StatusError of 400 or 422."""
    if not query:
        return ListOptions()
    seconds = integer(query, "timeoutSeconds")
    return ListOptions(
        labels=first(query, "labelSelector"),
        fields=first(query, "fieldSelector"),
        watch=flag(query, "watch"),
        bookmarks=flag(query, "allowWatchBookmarks"),
        version=first(query, "resourceVersion"),
        match=first(query, "resourceVersionMatch"),
        timeout=seconds or None,
        limit=max(integer(query, "limit") or 0, 0),
        token=first(query, "continue"),
        initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        include_object=first(query, "includeObject"),
    )


def check_list(options: ListOptions) -> None:
    """Raise a StatusError of 422 for options that exclude one another."""
    causes = _broken(_WATCH_RULES if options.watch else _LIST_RULES, options)
    if options.match not in ("", "Exact", "NotOlderThan") and not options.watch:
        causes.append(unsupported(_MATCH, options.match, ("Exact", "NotOlderThan", "")))
    if options.match not in ("", "NotOlderThan") and options.watch:
        causes.append(unsupported(_MATCH, options.match, ("NotOlderThan",)))
    if causes:
        raise invalid_options("ListOptions", causes)


def resource_version(text: str) -> int:
    """A resource version as a number; 0 if absent. Raises a StatusError of 400."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        problem = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {problem}')
    return int(text)


def write_options(query: Query, kind: str) -> WriteOptions:
    """The options of a create, update or patch; errors name them as `kind`. Raises a StatusError of 422."""
    if not query:
        return _DEFAULT
    check_timeout(query)
    causes = [*dry_run_causes(query.get("dryRun", ())), *_validation_causes(query), *_manager_causes(query)]
    if causes:
        raise invalid_options(kind, causes)
    return WriteOptions("dryRun" in query, first(query, "fieldValidation") or "Warn")


_DEFAULT = WriteOptions()


def check_timeout(query: Query) -> None:
    """Check that `timeout` is a duration; it is not used otherwise, since the lab responds at once."""
    timeout = first(query, "timeout")
    if timeout and _DURATION.fullmatch(timeout) is None:
        raise bad_request(f'invalid timeout specified in the request URL - time: invalid duration "{timeout}"')


def dry_run_causes(values: tuple[str, ...]) -> list[Cause]:
    """The causes for which a `dryRun` is invalid."""
    return [] if all(value == "All" for value in values) else [unsupported("dryRun", list(values), ["All"])]


def _validation_causes(query: Query) -> list[Cause]:
    value = first(query, "fieldValidation")
    known = ("", "Ignore", "Strict", "Warn")
    return [] if value in known else [unsupported("fieldValidation", value, known)]


def _manager_causes(query: Query) -> list[Cause]:
    manager = first(query, "fieldManager")
    if len(manager) > _LONGEST_MANAGER:
        return [too_long("fieldManager", _LONGEST_MANAGER)]
    if not manager.isprintable():
        return [invalid("fieldManager", manager, "should only contain printable characters")]
    return []


Rule = tuple[Callable[[ListOptions], bool], Cause]


def _broken(rules: Sequence[Rule], options: ListOptions) -> list[Cause]:
    return [cause for breaks, cause in rules if breaks(options)]


def first(query: Query, name: str) -> str:
    """The value of a parameter, the first if there are several."""
    values = query.get(name)
    return values[0] if values else ""


def flag(query: Query, name: str) -> bool:
    """The value of a boolean parameter."""
    values = query.get(name)
    return values is not None and values[0].lower() not in ("false", "0")


def integer(query: Query, name: str) -> int | None:
    """The value of an integer parameter. Raises a StatusError of 400."""
    text = first(query, name)
    if not text:
        return None
    if _WHOLE.fullmatch(text) is None:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


_MATCH = "resourceVersionMatch"
_PAGED: Rule = (
    lambda options: bool(options.match and options.token),
    forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"),
)
_LIST_RULES: Sequence[Rule] = (
    (
        lambda options: bool(options.match) and not options.version,
        forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
    ),
    _PAGED,
    (
        lambda options: options.match == "Exact" and options.version == "0",
        forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
    ),
    (
        lambda options: options.initial_events is not None,
        forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"),
    ),
)
_WATCH_RULES: Sequence[Rule] = (
    (
        lambda options: options.initial_events is not None and options.match != "NotOlderThan",
        forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ),
    (
        lambda options: options.initial_events is None and bool(options.match),
        forbidden(_MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
    ),
    _PAGED,
)
