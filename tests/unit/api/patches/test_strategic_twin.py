"""Strategic merge patches, compared with the twin that scans lists for each element; and how much work they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.api.patches import twins
from trimtab.api.errors import InvalidError
from trimtab.api.patches import elements, schema_for, strategic, strategic_merge

JSON = dict[str, Any]
POD = schema_for("v1", "Pod")
HUGE = 2**63
ODD_KEYS: list[Any] = [None, None, 1, 1.0, True, {}, {"a": 1}, [], ["a"], HUGE, float(HUGE)]

words = st.sampled_from(["a", "b", "c", "d"])


def rarely(odd: st.SearchStrategy[Any], usual: st.SearchStrategy[Any], *, one_in: int = 10) -> st.SearchStrategy[Any]:
    """Mostly usual values."""
    return st.integers(1, one_in).flatmap(lambda roll: odd if roll == one_in else usual)


def keyed(key: str, fields: dict[str, st.SearchStrategy[Any]], *, is_patch: bool) -> st.SearchStrategy[list[Any]]:
    """Lists of objects with a merge key, which is sometimes odd or missing; elements of a patch may have directives."""
    names = rarely(st.sampled_from(ODD_KEYS), words, one_in=6)
    optional = dict(fields)
    if is_patch:
        optional["$patch"] = rarely(st.sampled_from(["replace", "merge", None]), st.just("delete"))
    usual = st.fixed_dictionaries({key: names}, optional=optional)
    odd: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional=optional) | st.sampled_from(["a", 1, None, []])
    return st.lists(rarely(odd, usual, one_in=20), max_size=8)


def ordered(field: str, order: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """The directive for the order of a field, which is sometimes null."""
    return {f"$setElementOrder/{field}": rarely(st.none(), order)}


def documents(*, is_patch: bool) -> st.SearchStrategy[JSON]:
    """Pods, or patches of pods: lists of every kind, with duplicates."""
    scalars = st.lists(words, max_size=8) | st.lists(st.sampled_from([1, 2, HUGE, float(HUGE)]), max_size=6)
    environment = keyed("name", {"value": words}, is_patch=is_patch)
    fields: dict[str, st.SearchStrategy[Any]] = {"image": words, "args": st.lists(words, max_size=2)}
    fields["env"] = environment
    volume: dict[str, st.SearchStrategy[Any]] = {"emptyDir": st.just({}), "hostPath": st.just({"path": "/"})}
    metadata: dict[str, st.SearchStrategy[Any]] = {"finalizers": scalars}
    spec: dict[str, st.SearchStrategy[Any]] = {}
    if is_patch:
        names = keyed("name", {}, is_patch=False)
        fields |= ordered("env", names)
        volume["$retainKeys"] = st.lists(st.sampled_from(["name", "emptyDir", "hostPath"]), max_size=3)
        metadata |= {"$deleteFromPrimitiveList/finalizers": scalars, **ordered("finalizers", scalars)}
        spec |= ordered("containers", names)
    spec |= {
        "containers": keyed("name", fields, is_patch=is_patch),
        "volumes": keyed("name", volume, is_patch=is_patch),
    }
    parts = {"metadata": st.fixed_dictionaries({}, optional=metadata), "spec": st.fixed_dictionaries({}, optional=spec)}
    return st.fixed_dictionaries({}, optional=parts)


def result(original: JSON, patch: JSON) -> str:
    """What a merge gives, or why it gives nothing. As text, in which 1, 1.0 and true differ."""
    try:
        return json.dumps(strategic_merge(original, patch, POD))
    except InvalidError as error:
        return f"refused: {error}"


def containers(*names: Any, **more: Any) -> JSON:
    """A pod, or a patch, with these containers."""
    return {"spec": {"containers": [{"name": name} for name in names], **more}}


NULLS = {"containers": [{"name": None, "image": "a"}, {"name": None, "args": []}]}


@given(documents(is_patch=False), documents(is_patch=True))
@example({"spec": NULLS}, {"spec": NULLS})
@example(containers("a", {}, []), containers("a", {}))
@example(containers("a", "b"), containers("c", **{"$setElementOrder/containers": [{"name": "c"}, 1]}))
@settings(deadline=None, max_examples=400)
def test_a_patch_is_applied_as_by_the_twin(original: JSON, patch: JSON) -> None:
    """The same document, to the order of its fields, or the same error."""
    with twins.in_place():
        expected = result(original, patch)
    assert result(original, patch) == expected


@given(
    st.lists(words, max_size=8),
    st.lists(st.tuples(words, st.sampled_from([None, None, "delete", "delete", "replace"])), max_size=8),
    st.none() | st.just([]) | st.tuples(st.lists(words, max_size=3), st.lists(words, max_size=3)),
)
@example(["a", "b", "c"], [("c", "delete"), ("b", "delete"), ("a", "replace"), ("c", None), ("b", None)], [])
@settings(max_examples=300)
def test_elements_are_merged_as_by_the_twin(
    names: list[str], changes: list[tuple[str, str | None]], order: Sequence[list[str]] | None
) -> None:
    """Most patches of whole documents are refused or change no element. These do, and most of their orders are valid.

    The places of deleted elements matter only if the list is replaced too, and the order is empty.
    """
    changed = [{"name": name, "$patch": marker} if marker else {"name": name} for name, marker in changes]
    patch: JSON = {"containers": [{**element, "tty": at} for at, element in enumerate(changed)]}
    if order is not None:
        added = [name for name, marker in changes if not marker]
        named = [*order[0], *added, *order[1]] if order else []
        patch["$setElementOrder/containers"] = [{"name": name} for name in named]
    original = {"spec": {"containers": [{"name": name, "image": str(at)} for at, name in enumerate(names)]}}
    with twins.in_place():
        expected = result(original, {"spec": patch})
    assert result(original, {"spec": patch}) == expected


@given(
    st.lists(words | st.sampled_from([{"a": 1}, {}, []]), max_size=8),
    st.lists(words, max_size=4),
    st.lists(words | st.just({}), max_size=4),
)
def test_elements_without_a_place_are_sorted_as_by_the_twin(
    names: list[Any], order: list[Any], before: list[Any]
) -> None:
    """They are before all others in both directions, so the result is that of an insertion sort only."""
    merged, named, known = ([{"name": name} for name in each] for each in (names, order, before))

    def outcome() -> Any:
        try:
            return [id(element) for element in elements.ordered(merged, named, known, "name", scalars=False)]
        except InvalidError as error:
            return str(error)

    with twins.in_place():
        expected = outcome()
    assert outcome() == expected


@given(st.lists(st.integers(0, 5), max_size=20))
def test_duplicates_of_scalars_are_replaced_as_by_the_twin(items: list[int]) -> None:
    """In the list itself too, from which the order is computed."""
    ours, theirs = list(items), list(items)
    assert (strategic._deduplicated(ours), ours) == (twins.deduplicated(theirs), theirs)  # noqa: SLF001 - no caller shows the list


def numbered(count: int, *, step: int = 1, **more: Any) -> list[JSON]:
    """Elements with as many names."""
    return [{"name": f"e{index}", **more} for index in range(count)[::step]]


WORK: dict[str, Callable[[int], tuple[JSON, JSON]]] = {
    "new elements": lambda count: ({"containers": [{"name": "a"}]}, {"containers": numbered(count)}),
    "merged elements": lambda count: ({"containers": numbered(count)}, {"containers": numbered(count, image="a")}),
    "elements in reverse": lambda count: ({"containers": numbered(count)}, {"containers": numbered(count, step=-1)}),
    "deleted elements": lambda count: (
        {"containers": numbered(count)},
        {"containers": numbered(count, step=-1, **{"$patch": "delete"})},
    ),
    "deleted duplicates": lambda count: (
        {"containers": [{"name": "a"}] * count},
        {"containers": [{"name": "a", "$patch": "delete"}] * count},
    ),
    "duplicates in the patch": lambda count: ({"containers": [{"name": "a"}]}, {"containers": [{"name": "a"}] * count}),
    "null as merge key": lambda count: (
        {"containers": [{"name": None}] * count},
        {"containers": [{"name": None}] * count},
    ),
    "an order": lambda count: (
        {"containers": numbered(count)},
        {"$setElementOrder/containers": numbered(count, step=-1)},
    ),
    "an empty order": lambda count: ({"containers": numbered(count)}, {"$setElementOrder/containers": []}),
    "retained keys": lambda count: (
        {"nodeSelector": dict.fromkeys(map(str, range(count)), "a")},
        {"nodeSelector": {"$retainKeys": [*map(str, range(count))], "1": "b"}},
    ),
}
SCALARS: dict[str, Callable[[int], tuple[JSON, JSON]]] = {
    "scalars": lambda count: (
        {"finalizers": [*map(str, range(count))]},
        {"finalizers": [*map(str, range(2 * count))][::-1]},
    ),
    "one scalar": lambda count: ({"finalizers": ["a"] * count}, {"finalizers": ["a"] * count}),
    "deleted scalars": lambda count: (
        {"finalizers": [*map(str, range(count))]},
        {"$deleteFromPrimitiveList/finalizers": [*map(str, range(count))]},
    ),
}


def lines(original: JSON, patch: JSON) -> int:
    """How many lines a merge runs."""
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    known = sys.gettrace()
    sys.settrace(trace)
    try:
        result(original, patch)
    finally:
        sys.settrace(known)
    return count


@pytest.mark.parametrize(
    ("field", "case"),
    [
        *(pytest.param("spec", case, id=name) for name, case in WORK.items()),
        *(pytest.param("metadata", case, id=name) for name, case in SCALARS.items()),
    ],
)
def test_four_times_the_elements_are_four_times_the_work(field: str, case: Callable[[int], tuple[JSON, JSON]]) -> None:
    """A scan for each element would be sixteen times the work."""
    few, many = ({field: each} for each in case(50)), ({field: each} for each in case(200))
    assert lines(*many) < 5 * lines(*few)
