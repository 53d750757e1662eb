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


def _selector(spec: Tree, kind: str, causes: Causes) -> selectors.Selector | None:
    """Check the selector; returns it compiled, or None if it cannot be matched."""
    given = spec.get("selector")
    if given is None:
        causes.append(required("spec.selector"))
        return selectors.NOTHING
    metadata.selector(given, causes, "spec.selector")
    if not given.get("matchLabels") and not given.get("matchExpressions"):
        causes.append(invalid("spec.selector", given, f"empty selector is invalid for {kind}"))
    return _compiled(given)


def _compiled(given: Tree) -> selectors.Selector | None:
    try:
        return selectors.compile(convert(given, LabelSelector))
    except InvalidError:
        return None


def _template(spec: Tree, matching: selectors.Selector, kind: str, causes: Causes) -> None:
    """The template of a ReplicaSet or a Deployment or, with its legacy messages, of a ReplicationController."""
    template = spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not matching.empty and not matching.matches(labels):
        causes.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
    pods.template(template, causes, "spec.template")
    _always(template["spec"], kind, causes)


def _always(spec: Tree, kind: str, causes: Causes) -> None:
    if spec.get("restartPolicy") != "Always":
        path = "spec.template.spec.restartPolicy"
        causes.append(unsupported(path, spec.get("restartPolicy", ""), ("Always",)))
    if "activeDeadlineSeconds" in spec:
        fault = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden("spec.template.spec.activeDeadlineSeconds", fault))


def deployment(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, causes)
    not_negative(spec, ("replicas",), causes, "spec")
    matching = _selector(spec, "deployment", causes)
    if matching is None:
        causes.append(invalid("spec.selector", spec["selector"], "invalid label selector"))
    else:
        _template(spec, matching, "ReplicaSet", causes)
    _deployment_strategy(spec["strategy"], causes)
    not_negative(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), causes, "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    _same_selector(spec, old, causes)


def replica_set(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, causes)
    not_negative(spec, ("replicas", "minReadySeconds"), causes, "spec")
    matching = _selector(spec, "deployment", causes)
    if matching is None:
        causes.append(invalid("spec.selector", spec["selector"], "invalid label selector"))
    else:
        _template(spec, matching, "ReplicaSet", causes)
    _same_selector(spec, old, causes)


def _head(tree: Tree, old: Tree | None, causes: Causes, name: names.OutputFormat = names.subdomain) -> None:
    if old is None:
        metadata.validate_create(tree["metadata"], causes, namespaced=True, name=name)
    else:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)


def _same_selector(spec: Tree, old: Tree | None, causes: Causes) -> None:
    if old is not None:
        causes += immutable("spec.selector", spec.get("selector"), old["spec"].get("selector"))


def _deployment_strategy(strategy: Tree, causes: Causes) -> None:
    path, kind, rolling = "spec.strategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            fault = "may not be specified when strategy `type` is 'Recreate'"
            causes.append(forbidden(f"{path}.rollingUpdate", fault))
    elif kind == "RollingUpdate":
        _rolling_deployment(rolling or {}, causes, f"{path}.rollingUpdate")
    else:
        shown = {"Type": kind, "RollingUpdate": _rolling_shown(rolling)}
        causes.append(unsupported(path, shown, ("Recreate", "RollingUpdate")))


def _rolling_deployment(rolling: Tree, causes: Causes, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    count_or_percent(unavailable, causes, f"{path}.maxUnavailable")
    count_or_percent(surge, causes, f"{path}.maxSurge")
    if not number_of(unavailable) and not number_of(surge):
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    at_most_all(unavailable, causes, f"{path}.maxUnavailable")


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


def stateful_set(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, causes, names.label)
    _stateful_strategy(spec, causes)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field, policy in retention.items():
        if policy not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            causes.append(unsupported(path, policy, ("Retain", "Delete")))
    not_negative(spec, ("replicas", "minReadySeconds"), causes, "spec")
    start = (spec.get("ordinals") or {}).get("start", 0)
    if start < 0:
        causes.append(invalid("spec.ordinals.start", start, NOT_NEGATIVE))
    if old is None and spec.get("serviceName"):
        causes += each("spec.serviceName", spec["serviceName"], names.label(spec["serviceName"]))
    _stateful_template(spec, causes)
    if old is not None and _fixed(spec) != _fixed(old["spec"]):
        fault = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        causes.append(forbidden("spec", fault))


def _fixed(spec: Tree) -> Tree:
    return {name: value for name, value in spec.items() if name not in _STATEFUL_FREE}


def _stateful_strategy(spec: Tree, causes: Causes) -> None:
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    strategy = spec["updateStrategy"]
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        _rolling_stateful(rolling or {}, causes, "spec.updateStrategy.rollingUpdate")
    elif kind == "OnDelete":
        if rolling is not None:
            shown = _rolling_stateful_shown(rolling)
            fault = "only allowed for updateStrategy 'RollingUpdate'"
            causes.append(invalid("spec.updateStrategy.rollingUpdate", shown, fault))
    else:
        shown = {"Type": kind, "RollingUpdate": _rolling_stateful_shown(rolling)}
        causes.append(invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))


def _rolling_stateful_shown(rolling: Tree | None) -> Any:
    if rolling is None:
        return None
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


def _rolling_stateful(rolling: Tree, causes: Causes, path: str) -> None:
    not_negative(rolling, ("partition",), causes, path)
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        at = f"{path}.maxUnavailable"
        count_or_percent(unavailable, causes, at)
        if not number_of(unavailable):
            causes.append(invalid(at, unavailable, "cannot be 0"))
        at_most_all(unavailable, causes, at)


def _stateful_template(spec: Tree, causes: Causes) -> None:
    matching = _selector(spec, "statefulset", causes)
    if matching is None:
        causes.append(invalid("spec.selector", spec["selector"], ""))
    else:
        template = _with_claims(spec)
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not matching.empty and not matching.matches(labels):
            causes.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
        pods.template(template, causes, "spec.template")
    _always(spec["template"]["spec"], "StatefulSet", causes)


def _with_claims(spec: Tree) -> Tree:
    """The template as its pods have it: with a volume for each claim, and with their own names."""
    template: Tree = spec["template"]
    claims = {claim["metadata"].get("name", ""): claim for claim in spec.get("volumeClaimTemplates") or ()}
    held = [volume for volume in template["spec"].get("volumes") or () if volume.get("name", "") not in claims]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    pod = {name: value for name, value in template["spec"].items() if name not in ("hostname", "subdomain", "volumes")}
    return {**template, "spec": {**pod, "volumes": [*made, *held]}}


def daemon_set(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, causes)
    _same_selector(spec, old, causes)
    given = spec.get("selector")
    metadata.selector(given, causes, "spec.selector")
    matching = selectors.NOTHING if given is None else _compiled(given)
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if matching is not None and not matching.matches(labels):
        causes.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
    if given is not None and not given.get("matchLabels") and not given.get("matchExpressions"):
        causes.append(invalid("spec.selector", given, "empty selector is invalid for daemonset"))
    pods.template(spec["template"], causes, "spec.template")
    _always(spec["template"]["spec"], "DaemonSet", causes)
    not_negative(spec, ("minReadySeconds",), causes, "spec")
    _daemon_strategy(spec["updateStrategy"], causes)
    not_negative(spec, ("revisionHistoryLimit",), causes, "spec")


def _daemon_strategy(strategy: Tree, causes: Causes) -> None:
    path, kind, rolling = "spec.updateStrategy", strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        _rolling_daemons(rolling or {}, causes, f"{path}.rollingUpdate")
    elif kind != "OnDelete":
        shown = {"Type": kind, "RollingUpdate": _rolling_shown(rolling)}
        causes.append(unsupported(path, shown, ("RollingUpdate", "OnDelete")))


def _rolling_daemons(rolling: Tree, causes: Causes, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (count_or_percent, at_most_all):
        check(unavailable, causes, f"{path}.maxUnavailable")
        check(surge, causes, f"{path}.maxSurge")
    if number_of(unavailable) and number_of(surge):
        causes.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_of(unavailable) and not number_of(surge):
        causes.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def replication_controller(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    _head(tree, old, causes)
    not_negative(spec, ("minReadySeconds",), causes, "spec")
    labels = spec.get("selector") or {}
    if not labels:
        causes.append(required("spec.selector"))
    not_negative(spec, ("replicas",), causes, "spec")
    if "template" not in spec:
        causes.append(required("spec.template"))
        return
    _template(spec, selectors.from_labels(labels), "ReplicationController", causes)


def pod_template(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _head(tree, old, causes)
    pods.template(tree["template"], causes, "template")


def controller_revision(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
    metadata.validate_create(tree["metadata"], causes, namespaced=True, name=names.subdomain)
    if tree.get("revision", 0) < 0:
        causes.append(invalid("revision", tree["revision"], NOT_NEGATIVE))
    if old is not None:
        causes += immutable("data", tree.get("data"), old.get("data"))
    elif tree.get("data") is None:
        causes.append(required("data", "data is mandatory"))
    elif not isinstance(tree["data"], dict):
        causes.append(required("data", "data must be a valid JSON object"))
