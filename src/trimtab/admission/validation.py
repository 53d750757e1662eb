"""What an API server's schema cannot say about our kinds: refused with the field and what to write.

A schema knows one field at a time. Whether two subsets have one name, whether a patch still makes a pod, and whether
somebody else speaks for the same workload is asked here. A change that leaves the spec as it was is never refused: who
removes a label from an object that an older version took must not be made to mend it first.

Nothing depends on this hook being asked: a controller that finds an object unusable says so in its conditions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from trimtab.admission.server import Hook, admitted
from trimtab.api import cloneset, codec, unitedtopology
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, Status, StatusCause, StatusDetails
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.ranking.faults import faults
from trimtab.ranking.strategies import STRATEGIES, Factory

BUDGET = 2.0
PATH = "/validate"

Check = Callable[[Document, AdmissionRequest, Client], Awaitable[Sequence[InvalidError]]]
"""What is wrong with an object; what it says of others is read from the server."""


async def _united_topology(document: Document, request: AdmissionRequest, client: Client) -> Sequence[InvalidError]:
    topology = codec.decode(document.text, UnitedTopology)
    found = list(unitedtopology.problems(topology))
    if found:
        return found
    others = await client.list(UnitedTopology, namespace=request.namespace)
    return [
        InvalidError(
            "spec.targetRef",
            f"{other.metadata.name} divides {other.spec.target_ref.kind} {other.spec.target_ref.name} already; "
            "change that one, or delete it first",
        )
        for other in others.items
        if other.metadata.name != request.name and other.spec.target_ref == topology.spec.target_ref
    ]


async def _clone_set(document: Document, request: AdmissionRequest, _: Client) -> Sequence[InvalidError]:
    wanted = codec.decode(document.text, CloneSet)
    found = list(cloneset.problems(wanted))
    if request.old_object is not None:
        found += cloneset.immutable_field_problems(codec.decode(request.old_object.text, CloneSet), wanted)
    return found


async def _scale_down_policy(
    strategies: Mapping[str, Factory], document: Document, _request: AdmissionRequest, _client: Client
) -> Sequence[InvalidError]:
    return list(faults(codec.decode(document.text, ScaleDownPolicy), strategies))


def checks(strategies: Mapping[str, Factory] = STRATEGIES) -> Mapping[tuple[str, str], Check]:
    """All checks by group and kind; `strategies` are those that policies may name."""
    return {
        ("apps.kruise.io", "CloneSet"): _clone_set,
        ("apps.kruise.io", "UnitedTopology"): _united_topology,
        ("trimtab.dev", "ScaleDownPolicy"): partial(_scale_down_policy, strategies),
    }


CHECKS = checks()
"""With the strategies that come with Trimtab."""


class Validation:
    """Reviews of what people write into our kinds."""

    def __init__(self, client: Client, checks: Mapping[tuple[str, str], Check] = CHECKS) -> None:
        self._client = client
        self._checks = checks
        self.hooks: Sequence[Hook] = (Hook("validation", PATH, self.decide, BUDGET),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Yes, or no with every field that is wrong."""
        check = self._checks.get((request.kind.group, request.kind.kind))
        if check is None or request.object is None or _same_spec(request.object, request.old_object):
            return admitted(request)
        try:
            problems = await check(request.object, request, self._client)
        except InvalidError as error:
            problems = [error]
        return _refused(request, problems) if problems else admitted(request)


def _same_spec(new: Document, old: Document | None) -> bool:
    return old is not None and new.tree().get("spec") == old.tree().get("spec")


def _refused(request: AdmissionRequest, problems: Sequence[InvalidError]) -> AdmissionResponse:
    kind = request.kind
    told = "; ".join(str(problem) for problem in problems)
    causes = tuple(StatusCause(reason="FieldValueInvalid", message=each.reason, field=each.path) for each in problems)
    status = Status(
        status="Failure",
        message=f'{kind.kind} "{request.name}" is invalid: {told}',
        reason="Invalid",
        code=422,
        details=StatusDetails(name=request.name, group=kind.group, kind=kind.kind, causes=causes),
    )
    return AdmissionResponse(uid=request.uid, allowed=False, status=status)
