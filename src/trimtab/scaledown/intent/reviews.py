"""A workload is about to shrink: what a review says of that, and who is told.

Reviews come of updates of Deployments, ReplicaSets, ReplicationControllers and CloneSets, and of updates of their
`/scale`, which is how kubectl, autoscalers and most programs do it. A review of `/scale` shows a Scale alone: a name,
a UID and two numbers. Of the workload itself nothing is in it.

Admitted at once, without anybody being told:

1. what is not a decrease, and a dry run;
2. a change of the template along with the size: that is a rollout, which replaces all pods anyway;
3. a CloneSet with newly named pods along with the size: who goes has been decided;
4. a ReplicaSet that its Deployment's controller resizes: the request to the Deployment was held before;
5. an object that is being deleted.

Everything else is an `Intent`, and `hold` decides how long the request waits, and what its user is told. It is always
admitted: nobody is kept from scaling.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trimtab.admission.server import Hook, admitted
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model

NAME = "scale"
PATH = "/scale"
BUDGET = 2.0
"""Seconds; an API server is told to wait a second longer."""

KINDS: Mapping[tuple[str, str], str] = {
    ("apps", "deployments"): "Deployment",
    ("apps", "replicasets"): "ReplicaSet",
    ("", "replicationcontrollers"): "ReplicationController",
    ("apps.kruise.io", "clonesets"): "CloneSet",
}
"""What is looked at, by group and resource."""
ROLLED_OUT = frozenset({"Deployment", "CloneSet"})
"""The kinds whose pods are replaced when the template changes."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Somebody wants a workload to shrink. Nothing in it has been checked."""

    kind: str
    namespace: str
    name: str
    uid: str
    before: int
    after: int
    user: str = ""


class Held(Protocol):
    """What came of holding a request."""

    @property
    def warnings(self) -> Sequence[str]:
        """What its user is told."""
        ...


Hold = Callable[[Intent], Awaitable[Held]]


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
    """The hook that turns reviews into intents."""

    def __init__(self, hold: Hold, *, budget: float = BUDGET) -> None:
        self._hold = hold
        self.hooks: Sequence[Hook] = (Hook(NAME, PATH, self.decide, budget),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit, after whatever is to be done first."""
        intent = intent_of(request)
        if intent is None:
            return admitted(request)
        held = await self._hold(intent)
        return admitted(request, *held.warnings)


def intent_of(request: AdmissionRequest) -> Intent | None:
    """What a review wants, if that is to shrink a workload and concerns anybody."""
    kind = KINDS.get((request.resource.group, request.resource.resource))
    if kind is None or request.operation != "UPDATE" or request.dry_run or request.sub_resource not in ("", "scale"):
        return None
    old, new = _read(request.old_object), _read(request.object)
    if old is None or new is None:
        return None
    absent = 0 if request.sub_resource else 1  # a Scale leaves out 0, a workload's absent size means 1
    before, after = (absent if each.spec.replicas is None else each.spec.replicas for each in (old, new))
    if after >= before or (not request.sub_resource and _is_left_alone(kind, old, new)):
        return None
    metadata = old.metadata
    return Intent(
        kind=kind,
        namespace=request.namespace,
        name=request.name or metadata.name,
        uid=metadata.uid,
        before=before,
        after=after,
        user=request.user_info.username,
    )


def _is_left_alone(kind: str, old: _Workload, new: _Workload) -> bool:
    owner = old.metadata.controller
    if old.metadata.deletion_timestamp is not None:
        return True
    if kind == "ReplicaSet" and owner is not None and owner.kind == "Deployment":
        return True
    if kind == "CloneSet" and set(new.spec.scale_strategy.pods_to_delete) - set(old.spec.scale_strategy.pods_to_delete):
        return True
    return kind in ROLLED_OUT and not _same(old.spec.template, new.spec.template)


def _same(one: Document | None, other: Document | None) -> bool:
    """Whether two templates say the same; the order of fields says nothing."""
    if one == other:
        return True
    return one is not None and other is not None and _plain(one.tree()) == _plain(other.tree())


def _plain(value: Any) -> Any:
    """Without nulls: to Kubernetes they are as good as absent."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if part is not None}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _read(document: Document | None) -> _Workload | None:
    """What is looked at of an object; an object that cannot be read is nobody's intent."""
    if document is None:
        return None
    try:
        return codec.decode(document.text, _Workload)
    except InvalidError:
        return None
