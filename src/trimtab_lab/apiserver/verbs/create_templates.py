"""New objects whose bytes were seen before.

Whoever keeps a number of equal pods sends the same bytes for each of them, and lets the server complete the name. What
such bytes say, which defaults they lack, and whether an object made of them is good depends on nothing but the bytes
and the kind; it is found out once and remembered.

What depends on anything else is done for each object: what the server's own admission adds (`plugins`), and all that
webhooks want. A webhook may change an object, so what it has seen is validated again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trimtab_lab.apiserver.kinds import objects, registry_strategies, validation
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import decoding
from trimtab_lab.apiserver.storage.store import Tree, decode, encode

_GENERATED = b'"generateName"'
_LONGEST = 64 * 1024
_REMEMBERED = 256
_PROBE = {"uid": "probe", "creationTimestamp": "2000-01-01T00:00:00Z"}


@dataclass(frozen=True, slots=True)
class Template:
    """What was found out: the object, completed; the warnings about its fields; and, if it is `good`, those that
    validation has. What is not good is validated as ever, for the causes name the object."""

    data: bytes
    unknown: tuple[str, ...]
    good: bool
    notes: tuple[str, ...] = ()


def find(kind: Kind, body: bytes, content_type: str, level: str) -> Template | None:
    """The template in the body of a request; None if it is not worth remembering. Raises a Status of 400 or 422."""
    if len(body) > _LONGEST or _GENERATED not in body or not decoding.is_json(content_type):
        return None
    return _template(kind, body, level)


@lru_cache(maxsize=_REMEMBERED)
def _template(kind: Kind, body: bytes, level: str) -> Template:
    unknown: list[str] = []
    tree = objects.read(kind, body, "", level, unknown)
    objects.complete(kind, tree)
    data = encode(tree)
    probe: Tree = decode(data)
    metadata = probe["metadata"]
    if metadata.get("name") or not metadata.get("generateName"):
        return Template(data, tuple(unknown), good=False)
    metadata |= (
        _PROBE | {"name": f"{metadata['generateName']}probe"} | ({"namespace": "probe"} if kind.namespaced else {})
    )
    registry_strategies.prepare_create(kind, probe, _PROBE["creationTimestamp"])
    good = not registry_strategies.validation_causes(kind, probe)
    notes = validation.warnings(kind.name, probe, custom=kind.custom is not None) if good else ()
    return Template(data, tuple(unknown), good, tuple(notes))
