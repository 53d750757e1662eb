"""Limits of lists and maps in types that our kinds share with those of Kubernetes.

The lists of our own types have their limits in the type. A label selector also occurs in the objects of others, which
Kubernetes does not limit and which must stay readable: its limits are stated here, for the schemas of our kinds and for
their validation.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, cast

import msgspec

from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, LabelSelectorRequirement
from trimtab.api.pods import NodeSelectorRequirement, NodeSelectorTerm

SHARED: Mapping[type[msgspec.Struct], Mapping[str, int]] = {
    LabelSelector: {"matchLabels": 100, "matchExpressions": 100},
    LabelSelectorRequirement: {"values": 1000},
    NodeSelectorTerm: {"matchExpressions": 100, "matchFields": 100},
    NodeSelectorRequirement: {"values": 1000},
}
"""The greatest number of entries, by type and field."""


@functools.cache
def _fields(kind: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a type; msgspec evaluates all annotations each time it is asked."""
    return msgspec.structs.fields(kind)


def problems(value: Any, path: str) -> Iterator[InvalidError]:
    """The lists and maps of a selector that have too many entries."""
    for field in _fields(cast("Hashable", type(value))):
        entries = getattr(value, field.name)
        at = f"{path}.{field.encode_name}"
        most = SHARED[type(value)].get(field.encode_name)
        if most is not None and len(entries) > most:
            yield InvalidError(at, f"has {len(entries)} entries; write at most {most}")
        elif most is not None and isinstance(entries, tuple):
            for index, entry in enumerate(entries):
                if type(entry) in SHARED:
                    yield from problems(entry, f"{at}[{index}]")
