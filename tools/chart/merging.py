"""Merging: several variants of one object, each for a case, become one template.

What all variants have in common is written once. A key, a list item or a value that only some have stands in a
condition that holds in their cases. List items are the same if they have the same name or are equal.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from tools.chart.conditions import Flags, separating

Variants = Mapping[Flags, Any]
"""A value for each case in which there is one."""


def template(variants: Variants, indent: int = 0) -> list[str]:
    """The lines of a template that gives each case its value."""
    values = list(variants.values())
    if all(value == values[0] for value in values):
        return _plain(values[0], indent)
    if all(isinstance(value, dict) and value for value in values):
        return [line for key in _keys(values) for line in _entry(key, variants, indent)]
    if all(isinstance(value, list) and value for value in values):
        return [line for item in _items(values) for line in _item(item, variants, indent)]
    return _alternatives(variants, indent)


def conditional(lines: Sequence[str], cases: Sequence[Flags], present: Sequence[Flags]) -> list[str]:
    """Lines that are there in some cases only."""
    if len(present) == len(cases):
        return list(lines)
    return [f"{{{{- if {separating(cases, present).text} }}}}", *lines, "{{- end }}"]


def _entry(key: str, variants: Variants, indent: int) -> list[str]:
    having = {case: value[key] for case, value in variants.items() if key in value}
    return conditional(_field(key, having, indent), list(variants), list(having))


def _field(key: str, variants: Variants, indent: int) -> list[str]:
    """A key and its value: on the same line, if it is the same in all cases and fits there."""
    values, start = list(variants.values()), " " * indent + f"{_scalar(key)}:"
    if all(value == values[0] for value in values) and not (isinstance(values[0], dict | list) and values[0]):
        return [f"{start} {_scalar(values[0])}"]
    deeper = indent if isinstance(values[0], list) else indent + 2
    return [start, *template(variants, deeper)]


def _item(item: Hashable, variants: Variants, indent: int) -> list[str]:
    having = {case: found for case, value in variants.items() for found in value if _identity(found) == item}
    return conditional(_dashed(template(having, indent + 2), indent), list(variants), list(having))


def _dashed(lines: list[str], indent: int) -> list[str]:
    start = " " * indent + "-"
    if lines[0].lstrip().startswith("{{-"):
        return [start, *lines]
    return [f"{start} {lines[0].lstrip()}", *lines[1:]]


def _alternatives(variants: Variants, indent: int) -> list[str]:
    """Values that are different as a whole, one after another."""
    left, lines = dict(variants), list[str]()
    while left:
        value = next(iter(left.values()))
        same = [case for case, other in left.items() if _kind(other) == _kind(value)]
        body = template({case: left[case] for case in same}, indent)
        if len(same) == len(left):
            return [*lines, *(["{{- else }}"] if lines else []), *body, *(["{{- end }}"] if lines else [])]
        word = "else if" if lines else "if"
        lines += [f"{{{{- {word} {separating(list(left), same).text} }}}}", *body]
        left = {case: other for case, other in left.items() if case not in same}
    return lines


def _kind(value: Any) -> Hashable:
    """What values must have in common to be merged: a structure that is not empty, or the same value."""
    return type(value) if isinstance(value, dict | list) and value else json.dumps(value)


def _keys(values: Sequence[Mapping[str, Any]]) -> list[str]:
    return _union([list(value) for value in values])


def _items(values: Sequence[Sequence[Any]]) -> list[Hashable]:
    for value in values:
        if len({_identity(item) for item in value}) != len(value):
            raise ValueError(f"a list has an item twice: {value}")
    return _union([[_identity(item) for item in value] for value in values])


def _identity(item: Any) -> Hashable:
    if isinstance(item, dict) and "name" in item:
        return ("name", item["name"])
    return json.dumps(item, sort_keys=True)


def _union(orders: Sequence[Sequence[Any]]) -> list[Any]:
    """All elements, each after those that stand before it in any of the orders."""
    merged: list[Any] = []
    for order in orders:
        at = 0
        for element in order:
            if element in merged:
                at = merged.index(element) + 1
            else:
                merged.insert(at, element)
                at += 1
    return merged


def _plain(value: Any, indent: int) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, each in value.items() for line in _field(key, {frozenset(): each}, indent)]
    if isinstance(value, list) and value:
        return [line for each in value for line in _dashed(_plain(each, indent + 2), indent)]
    return [" " * indent + _scalar(value)]


def _scalar(value: Any) -> str:
    """A scalar on one line; quoted where YAML would read it as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    if value.startswith("@@"):
        return value
    if '"' in value and "'" not in value:
        return f"'{value}'"
    plain = yaml.safe_dump(value, width=10_000, allow_unicode=True, default_style=None).splitlines()[0]
    is_plain = plain == value and "placeholder" not in value
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def union_of_objects(cases: Mapping[Flags, Sequence[Any]], identity: Any) -> Iterator[tuple[Any, Variants]]:
    """Each object with its variants, in an order that all cases agree with."""
    for key in _union([[identity(each) for each in objects] for objects in cases.values()]):
        yield key, {case: each for case, objects in cases.items() for each in objects if identity(each) == key}


def joined(lines: Sequence[str]) -> list[str]:
    """Lines with one condition instead of several of the same, one after another."""
    kept: list[str] = []
    opened: list[str] = []
    ended = ""
    for line in lines:
        if line.startswith(("{{- if ", "{{- range ")):
            opened.append("" if line.startswith("{{- range ") else line)
            if line == ended:
                kept.pop()
                continue
        if line.startswith("{{- else"):
            opened[-1] = ""  # such a block is not joined with another
        ended = opened.pop() if line == "{{- end }}" else ""
        kept.append(line)
    return kept
