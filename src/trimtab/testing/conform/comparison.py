"""Compares answers with what Kubernetes said, by the rules of each family.

What Kubernetes leaves open is not held against an answer:

1. Numbers may differ by 1e-9. Error texts are not compared.
2. Where pods tie, `expected` has `groups` and the answer has `order`, a flat list: it must hold every pod once, and no
   pod before one of an earlier group.
3. Of pods to delete, those of `mustDelete` must be there, and `mayDeleteCount` of those in `mayDelete`.
4. Some inputs have no consistent order (`strictWeakOrder: false`) or depend on how Go's sort breaks ties
   (`deterministic: false`): there, only what does not depend on the order is compared.
5. The reasons of a refusal are compared as sorted lists.
6. Of possible victims, `always` may name only pods that every run deleted, `possible` must name all that any run
   deleted, and `certainSkew` is null or the only skew that was left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from trimtab.testing.conform import Answer, Case, answer

Rule = Callable[[Answer, Answer], Iterator[str]]

TOLERANCE = 1e-9


def check(family: str, case: Case) -> list[str]:
    """What is wrong with Trimtab's answer to a case that carries `expected`; nothing, if all is well."""
    return differences(family, case["expected"], answer(family, case))


def differences(family: str, expected: Answer, actual: Answer) -> list[str]:
    """Each place where an answer departs from what was expected, as a sentence that starts with its path."""
    return list(RULES[family](expected, actual))


def _plainly(expected: Answer, actual: Answer) -> Iterator[str]:
    yield from _compare("", _without(expected, "errorText"), _without(actual, "errorText"))


def _active_pods_sort(expected: Answer, actual: Answer) -> Iterator[str]:
    yield from _compare("ranks", expected["ranks"], actual.get("ranks"))
    consistent = expected["strictWeakOrder"]
    if consistent:
        yield from _order("order", expected["groups"], actual.get("order"))
    if "deleted" not in expected:
        return
    if consistent:
        yield from _deleted(expected, actual.get("deleted"))
    else:
        yield from _compare("number deleted", len(expected["deleted"]), len(set(actual.get("deleted", ()))))


def _kruise_rank(expected: Answer, actual: Answer) -> Iterator[str]:
    for ranker in ("sameNode", "spread"):
        wanted, given = expected[ranker], actual.get(ranker, {})
        if wanted["deterministic"]:
            yield from _compare(f"{ranker}.ranks", wanted["ranks"], given.get("ranks"))
            yield from _order(f"{ranker}.order", wanted["groups"], given.get("order"))


def _scheduler_plugins(expected: Answer, actual: Answer) -> Iterator[str]:
    yield from _compare("", _with_sorted_reasons(expected), _with_sorted_reasons(actual))


def _possible_victims(expected: Answer, actual: Answer) -> Iterator[str]:
    always, possible = set(actual.get("always", ())), set(actual.get("possible", ()))
    deleted = set(expected["always"]) | set(expected["sometimes"])
    if wrong := always - set(expected["always"]):
        yield f"always: {sorted(wrong)} were not deleted in every run"
    if missing := deleted - possible:
        yield f"possible: {sorted(missing)} were deleted in some run"
    skew = actual.get("certainSkew")
    if skew is not None and expected["zoneSkews"] != [skew]:
        yield f"certainSkew: {skew}, but {expected['zoneSkews']} were left"


RULES: Mapping[str, Rule] = {
    "topology_spread": _plainly,
    "active_pods_sort": _active_pods_sort,
    "pods_to_delete": _active_pods_sort,
    "kruise_rank": _kruise_rank,
    "possible_victims": _possible_victims,
    "scheduler_plugins": _scheduler_plugins,
    "selectors_quantities": _plainly,
}
"""How each family is compared, whether or not it can be answered yet."""


def _compare(path: str, expected: Any, actual: Any) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted({*expected, *actual}):
            yield from _compare_member(f"{path}.{key}" if path else key, key, expected, actual)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (wanted, given) in enumerate(zip(expected, actual, strict=True)):
            yield from _compare(f"{path}[{index}]", wanted, given)
    elif not _same(expected, actual):
        yield f"{path}: expected {expected!r}, got {actual!r}"


def _compare_member(path: str, key: str, expected: Answer, actual: Answer) -> Iterator[str]:
    if key not in actual:
        yield f"{path}: expected {expected[key]!r}, but it is missing"
    elif key not in expected:
        yield f"{path}: {actual[key]!r} was not expected"
    else:
        yield from _compare(path, expected[key], actual[key])


def _same(expected: Any, actual: Any) -> bool:
    """Whether two scalars are the same: in JSON, true is not 1."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
        return expected == actual or abs(expected - actual) <= TOLERANCE
    return bool(expected == actual)


def _order(path: str, groups: list[list[str]], order: Any) -> Iterator[str]:
    place = {name: index for index, group in enumerate(groups) for name in group}
    if not isinstance(order, list) or sorted(order) != sorted(place):
        yield f"{path}: expected every pod of {sorted(place)} once, got {order!r}"
        return
    for earlier, later in pairwise(order):
        if place[earlier] > place[later]:
            yield f"{path}: {later} must come before {earlier}"


def _deleted(expected: Answer, deleted: Any) -> Iterator[str]:
    if not isinstance(deleted, list) or len(set(deleted)) != len(deleted):
        yield f"deleted: expected distinct names, got {deleted!r}"
        return
    chosen = set(deleted)
    must, may, count = set(expected["mustDelete"]), set(expected["mayDelete"]), expected["mayDeleteCount"]
    if missing := must - chosen:
        yield f"deleted: {sorted(missing)} must go"
    if spared := chosen - must - may:
        yield f"deleted: {sorted(spared)} must stay"
    if len(chosen & may) != count:
        yield f"deleted: expected {count} of {sorted(may)}, got {sorted(chosen & may)}"


def _without(tree: Answer, key: str) -> Answer:
    return {name: value for name, value in tree.items() if name != key}


def _with_sorted_reasons(tree: Any) -> Any:
    """The same tree; no reasons are the same as an empty list of them."""
    if not isinstance(tree, dict):
        return tree
    plain = {key: _with_sorted_reasons(value) for key, value in tree.items() if key != "reasons"}
    reasons = tree.get("reasons")
    return {**plain, "reasons": sorted(reasons)} if reasons else plain
