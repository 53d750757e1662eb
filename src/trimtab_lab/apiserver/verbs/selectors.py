"""Label and field selectors of a request."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api.errors import InvalidError
from trimtab.api.selectors import EVERYTHING, FieldTerm, Selector, parse, parse_fields
from trimtab_lab.apiserver.kinds.errors import bad_request
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.storage.selections import FIELDS, METADATA_FIELDS, REFERENCE, Selection

_STORED_NAMES: Mapping[str, Mapping[str, str]] = {
    "events.k8s.io/v1 Event": {
        **{f"regarding.{part}": f"involvedObject.{part}" for part in REFERENCE},
        "reportingController": "reportingComponent",
    },
}
"""Fields whose stored name differs from the name in the kind."""


def select(kind: Kind, namespace: str, name: str, labels: str, fields: str) -> Selection:
    """The selection of a request. Raises a StatusError of 400 for an invalid selector."""
    selector = _labels(labels) if labels else EVERYTHING
    terms = _fields(kind, fields) if fields else ()
    if name:
        terms = (*terms, FieldTerm("metadata.name", name))
    return Selection(namespace, selector, terms, kind.collection, kind.custom.selectable if kind.custom else ())


def _labels(labels: str) -> Selector:
    try:
        return parse(labels)
    except InvalidError as error:
        raise bad_request(f"unable to parse requirement: {error.reason}") from None


def _fields(kind: Kind, written: str) -> tuple[FieldTerm, ...]:
    try:
        terms = parse_fields(written)
    except InvalidError as error:
        raise bad_request(f"invalid selector: '{written}'; {error.reason}") from None
    return tuple(FieldTerm(_stored_name(kind, term.field), term.value, negated=term.negated) for term in terms)


def _stored_name(kind: Kind, name: str) -> str:
    stored = _STORED_NAMES.get(kind.name, {}).get(name, name)
    selectable = kind.custom.selectable if kind.custom else ()
    if stored not in METADATA_FIELDS and stored not in FIELDS.get(kind.collection, {}) and stored not in selectable:
        raise bad_request(f"field label not supported: {name}")
    return stored
