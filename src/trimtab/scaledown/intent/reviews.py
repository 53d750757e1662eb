"""Reviews of workloads that are about to shrink.

API servers send reviews of updates of Deployments, ReplicaSets, ReplicationControllers, CloneSets and the workloads
that the configuration names, and of their `/scale`, which is what kubectl, autoscalers and most programs use. A review
of `/scale` has a Scale alone: a name, a UID and two numbers, and nothing of the workload itself.

Admitted at once:

1. what is not a decrease, and a dry run;
2. a change of the template along with the size: that is a rollout, which replaces all pods anyway;
3. a CloneSet with newly named pods along with the size: the victims have been chosen;
4. a ReplicaSet that the controller of its owner resizes: the request to the Deployment, or to another workload that
   owns it, was held before;
5. an object that is being deleted.

Everything else is a `ScaleDownRequest`, which is held until `hold` returns, and then admitted with its warnings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from trimtab.admission.server import Hook, admitted
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.documents import Document, without_nulls
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.threads import read_beside
from trimtab.scaledown.intent.requests import BUDGET, HoldResult, ScaleDownRequest

NAME = "scale"
PATH = "/scale"

KINDS: Mapping[tuple[str, str], str] = {
    ("apps", "deployments"): "Deployment",
    ("apps", "replicasets"): "ReplicaSet",
    ("", "replicationcontrollers"): "ReplicationController",
    ("apps.kruise.io", "clonesets"): "CloneSet",
}
"""The built-in kinds that are reviewed, by group and resource."""
SKIPPED = "Trimtab did not plan this scale-down, and the controller's own order decides"
"""The warning for requests that are admitted without a decision."""
SENDING = 0.02
"""Seconds of the budget that are left for sending the answer, when a decision has to be given up."""
ROLLED_OUT = frozenset({"Deployment", "CloneSet"})
"""The built-in kinds whose pods are replaced when the template changes."""


Hold = Callable[[ScaleDownRequest], Awaitable[HoldResult]]
"""Returns when a request may be admitted."""


class _ScaleStrategy(Model):
    pods_to_delete: tuple[str, ...] = ()


class _Spec(Model):
    replicas: int | None = None
    template: Document | None = None
    scale_strategy: _ScaleStrategy = _ScaleStrategy()


class _Workload(Model):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


class ScaleReviews:
    """The hook that turns reviews into requests to scale down, and holds them."""

    def __init__(self, hold: Hold, *, budget: float = BUDGET, owners: ReplicaSetOwners = DEPLOYMENTS) -> None:
        self._hold = hold
        self._owners = owners
        self.hooks: Sequence[Hook] = (Hook(NAME, PATH, self.decide, budget - SENDING, skip_warning=SKIPPED),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit a review, after holding it if it is a request to scale down."""
        size = sum(len(each.text) for each in (request.object, request.old_object) if each is not None)
        scale_down = await read_beside(size, scale_down_request, request, self._owners)
        if scale_down is None:
            return admitted(request)
        result = await self._hold(scale_down)
        return admitted(request, *result.warnings)


def scale_down_request(request: AdmissionRequest, owners: ReplicaSetOwners = DEPLOYMENTS) -> ScaleDownRequest | None:
    """The request to scale down that a review is about; None where it is admitted at once.

    Raises InvalidError if the object that is updated cannot be read: whether it shrinks is then unknown.
    """
    kind = _kind(request.resource.group, request.resource.resource, owners)
    if kind is None or request.operation != "UPDATE" or request.dry_run or request.sub_resource not in ("", "scale"):
        return None
    old, new = _read(request.old_object), _read(request.object)
    if request.old_object is None and new is not None:
        raise InvalidError("request.oldObject", "cannot be read")
    if old is None or new is None:
        return None
    absent = 0 if request.sub_resource else 1  # a Scale leaves out 0, a workload's absent size means 1
    before, after = (absent if each.spec.replicas is None else each.spec.replicas for each in (old, new))
    if after >= before or (not request.sub_resource and _is_exempt(kind, old, new, owners)):
        return None
    metadata = old.metadata
    return ScaleDownRequest(
        kind=kind,
        namespace=request.namespace,
        name=request.name or metadata.name,
        uid=metadata.uid,
        before=before,
        after=after,
        user=request.user_info.username,
        resource_version=metadata.resource_version,
        arrived=request.arrived,
    )


def _kind(group: str, resource: str, owners: ReplicaSetOwners) -> str | None:
    named = (each.named_as for each in owners.custom)
    custom = {(each.group, each.plural): each.kind for each in named}
    return {**KINDS, **custom}.get((group, resource))


def _is_exempt(kind: str, old: _Workload, new: _Workload, owners: ReplicaSetOwners) -> bool:
    if old.metadata.deletion_timestamp is not None:
        return True
    if kind == "ReplicaSet" and owners.resizes(old.metadata):
        return True
    if kind == "CloneSet" and set(new.spec.scale_strategy.pods_to_delete) - set(old.spec.scale_strategy.pods_to_delete):
        return True
    return (kind in ROLLED_OUT or kind in owners.by_kind) and not _same(old.spec.template, new.spec.template)


def _same(one: Document | None, other: Document | None) -> bool:
    """Whether two templates are equal; the order of fields does not matter."""
    if one == other:
        return True
    return one is not None and other is not None and without_nulls(one.tree()) == without_nulls(other.tree())


def _read(document: Document | None) -> _Workload | None:
    """The fields of an object that matter here; None where it cannot be read."""
    if document is None:
        return None
    try:
        return codec.decode_object(document.text, _Workload)
    except InvalidError:
        return None
