"""The family `selectors_quantities`: the small languages inside Kubernetes objects, one kind of case for each.

Where Kubernetes answers with an error, the answer is `error: true`; error texts are our own and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trimtab.api import codec, nodeselectors, percent, quantities, selectors, tolerations
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.nodes import Node, Taint
from trimtab.api.patches.mergekeys import schema_for
from trimtab.api.patches.strategic import strategic_merge
from trimtab.api.pods import Pod, Toleration

T = TypeVar("T")
JSON = dict[str, Any]

_REFUSED: JSON = {"error": True}


def answer(case: JSON) -> JSON:
    """The answer to a case of any kind of this family."""
    kind = KINDS.get(case["kind"])
    if kind is None:
        raise InvalidError("kind", f'"{case["kind"]}" is not one of {", ".join(KINDS)}')
    return kind(case["input"])


def _label_selector(question: JSON) -> JSON:
    written = question.get("selector")
    labels = codec.convert(question.get("labels") or {}, dict[str, str])
    selector = _attempt(selectors.compile, None if written is None else codec.convert(written, LabelSelector))
    if selector is None:
        return _REFUSED
    return {"error": False, "match": selector.matches(labels), "empty": selector.empty}


def _node_selector(question: JSON) -> JSON:
    required = nodeselectors.required(codec.convert(question["pod"], Pod).spec)
    match = _attempt(required.matches, codec.convert(question["node"], Node))
    return {"error": match is None, "match": bool(match)}


def _preferred_terms(question: JSON) -> JSON:
    preferred = _attempt(nodeselectors.preferred, codec.convert(question["pod"], Pod).spec)
    node = codec.convert(question["node"], Node)
    return _REFUSED if preferred is None else {"error": False, "score": preferred.score(node)}


def _toleration(question: JSON) -> JSON:
    taint = codec.convert(question["taint"], Taint)
    written = codec.convert(question.get("tolerations") or [], list[Toleration])
    on = bool(question.get("comparisonOperators"))
    each = [tolerations.tolerates(toleration, taint, comparison_operators=on) for toleration in written]
    return {"each": each, "match": tolerations.tolerated(written, taint, comparison_operators=on)}


def _quantity(question: JSON) -> JSON:
    quantity = _attempt(quantities.parse, question["quantity"])
    if quantity is None:
        return _REFUSED
    return {
        "error": False,
        "value": str(quantity.value()),
        "milliValue": str(quantity.milli_value()),
        "sign": quantity.sign,
        "canonical": quantity.canonical,
        "format": quantity.format,
    }


def _percent(question: JSON) -> JSON:
    try:
        value = percent.scaled(question["intOrPercent"], question["total"], round_up=question["roundUp"])
    except InvalidError:
        return _REFUSED
    return {"error": False, "value": value}


def _strategic_merge_patch(question: JSON) -> JSON:
    try:
        result = strategic_merge(question["original"], question["patch"], schema_for("v1", "Pod"))
    except InvalidError:
        return _REFUSED
    return {"error": False, "result": result}


def _attempt(function: Callable[[Any], T], argument: Any) -> T | None:
    """What the function makes of its argument, or None if it refuses it."""
    try:
        return function(argument)
    except InvalidError:
        return None


KINDS: Mapping[str, Callable[[JSON], JSON]] = {
    "label_selector": _label_selector,
    "node_selector": _node_selector,
    "preferred_terms": _preferred_terms,
    "toleration": _toleration,
    "quantity": _quantity,
    "percent": _percent,
    "strategic_merge_patch": _strategic_merge_patch,
}
"""The kinds of case, by the name that a case carries."""
