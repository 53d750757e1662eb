"""Validation of metadata (names, labels, annotations, owners, finalizers), label selectors and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Cause,
    Causes,
    each,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
)
from trimtab_lab.apiserver.storage.store import Tree

_LARGEST_ANNOTATIONS = 256 * 1024
_STANDARD_FINALIZERS = frozenset(["kubernetes", "orphan", "foregroundDeletion"])


def validate_create(
    metadata: Tree,
    causes: Causes,
    *,
    namespaced: bool,
    name: names.OutputFormat,
    finalizers: bool = True,
    path: str = "metadata",
) -> None:
    """The metadata of any object; `name` is the required form of its name.

    `finalizers` adds the check of short finalizers, which most kinds have.
    """
    generate_name = metadata.get("generateName")
    if generate_name:
        causes += each(f"{path}.generateName", generate_name, names.prefix(name, generate_name))
    given = metadata.get("name")
    if not given:
        causes.append(required(f"{path}.name", "name or generateName is required"))
    else:
        faults = name(given)
        if faults:
            causes += each(f"{path}.name", given, faults)
    _namespace(metadata, causes, namespaced, path)
    if metadata.get("generation", 0) < 0:
        causes.append(invalid(f"{path}.generation", metadata["generation"], "must be greater than or equal to 0"))
    _described(metadata, causes, path)
    if "finalizers" in metadata:
        _finalizers(metadata["finalizers"], causes, f"{path}.finalizers")
        if finalizers:
            short_finalizers(metadata["finalizers"], causes, f"{path}.finalizers")


def validate_update(
    metadata: Tree, old: Tree, causes: Causes, *, finalizers: bool = True, path: str = "metadata"
) -> None:
    """The immutable fields of metadata, and the form of the others."""
    if old.get("deletionTimestamp"):
        _no_new_finalizers(metadata, old, causes, path)
    if not metadata.get("resourceVersion"):
        causes.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if metadata.get("generation", 0) < old.get("generation", 0):
        causes.append(invalid(f"{path}.generation", metadata.get("generation", 0), "must not be decremented"))
    for field in ("name", "namespace", "uid"):
        if metadata.get(field, "") != old.get(field, ""):
            causes += immutable(f"{path}.{field}", metadata.get(field, ""), old.get(field, ""))
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(field) != old.get(field):
            causes += immutable(f"{path}.{field}", metadata.get(field), old.get(field))
    _described(metadata, causes, path)
    if finalizers and "finalizers" in metadata:
        short_finalizers(metadata["finalizers"], causes, f"{path}.finalizers")


def short_finalizers(finalizers: Sequence[str], causes: Causes, path: str) -> None:
    for index, finalizer in enumerate(finalizers):
        short_finalizer(finalizer, causes, f"{path}[{index}]")


def short_finalizer(finalizer: str, causes: Causes, path: str) -> None:
    """A finalizer without a domain must be one of Kubernetes'."""
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        fault = "name is neither a standard finalizer name nor is it fully qualified"
        causes.append(invalid(path, finalizer, fault))


def labels(given: Tree, causes: Causes, path: str) -> None:
    """The keys and values of labels, or of a map that selects by labels."""
    for key, value in given.items():
        faults = names.qualified(key)
        if faults:
            causes += each(path, key, faults)
        faults = names.label_value(value)
        if faults:
            causes += each(path, value, faults)


def annotation_texts(given: Tree, causes: Causes, path: str) -> None:
    size = 0
    for key, value in given.items():
        size += len(key) + len(value)
        faults = names.qualified(key.lower())
        if faults:
            causes += each(path, key, faults)
    if size * 4 > _LARGEST_ANNOTATIONS and _bytes(given) > _LARGEST_ANNOTATIONS:
        causes.append(too_long(path, _LARGEST_ANNOTATIONS))


def selector(given: Tree | None, causes: Causes, path: str) -> None:
    """A label selector, if there is one."""
    if not given:
        return
    if "matchLabels" in given:
        labels(given["matchLabels"], causes, f"{path}.matchLabels")
    for index, expression in enumerate(given.get("matchExpressions") or ()):
        _expression(expression, causes, f"{path}.matchExpressions[{index}]")


def conditions(given: Sequence[Tree], causes: Causes, path: str) -> None:
    """Conditions of the standard type (`metav1.Condition`)."""
    seen: set[str] = set()
    for index, condition in enumerate(given):
        at = f"{path}[{index}]"
        type_ = condition.get("type", "")
        if type_ in seen:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{type_}"', f"{at}.type"))
        seen.add(type_)
        _condition(condition, causes, at)


def _condition(condition: Tree, causes: Causes, at: str) -> None:
    causes += each(f"{at}.type", condition.get("type", ""), names.qualified(condition.get("type", "")))
    status = condition.get("status", "")
    if status not in ("False", "True", "Unknown"):
        detail = 'supported values: "False", "True", "Unknown"'
        causes.append(Cause("FieldValueNotSupported", f'Unsupported value: "{status}": {detail}', f"{at}.status"))
    if condition.get("observedGeneration", 0) < 0:
        number = condition["observedGeneration"]
        causes.append(invalid(f"{at}.observedGeneration", number, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        causes.append(required(f"{at}.lastTransitionTime"))
    reason = condition.get("reason", "")
    if not reason:
        causes.append(required(f"{at}.reason"))
    else:
        causes += each(f"{at}.reason", reason, names.condition_reason(reason))


def _namespace(metadata: Tree, causes: Causes, namespaced: bool, path: str) -> None:
    namespace = metadata.get("namespace")
    if namespaced:
        if not namespace:
            causes.append(required(f"{path}.namespace"))
        else:
            faults = names.label(namespace)
            if faults:
                causes += each(f"{path}.namespace", namespace, faults)
    elif namespace:
        causes.append(forbidden(f"{path}.namespace", "not allowed on this type"))


def _described(metadata: Tree, causes: Causes, path: str) -> None:
    if "labels" in metadata:
        labels(metadata["labels"], causes, f"{path}.labels")
    if "annotations" in metadata:
        annotation_texts(metadata["annotations"], causes, f"{path}.annotations")
    if "ownerReferences" in metadata:
        _owners(metadata["ownerReferences"], causes, f"{path}.ownerReferences")


def _owners(owners: Sequence[Tree], causes: Causes, path: str) -> None:
    controller = ""
    for owner in owners:
        _owner(owner, causes, path)
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                fault = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {name}'
                )
                causes.append(invalid(path, list(map(_owner_shown, owners)), fault))
            else:
                controller = name


def _owner(owner: Tree, causes: Causes, path: str) -> None:
    version = owner.get("apiVersion", "").rpartition("/")[2]
    if not version:
        causes.append(invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            causes.append(invalid(f"{path}.{field}", "", "must not be empty"))
    if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
        causes.append(invalid(path, _owner_shown(owner), "/v1, Kind=Event is disallowed from being an owner"))


def _owner_shown(owner: Tree) -> Tree:
    shown = {field: owner.get(field, "") for field in ("apiVersion", "kind", "name", "uid")}
    return shown | {field: owner[field] for field in ("controller", "blockOwnerDeletion") if field in owner}


def _finalizers(finalizers: Sequence[str], causes: Causes, path: str) -> None:
    for finalizer in finalizers:
        causes += each(path, finalizer, names.qualified(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        causes.append(invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))


def _no_new_finalizers(metadata: Tree, old: Tree, causes: Causes, path: str) -> None:
    new = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if new:
        shown = ", ".join(f'"{finalizer}"' for finalizer in new)
        fault = "no new finalizers can be added if the object is being deleted, found new finalizers"
        causes.append(forbidden(f"{path}.finalizers", f"{fault} []string{{{shown}}}"))


_EXPRESSION_RULES = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


def _expression(expression: Tree, causes: Causes, path: str) -> None:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    wants_values = _EXPRESSION_RULES.get(operator)
    if wants_values is None:
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif wants_values and not values:
        causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif not wants_values and values:
        fault = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(forbidden(f"{path}.values", fault))
    causes += each(f"{path}.key", expression.get("key", ""), names.qualified(expression.get("key", "")))
    for index, value in enumerate(values):
        causes += each(f"{path}.values[{index}]", value, names.label_value(value))


def _bytes(texts: dict[str, Any]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())
