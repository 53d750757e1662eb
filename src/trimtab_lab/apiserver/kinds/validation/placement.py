"""Validation of scheduling constraints: node selectors, affinity, tolerations, topology spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trimtab_lab.apiserver.kinds.validation import metadata, names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    duplicate,
    each,
    forbidden,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.storage.store import Tree

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def affinity(given: Tree, causes: Causes, path: str) -> None:
    if "nodeAffinity" in given:
        _node_affinity(given["nodeAffinity"], causes, f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if name in given:
            _pod_affinity(given[name], causes, f"{path}.{name}")


def _node_affinity(given: Tree, causes: Causes, path: str) -> None:
    if _REQUIRED in given:
        node_selector(given[_REQUIRED], causes, f"{path}.{_REQUIRED}")
    for index, term in enumerate(given.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        _weight(term, causes, at)
        _node_term(term.get("preference") or {}, causes, f"{at}.preference", check_values=False)


def node_selector(given: Tree, causes: Causes, path: str) -> None:
    terms = given.get("nodeSelectorTerms")
    if not terms:
        causes.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for index, term in enumerate(terms):
        _node_term(term, causes, f"{path}.nodeSelectorTerms[{index}]", check_values=True)


def _node_term(term: Tree, causes: Causes, path: str, *, check_values: bool) -> None:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        _node_expression(expression, causes, f"{path}.matchExpressions[{index}]", check_values=check_values)
    for index, field in enumerate(term.get("matchFields") or ()):
        _node_field(field, causes, f"{path}.matchFields[{index}]")


def _node_expression(expression: Tree, causes: Causes, path: str, *, check_values: bool) -> None:
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                fault = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden(f"{path}.values", fault))
        case "Gt" | "Lt":
            if len(values) != 1:
                fault = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.append(required(f"{path}.values", fault))
        case _:
            causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += each(f"{path}.key", expression.get("key", ""), names.qualified(expression.get("key", "")))
    if check_values:
        for index, value in enumerate(values):
            causes += each(f"{path}.values[{index}]", value, names.label_value(value))


def _node_field(field: Tree, causes: Causes, path: str) -> None:
    operator, values, key = field.get("operator", ""), field.get("values") or (), field.get("key", "")
    if operator not in ("In", "NotIn"):
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        fault = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{path}.values", fault))
    if key != "metadata.name":
        causes.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        causes += each(f"{path}.values[{index}]", value, names.subdomain(value))


def _pod_affinity(given: Tree, causes: Causes, path: str) -> None:
    for index, term in enumerate(given.get(_REQUIRED) or ()):
        _pod_term(term, causes, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(given.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        _weight(weighted, causes, at)
        _pod_term(weighted.get("podAffinityTerm") or {}, causes, f"{at}.podAffinityTerm")


def _weight(term: Tree, causes: Causes, path: str) -> None:
    if not 1 <= term.get("weight", 0) <= 100:
        causes.append(invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100"))


def _pod_term(term: Tree, causes: Causes, path: str) -> None:
    metadata.selector(term.get("labelSelector"), causes, f"{path}.labelSelector")
    metadata.selector(term.get("namespaceSelector"), causes, f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        causes += each(f"{path}.namespace", namespace, names.label(namespace))
    label_keys(term, causes, path)
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    causes += each(f"{path}.topologyKey", key, names.qualified(key))


def label_keys(term: Tree, causes: Causes, path: str) -> None:
    """`matchLabelKeys` and `mismatchLabelKeys`, which narrow the selector beside them by the pod's labels."""
    matching, mismatching = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if not matching and not mismatching:
        return
    selector = term.get("labelSelector")
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        _label_keys(keys, selector, causes, f"{path}.{name}")
    if selector is not None:
        _keys_twice(matching, selector, causes, path)
    for index, key in enumerate(matching):
        if key in mismatching:
            fault = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(invalid(f"{path}.matchLabelKeys[{index}]", key, fault))


def _label_keys(keys: Sequence[str], selector: Tree | None, causes: Causes, path: str) -> None:
    if keys and selector is None:
        causes.append(forbidden(path, "must not be specified when labelSelector is not set"))
        return
    for index, key in enumerate(keys):
        causes += each(f"{path}[{index}]", key, names.qualified(key))


def _keys_twice(keys: Sequence[str], selector: Tree, causes: Causes, path: str) -> None:
    """A key may occur in the selector once, where it was merged in. Twice means that it was in the selector before."""
    places = {key: index for index, key in enumerate(keys)}
    seen = set(selector.get("matchLabels") or ())
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in places and key in seen:
            fault = "exists in both matchLabelKeys and labelSelector"
            causes.append(invalid(f"{path}[{places[key]}]", key, fault))
        seen.add(key)


def tolerations(given: Sequence[Tree], causes: Causes, path: str) -> None:
    for index, toleration in enumerate(given):
        _toleration(toleration, causes, f"{path}[{index}]")


def _toleration(toleration: Tree, causes: Causes, path: str) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect, value = toleration.get("effect", ""), toleration.get("value", "")
    if key:
        causes += each(f"{path}.key", key, names.qualified(key))
    elif operator != "Exists":
        fault = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid(f"{path}.operator", operator, fault))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        fault = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", effect, fault))
    _toleration_operator(operator, value, causes, path)
    if effect:
        taint_effect(effect, causes, f"{path}.effect")


def _toleration_operator(operator: str, value: str, causes: Causes, path: str) -> None:
    match operator:
        case "Equal" | "":
            faults = names.label_value(value)
            if faults:
                causes.append(invalid(f"{path}.operator", value, ";".join(faults)))
        case "Exists":
            if value:
                fault = "value must be empty when `operator` is 'Exists'"
                causes.append(invalid(f"{path}.operator", value, fault))
        case "Lt" | "Gt":  # behind a feature gate that is off in 1.36
            causes.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt")))
        case _:
            causes.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists")))


def taint_effect(effect: str, causes: Causes, path: str) -> None:
    if effect not in EFFECTS:
        causes.append(unsupported(path, effect, EFFECTS))


def taints(given: Sequence[Tree], causes: Causes, path: str) -> None:
    """The taints of a node: unique by key and effect."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(given):
        at = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        causes += each(f"{at}.key", key, names.qualified(key))
        faults = names.label_value(value)
        if faults:
            causes.append(invalid(f"{at}.value", value, ";".join(faults)))
        if effect:
            taint_effect(effect, causes, f"{at}.effect")
        else:
            causes.append(required(f"{at}.effect"))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            causes.append(duplicate(at, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))


def spread(constraints: Sequence[Tree], causes: Causes, path: str) -> None:
    for index, constraint in enumerate(constraints):
        _spread_constraint(constraint, constraints[index + 1 :], causes, f"{path}[{index}]")


def _spread_constraint(constraint: Tree, rest: Sequence[Tree], causes: Causes, path: str) -> None:
    if constraint.get("maxSkew", 0) <= 0:
        causes.append(invalid(f"{path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
    if not constraint.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    action = constraint.get("whenUnsatisfiable", "")
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        causes.append(unsupported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
    if any(_same_constraint(constraint, other) for other in rest):
        shown = f"{{{constraint.get('topologyKey', '')}, {action}}}"
        causes.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", shown))
    if "minDomains" in constraint:
        _min_domains(constraint["minDomains"], action, causes, f"{path}.minDomains")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(name, "Honor") not in ("Honor", "Ignore"):
            causes.append(unsupported(f"{path}.{name}", constraint[name], ("Honor", "Ignore")))
    label_keys(constraint, causes, path)
    metadata.selector(constraint.get("labelSelector"), causes, f"{path}.labelSelector")


def _same_constraint(constraint: Tree, other: Tree) -> bool:
    keys = ("topologyKey", "whenUnsatisfiable")
    return all(constraint.get(key, "") == other.get(key, "") for key in keys)


def _min_domains(number: int, action: str, causes: Causes, path: str) -> None:
    if number <= 0:
        causes.append(invalid(path, number, "must be greater than zero"))
    if action != "DoNotSchedule":
        fault = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid(path, number, fault))


# --- updates ---------------------------------------------------------------------------------------------------------


def only_added_tolerations(new: Sequence[Tree], old: Sequence[Tree], causes: Causes, path: str) -> None:
    """Tolerations may be added to a pod; of existing ones only the seconds may change."""
    kept = [_without_seconds(toleration) for toleration in new]
    if all(_without_seconds(toleration) in kept for toleration in old):
        tolerations(new, causes, path)
    else:
        causes.append(forbidden(path, "existing toleration can not be modified except its tolerationSeconds"))


def only_deleted_gates(new: Sequence[Tree], old: Sequence[Tree], causes: Causes, path: str) -> None:
    before = {gate.get("name", "") for gate in old}
    for index, gate in enumerate(new):
        name = gate.get("name", "")
        if name not in before:
            fault = f"only deletion is allowed, but found new scheduling gate '{name}'"
            causes.append(forbidden(f"{path}[{index}].name", fault))


def only_narrowed_selector(new: Tree, old: Tree, causes: Causes, path: str) -> None:
    """While a pod has a scheduling gate, its node selector may be narrowed."""
    if any(new.get(key) != value for key, value in old.items()):
        fault = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(invalid(path, new, fault))


def only_narrowed_affinity(new: Tree | None, old: Tree | None, causes: Causes, path: str) -> None:
    old_terms = ((old or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms = ((new or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    at = f"{path}.{_REQUIRED}.nodeSelectorTerms"
    if not old_terms:
        return
    if len(old_terms) != len(new_terms):
        fault = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        causes.append(invalid(at, [_term_shown(term) for term in new_terms], fault))
        return
    for index, (term, before) in enumerate(zip(new_terms, old_terms, strict=True)):
        if not _only_additions(term, before):
            fault = "only additions are allowed (no mutations or deletions)"
            causes.append(invalid(f"{at}[{index}]", _term_shown(term), fault))


def _only_additions(term: Tree, before: Tree) -> bool:
    if not any(before.values()):
        return not any(term.values())
    parts = ("matchExpressions", "matchFields")
    return all((term.get(part) or [])[: len(before.get(part) or [])] == (before.get(part) or []) for part in parts)


def _term_shown(term: Tree) -> Tree:
    def shown(expressions: Any) -> Any:
        return [
            {"Key": e.get("key", ""), "Operator": e.get("operator", ""), "Values": e.get("values")} for e in expressions
        ]

    parts = (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
    return {name: shown(term[key]) if term.get(key) else None for name, key in parts}


def _without_seconds(toleration: Tree) -> Tree:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}
