"""Templates of create requests: bodies with `generateName` that were decoded before.

A client that creates many equal pods sends the same bytes for each of them. Their decoded form, their defaults and
their validity depend on nothing but the bytes and the kind, so they are computed once and cached.

Everything else is done for each object: what built-in admission plugins add, and what webhooks do. A webhook may change
an object, so an object that was sent to one is validated again.
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
_CACHE_SIZE = 256
_PROBE = {"uid": "probe", "creationTimestamp": "2000-01-01T00:00:00Z"}


@dataclass(frozen=True, slots=True)
class CreateTemplate:
    """A decoded and defaulted object, the warnings about unknown fields and, if it is `valid`, those of validation. An
    object that is not valid is validated again, because the causes name the object."""

    data: bytes
    unknown: tuple[str, ...]
    valid: bool
    warnings: tuple[str, ...] = ()


def find(kind: Kind, body: bytes, content_type: str, level: str) -> CreateTemplate | None:
    """The template for the body of a request; None if it is not cacheable. Raises a StatusError of 400 or 422."""
    if len(body) > _LONGEST or _GENERATED not in body or not decoding.is_json(content_type):
        return None
    return _template(kind, body, level)


@lru_cache(maxsize=_CACHE_SIZE)
def _template(kind: Kind, body: bytes, level: str) -> CreateTemplate:
    unknown: list[str] = []
    tree = objects.read(kind, body, "", level, unknown)
    objects.complete(kind, tree)
    data = encode(tree)
    probe: Tree = decode(data)
    metadata = probe["metadata"]
    if metadata.get("name") or not metadata.get("generateName"):
        return CreateTemplate(data, tuple(unknown), valid=False)
    metadata |= (
        _PROBE | {"name": f"{metadata['generateName']}probe"} | ({"namespace": "probe"} if kind.namespaced else {})
    )
    registry_strategies.prepare_create(kind, probe, _PROBE["creationTimestamp"])
    valid = not registry_strategies.validation_causes(kind, probe)
    warnings = validation.warnings(kind.name, probe, custom=kind.custom is not None) if valid else ()
    return CreateTemplate(data, tuple(unknown), valid, tuple(warnings))
