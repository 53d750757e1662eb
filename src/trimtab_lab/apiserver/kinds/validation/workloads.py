"""Validation of workloads: ReplicaSets, Deployments, StatefulSets, DaemonSets, ReplicationControllers, revisions."""

from __future__ import annotations

from typing import Any

from trimtab.api import selectors
from trimtab.api.codec import convert
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.kinds.validation import metadata, names, pods
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    forbidden,
    immutable,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.kinds.validation.counts import (
    NOT_NEGATIVE,
    at_most_all,
    count_or_percent,
    not_negative,
    number_of,
)
from trimtab_lab.apiserver.storage.store import Tree

_MISMATCH = "`selector` does not match template `labels`"


def _selector(spec: Tree, kind: str, found: Causes) -> selectors.Selector | None:
    """Check the selector; returns it compiled, or None if it cannot be matched."""
    given = spec.get("selector")
    if given is None:
        found.append(required("spec.selector"))
        return selectors.NOTHING
    metadata.selector(given, found, "spec.selector")
    if not given.get("matchLabels") and not given.get("matchExpressions"):
        found.append(invalid("spec.selector", given, f"empty selector is invalid for {kind}"))
    return _compiled(given)


def _compiled(given: Tree) -> selectors.Selector | None:
    try:
        return selectors.compile(convert(given, LabelSelector))
    except InvalidError:
        return None


def _template(spec: Tree, matching: selectors.Selector, kind: str, found: Causes) -> None:
    """The template of a ReplicaSet or a Deployment or, with its legacy messages, of a ReplicationController."""
    template = spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not matching.empty and not matching.matches(labels):
        found.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
    pods.template(template, found, "spec.template")
    _always(template["spec"], kind, found)


def _always(spec: Tree, kind: str, found: Causes) -> None:
    if spec.get("restartPolicy") != "Always":
        path = "spec.template.spec.restartPolicy"
        found.append(unsupported(path, spec.get("restartPolicy", ""), ("Always",)))
    if "activeDeadlineSeconds" in spec:
        fault = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(forbidden("spec.template.spec.activeDeadlineSeconds", fault))


def deployment(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, found)
    not_negative(spec, ("replicas",), found, "spec")
    matching = _selector(spec, "deployment", found)
    if matching is None:
        found.append(invalid("spec.selector", spec["selector"], "invalid label selector"))
    else:
        _template(spec, matching, "ReplicaSet", found)
    _deployment_strategy(spec["strategy"], found)
    not_negative(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), found, "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        found.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    _same_selector(spec, old, found)


def replica_set(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, found)
    not_negative(spec, ("replicas", "minReadySeconds"), found, "spec")
    matching = _selector(spec, "deployment", found)
    if matching is None:
        found.append(invalid("spec.selector", spec["selector"], "invalid label selector"))
    else:
        _template(spec, matching, "ReplicaSet", found)
    _same_selector(spec, old, found)


def _head(tree: Tree, old: Tree | None, found: Causes, name: names.OutputFormat = names.subdomain) -> None:
    if old is None:
        metadata.created(tree["metadata"], found, namespaced=True, name=name)
    else:
        metadata.updated(tree["metadata"], old["metadata"], found)


def _same_selector(spec: Tree, old: Tree | None, found: Causes) -> None:
    if old is not None:
        found += immutable("spec.selector", spec.get("selector"), old["spec"].get("selector"))


def _deployment_strategy(strategy: Tree, found: Causes) -> None:
    path, kind, rolling = "spec.strategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            fault = "may not be specified when strategy `type` is 'Recreate'"
            found.append(forbidden(f"{path}.rollingUpdate", fault))
    elif kind == "RollingUpdate":
        _rolling_deployment(rolling or {}, found, f"{path}.rollingUpdate")
    else:
        shown = {"Type": kind, "RollingUpdate": _rolling_shown(rolling)}
        found.append(unsupported(path, shown, ("Recreate", "RollingUpdate")))


def _rolling_deployment(rolling: Tree, found: Causes, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    count_or_percent(unavailable, found, f"{path}.maxUnavailable")
    count_or_percent(surge, found, f"{path}.maxSurge")
    if not number_of(unavailable) and not number_of(surge):
        found.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    at_most_all(unavailable, found, f"{path}.maxUnavailable")


def _rolling_shown(rolling: Tree | None) -> Any:
    if rolling is None:
        return None
    return {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}


_STATEFUL_FREE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)


def stateful_set(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, found, names.label)
    _stateful_strategy(spec, found)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field, policy in retention.items():
        if policy not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            found.append(unsupported(path, policy, ("Retain", "Delete")))
    not_negative(spec, ("replicas", "minReadySeconds"), found, "spec")
    start = (spec.get("ordinals") or {}).get("start", 0)
    if start < 0:
        found.append(invalid("spec.ordinals.start", start, NOT_NEGATIVE))
    if old is None and spec.get("serviceName"):
        found += each("spec.serviceName", spec["serviceName"], names.label(spec["serviceName"]))
    _stateful_template(spec, found)
    if old is not None and _fixed(spec) != _fixed(old["spec"]):
        fault = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        found.append(forbidden("spec", fault))


def _fixed(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if name not in _STATEFUL_FREE}


def _stateful_strategy(spec: Tree, found: Causes) -> None:
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        found.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    strategy = spec["updateStrategy"]
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        _rolling_stateful(rolling or {}, found, "spec.updateStrategy.rollingUpdate")
    elif kind == "OnDelete":
        if rolling is not None:
            shown = _rolling_stateful_shown(rolling)
            fault = "only allowed for updateStrategy 'RollingUpdate'"
            found.append(invalid("spec.updateStrategy.rollingUpdate", shown, fault))
    else:
        shown = {"Type": kind, "RollingUpdate": _rolling_stateful_shown(rolling)}
        found.append(invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))


def _rolling_stateful_shown(rolling: Tree | None) -> Any:
    if rolling is None:
        return None
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def _rolling_stateful(rolling: Tree, found: Causes, path: str) -> None:
    not_negative(rolling, ("partition",), found, path)
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        at = f"{path}.maxUnavailable"
        count_or_percent(unavailable, found, at)
        if not number_of(unavailable):
            found.append(invalid(at, unavailable, "cannot be 0"))
        at_most_all(unavailable, found, at)


def _stateful_template(spec: Tree, found: Causes) -> None:
    matching = _selector(spec, "statefulset", found)
    if matching is None:
        found.append(invalid("spec.selector", spec["selector"], ""))
    else:
        template = _with_claims(spec)
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not matching.empty and not matching.matches(labels):
            found.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
        pods.template(template, found, "spec.template")
    _always(spec["template"]["spec"], "StatefulSet", found)


def _with_claims(spec: Tree) -> Tree:
    """The template as its pods have it: with a volume for each claim, and with their own names."""
    template: Tree = spec["template"]
    claims = {claim["metadata"].get("name", ""): claim for claim in spec.get("volumeClaimTemplates") or ()}
    held = [volume for volume in template["spec"].get("volumes") or () if volume.get("name", "") not in claims]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    pod = {name: value for name, value in template["spec"].items() if name not in ("hostname", "subdomain", "volumes")}
    return {**template, "spec": {**pod, "volumes": [*made, *held]}}


def daemon_set(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, found)
    _same_selector(spec, old, found)
    given = spec.get("selector")
    metadata.selector(given, found, "spec.selector")
    matching = selectors.NOTHING if given is None else _compiled(given)
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if matching is not None and not matching.matches(labels):
        found.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
    if given is not None and not given.get("matchLabels") and not given.get("matchExpressions"):
        found.append(invalid("spec.selector", given, "empty selector is invalid for daemonset"))
    pods.template(spec["template"], found, "spec.template")
    _always(spec["template"]["spec"], "DaemonSet", found)
    not_negative(spec, ("minReadySeconds",), found, "spec")
    _daemon_strategy(spec["updateStrategy"], found)
    not_negative(spec, ("revisionHistoryLimit",), found, "spec")


def _daemon_strategy(strategy: Tree, found: Causes) -> None:
    path, kind, rolling = "spec.updateStrategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        _rolling_daemons(rolling or {}, found, f"{path}.rollingUpdate")
    elif kind != "OnDelete":
        shown = {"Type": kind, "RollingUpdate": _rolling_shown(rolling)}
        found.append(unsupported(path, shown, ("RollingUpdate", "OnDelete")))


def _rolling_daemons(rolling: Tree, found: Causes, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (count_or_percent, at_most_all):
        check(unavailable, found, f"{path}.maxUnavailable")
        check(surge, found, f"{path}.maxSurge")
    if number_of(unavailable) and number_of(surge):
        found.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_of(unavailable) and not number_of(surge):
        found.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def replication_controller(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, found)
    not_negative(spec, ("minReadySeconds",), found, "spec")
    labels = spec.get("selector") or {}
    if not labels:
        found.append(required("spec.selector"))
    not_negative(spec, ("replicas",), found, "spec")
    if "template" not in spec:
        found.append(required("spec.template"))
        return
    _template(spec, selectors.from_labels(labels), "ReplicationController", found)


def pod_template(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    _head(tree, old, found)
    pods.template(tree["template"], found, "template")


def controller_revision(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
    metadata.created(tree["metadata"], found, namespaced=True, name=names.subdomain)
    if tree.get("revision", 0) < 0:
        found.append(invalid("revision", tree["revision"], NOT_NEGATIVE))
    if old is not None:
        found += immutable("data", tree.get("data"), old.get("data"))
    elif tree.get("data") is None:
        found.append(required("data", "data is mandatory"))
    elif not isinstance(tree["data"], dict):
        found.append(required("data", "data must be a valid JSON object"))
