"""Whether an object of any kind may be stored: built-in kinds by `validation`, custom ones by their schema."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds import validation
from trimtab_lab.apiserver.kinds.conversions import TO_STORED
from trimtab_lab.apiserver.kinds.errors import invalid
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.validation import Cause, metadata, names
from trimtab_lab.apiserver.storage.store import Tree


def check(kind: Kind, tree: Tree, old: Tree | None = None, part: str = "", *, warnings: list[str]) -> None:
    """Validate an object; what is allowed but unwise is added to the warnings. Raises a Status of 422."""
    found = causes_of(kind, tree, old, part)
    if found:
        group = "" if kind.name in TO_STORED else kind.group  # what is stored as another kind is named as that one
        raise invalid(group, kind.kind, tree["metadata"].get("name", ""), found)
    if not part:
        warnings += validation.warnings(kind.name, tree, old, custom=kind.custom is not None)


def causes_of(kind: Kind, tree: Tree, old: Tree | None = None, part: str = "") -> list[Cause]:
    """What is wrong with an object, or with a change of it."""
    if kind.custom is None:
        return validation.validate(kind.name, tree, old, part)
    found: list[Cause] = []
    form = names.subdomain if old is None else names.path_segment
    metadata.created(tree["metadata"], found, namespaced=kind.namespaced, name=form, finalizers=False)
    if old is not None:
        for _ in range(2):  # Kubernetes looks twice at what an update must not change, and tells it twice
            metadata.updated(tree["metadata"], old["metadata"], found, finalizers=False)
    return found + kind.custom.schema.validate(tree, old)
