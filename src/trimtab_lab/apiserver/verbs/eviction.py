"""The eviction subresource: a delete that a PodDisruptionBudget may prevent.

1. A pod that is not running (pending, ended, being deleted) is deleted regardless of budgets.
2. A pod that several budgets select cannot be evicted.
3. A pod that is not ready can be evicted if its budget says so, or has enough healthy pods without it.
4. Otherwise the budget must allow a disruption, and its count is decreased before the pod is deleted. A controller
   keeps that count in the status of the budget; a budget that no controller has processed allows none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trimtab.api import codec, selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.admission.attributes import Attributes
from trimtab_lab.apiserver.kinds import objects
from trimtab_lab.apiserver.kinds.errors import StatusError, bad_request, not_found, status_error, success
from trimtab_lab.apiserver.storage.store import Entry, Tree, encode, key_of
from trimtab_lab.apiserver.verbs.binding import set_condition
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.delete_options import DeleteOptions, options_of
from trimtab_lab.apiserver.verbs.deletes import check_preconditions, remove
from trimtab_lab.apiserver.verbs.options import write_options
from trimtab_lab.apiserver.verbs.requests import Request, Response

COLLECTION = "policy/poddisruptionbudgets"

_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_TARGETED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_UNPROTECTED = ("Pending", "Succeeded", "Failed")


async def create(cluster: Cluster, request: Request) -> Response:
    """POST: evict a pod."""
    written = write_options(request.query, "CreateOptions")
    body, sent_as = request.body, request.content_type
    eviction = objects.read_subresource("policy/v1", "Eviction", body, sent_as, written.validation, request.warnings)
    if eviction["metadata"].get("name", "") != request.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = options_of(eviction.get("deleteOptions") or {})
    options = replace(options, dry_run=options.dry_run or written.dry_run)
    # As in Kubernetes, webhooks see a dry run that the query asks for; the options in the body are part of the object.
    await _call_webhooks(cluster, request, eviction, dry_run=written.dry_run)
    pod = _pod(cluster, request)
    if not _is_unprotected(pod.tree()):
        _check_budget(cluster, pod, dry_run=options.dry_run)
    await _evict(cluster, request, options)
    return Response(201, encode({**success(), "code": 201}))


async def _call_webhooks(cluster: Cluster, request: Request, eviction: Tree, *, dry_run: bool) -> None:
    kind = request.kind
    if cluster.webhooks.is_needed(kind, "CREATE", "eviction"):
        attributes = Attributes(
            "CREATE",
            kind,
            request.user,
            request.namespace,
            request.name,
            eviction,
            None,
            "eviction",
            dry_run,
            type=("policy/v1", "Eviction"),
        )
        await cluster.webhooks.mutate(attributes, request.warnings)
        await cluster.webhooks.validate(attributes, request.warnings)


def _pod(cluster: Cluster, request: Request) -> Entry:
    entry = cluster.store.collection("/pods").entries.get(key_of(request.namespace, request.name))
    if entry is None:
        raise not_found(request.kind, request.name)
    return entry


def _is_unprotected(pod: Tree) -> bool:
    return pod.get("status", {}).get("phase") in _UNPROTECTED or "deletionTimestamp" in pod["metadata"]


def _check_budget(cluster: Cluster, pod: Entry, *, dry_run: bool) -> None:
    budgets = [
        entry for entry in cluster.store.collection(COLLECTION).present(f"{pod.namespace}/") if _selects(entry, pod)
    ]
    if len(budgets) > 1:
        raise status_error(500, _SEVERAL, reason="")
    if budgets and not _can_evict_unready(budgets[0].tree(), pod.tree()):
        _record_disruption(cluster, budgets[0], pod.name, dry_run=dry_run)


def _selects(budget: Entry, pod: Entry) -> bool:
    selector = budget.tree()["spec"].get("selector")
    try:
        wanted = None if selector is None else codec.convert(selector, LabelSelector)
        return selectors.compile(wanted).matches(pod.labels)
    except InvalidError:
        return False


def _can_evict_unready(budget: Tree, pod: Tree) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    status = budget["status"]
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


def _record_disruption(cluster: Cluster, entry: Entry, pod: str, *, dry_run: bool) -> None:
    """Count a disruption in the status of a budget. Raises a StatusError of 429 if it allows none."""
    budget = entry.tree()
    status = budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        unknown = f"The disruption budget {entry.name} is still being processed by the server."
        raise _too_many_disruptions(unknown, retry=10)
    if status["disruptionsAllowed"] <= 0:
        raise _too_many_disruptions(_denial_message(entry.name, status))
    status["disruptionsAllowed"] -= 1
    now = cluster.now()
    if status["disruptionsAllowed"] == 0:
        _set_allowed_condition(budget, now)
    status.setdefault("disruptedPods", {})[pod] = now
    if not dry_run:
        cluster.store.replace(cluster.store.collection(COLLECTION), entry, budget)


def _set_allowed_condition(budget: Tree, now: str) -> None:
    """Set the condition that reports whether a disruption is allowed."""
    status = budget["status"]
    allowed = status["disruptionsAllowed"] > 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    before = [c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"]
    if before and before[0].get("status") == condition["status"]:
        condition["lastTransitionTime"] = before[0].get("lastTransitionTime", now)
    status["conditions"] = [*others, condition]


def _denial_message(name: str, status: Tree) -> str:
    conditions = status.get("conditions") or ()
    condition: Tree = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), {})
    message = condition.get("message") if condition.get("status") == "False" else ""
    if message and condition.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if status["currentHealthy"] <= status["desiredHealthy"]:
        wanted, there = status["desiredHealthy"], status["currentHealthy"]
        return f"The disruption budget {name} needs {wanted} healthy pods and has {there} currently"
    if message:
        return f"The disruption budget {name} does not allow evicting pods currently ({condition['reason']}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _too_many_disruptions(message: str, retry: int = 0) -> StatusError:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    return status_error(429, _VIOLATED, details=details | ({"retryAfterSeconds": retry} if retry else {}))


async def _evict(cluster: Cluster, request: Request, options: DeleteOptions) -> None:
    """Set the condition DisruptionTarget, then delete the pod. Webhooks were called for the eviction, and are not
    called for the delete."""
    if not options.dry_run:
        seen = _pod(cluster, request)
        check_preconditions(request.kind, seen, options)
        tree = seen.tree()
        set_condition(tree.setdefault("status", {}), dict(_TARGETED), cluster.now())
        updated = cluster.store.replace(cluster.store.collection("/pods"), seen, tree) if tree != seen.tree() else seen
        if options.version is not None and options.version == str(seen.version):
            options = replace(options, version=str(updated.version))
    pod = replace(request, target=replace(request.target, subresource=""))
    await remove(cluster, pod, options, call_webhooks=False)
