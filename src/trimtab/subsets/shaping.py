"""A pod with the changes of its subset, on the raw document: fields that the types do not know stay.

1. The subset's patch is merged strategically. It comes first, so that it cannot undo what follows. If it names another
   priority class, the priority that the API server has resolved from the old one is removed.
2. The subset's node selector term is added to each required term of the pod's, or becomes the first. Terms are
   alternatives and all expressions of one term must hold, so the subset's term holds wherever the pod may go.
3. The subset's tolerations are appended, except those that the pod has already.
4. The subset annotations are added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trimtab.api import codec
from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.patches import schema_for, strategic_merge
from trimtab.api.pods import NodeSelectorTerm
from trimtab.api.unitedtopology import Subset, patched_pods, privileges

_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_PARTS = ("matchExpressions", "matchFields")


def shape(pod: JSON, subset: Subset, annotations: SubsetAnnotations, *, allowed_fields: Collection[str] = ()) -> JSON:
    """A new document; the pod stays as it was. Raises InvalidError where the patch does not apply to it.

    `allowed_fields` are the privileged fields that a patch may change (see `unitedtopology.privileges`).
    """
    shaped = patched(pod, subset, allowed_fields=allowed_fields)
    spec = _object(shaped, "spec")
    if restricts(subset.node_selector_term):
        _require(spec, codec.to_tree(subset.node_selector_term))
    if subset.tolerations:
        spec["tolerations"] = _with_tolerations(spec.get("tolerations") or [], subset)
    _object(_object(shaped, "metadata"), "annotations").update(annotations.written())
    return shaped


def difference(before: JSON, after: JSON) -> list[JSON]:
    """The JSON patch from a pod to the shaped pod: whole fields of `metadata` and `spec`, as nothing else changes.

    `add` replaces an existing field; a part that is missing altogether is added as a whole.
    """
    operations: list[JSON] = []
    for part in dict.fromkeys((*before, *after)):
        old, new = before.get(part), after.get(part)
        if isinstance(old, dict) and isinstance(new, dict):
            operations += [_operation((part, field), new) for field in _unequal(old, new)]
        elif part in _unequal(before, after):
            operations.append(_operation((part,), after))
    return operations


def _unequal(old: JSON, new: JSON) -> list[str]:
    """The fields that differ; null is not the same as absent."""
    keys = dict.fromkeys((*old, *new))
    return [each for each in keys if each not in old or each not in new or old[each] != new[each]]


def _operation(path: tuple[str, ...], holder: JSON) -> JSON:
    pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)
    if path[-1] not in holder:
        return {"op": "remove", "path": pointer}
    return {"op": "add", "path": pointer, "value": holder[path[-1]]}


def restricts(term: NodeSelectorTerm | None) -> bool:
    """Whether a term restricts nodes. To Kubernetes an empty term matches nothing, which no subset can mean."""
    return term is not None and bool(term.match_expressions or term.match_fields)


def patched(pod: JSON, subset: Subset, *, allowed_fields: Collection[str] = ()) -> JSON:
    """The pod under the subset's patch alone."""
    patch = subset.patch.tree() if subset.patch is not None else {}
    try:
        merged: JSON = strategic_merge(pod, patch, schema_for("v1", "Pod"))
        _check_types(merged)
        patched_pods.resolve_priority(pod, merged, patch)
        _check(pod, merged)
        for problem in privileges.problems(pod, merged, allowed_fields):
            raise problem
    except InvalidError as error:
        raise error.under("patch") from None
    return merged


_OBJECT, _LIST = (dict, "an object"), (list, "a list")
_TYPES: Mapping[tuple[str, ...], tuple[type, str]] = {
    ("metadata",): _OBJECT,
    ("metadata", "labels"): _OBJECT,
    ("spec",): _OBJECT,
    ("spec", "containers"): _LIST,
    ("spec", "initContainers"): _LIST,
}
"""The types of the fields that are checked; those that contain others come first."""


def _check_types(merged: JSON) -> None:
    """Raise InvalidError for a pod in which a patch has replaced an object or a list with something else."""
    for path, (kind, name) in _TYPES.items():
        value: Any = merged
        for key in path:
            value = (value or {}).get(key)
        if value is not None and not isinstance(value, kind):
            raise InvalidError(".".join(path), f"is not {name}")


def _check(pod: JSON, merged: JSON) -> None:
    """Raise InvalidError for a pod that the API server would refuse, or that its owner would release.

    A pod that loses a label is released by its owner, which creates another one, and so on for ever. The API server
    refuses a container without an image, most likely because its name was misspelt, and a pod without containers.
    """
    labels = _labels(merged)
    for key, value in _labels(pod).items():
        if labels.get(key) != value:
            reason = (
                f"is {value!r} in the pod's template; a subset cannot change it, as owners select their pods by labels"
            )
            raise InvalidError(f'metadata.labels["{key}"]', reason)
    if not (merged.get("spec") or {}).get("containers"):
        raise InvalidError("spec.containers", "none is left; a pod needs at least one")
    for field in ("containers", "initContainers"):
        for index, container in enumerate((merged.get("spec") or {}).get(field) or []):
            if isinstance(container, dict) and not container.get("image"):
                name = container.get("name")
                reason = f"the pod has no container {name!r}; write the name of one of its containers, or an image"
                raise InvalidError(f"spec.{field}[{index}]", reason)
    for problem in patched_pods.problems(merged):
        raise problem


def _labels(pod: JSON) -> JSON:
    labels: JSON = (pod.get("metadata") or {}).get("labels") or {}
    return labels


def _require(spec: JSON, added: JSON) -> None:
    """Add the term to each required one. A term without expressions matches nothing, and is left as it is."""
    required = spec
    for part in _AFFINITY:
        required = _object(required, part)
    present = required.get("nodeSelectorTerms") or []
    required["nodeSelectorTerms"] = [_joined(term, added) for term in present] or [added]


def _joined(term: JSON, added: JSON) -> JSON:
    if not any(term.get(part) for part in _PARTS):
        return term
    joined = dict(term)
    for part in _PARTS:
        expressions = [*(term.get(part) or []), *(added.get(part) or [])]
        if expressions:
            joined[part] = expressions
    return joined


def _with_tolerations(present: list[Any], subset: Subset) -> list[Any]:
    added = [codec.to_tree(toleration) for toleration in subset.tolerations]
    return [*present, *(toleration for toleration in added if toleration not in present)]


def _object(parent: JSON, key: str) -> JSON:
    """The object under a key; a missing one, or null, is replaced by an empty object."""
    child: JSON | None = parent.get(key)
    if child is None:
        child = parent[key] = {}
    return child
