"""Validation of our kinds beyond what a CRD schema can express; a refusal names the field and what to write.

A schema checks one field at a time. This hook checks that subset names are unique, that a patch still yields a pod that
an API server accepts (see `patch_trials`), and that no other object has the same target. An update that does not change
the spec is always admitted: removing a label must not require fixing a spec that an older version accepted.

Nothing depends on this hook: a controller reports an invalid object in its conditions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from trimtab.admission.findings import Findings
from trimtab.admission.patch_trials import try_patches
from trimtab.admission.server import Hook, admitted
from trimtab.api import cloneset, codec, unitedtopology
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, Status, StatusCause, StatusDetails
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.client import Client
from trimtab.kube.threads import read_beside
from trimtab.ranking.faults import faults
from trimtab.ranking.strategies import STRATEGIES, Factory

BUDGET = 2.0
PATH = "/validate"

Check = Callable[[Document, AdmissionRequest, Client], Awaitable[Findings]]
"""Finds what is wrong with an object; objects that it refers to are read with the client."""


async def _united_topology(
    allowed_fields: Collection[str],
    owners: ReplicaSetOwners,
    document: Document,
    request: AdmissionRequest,
    client: Client,
) -> Findings:
    topology, problems = await read_beside(len(document.text), _read_topology, allowed_fields, owners, document)
    if problems:
        return Findings(problems)
    others = await client.list(UnitedTopology, namespace=request.namespace)
    taken = [
        InvalidError(
            "spec.targetRef",
            f"{other.metadata.name} already targets {other.spec.target_ref.kind} {other.spec.target_ref.name}; "
            "change that one, or delete it first",
        )
        for other in others.items
        if other.metadata.name != request.name and other.spec.target_ref == topology.spec.target_ref
    ]
    if taken:
        return Findings(taken)
    return await try_patches(
        topology, client, namespace=request.namespace, allowed_fields=allowed_fields, owners=owners
    )


def _read_topology(
    allowed_fields: Collection[str], owners: ReplicaSetOwners, document: Document
) -> tuple[UnitedTopology, list[InvalidError]]:
    topology = codec.decode_object(document.text, UnitedTopology)
    return topology, list(unitedtopology.problems(topology, allowed_fields=allowed_fields, owners=owners))


async def _clone_set(document: Document, request: AdmissionRequest, _: Client) -> Findings:
    old = request.old_object
    size = len(document.text) + (len(old.text) if old is not None else 0)
    return Findings(await read_beside(size, _clone_set_problems, document, old))


def _clone_set_problems(document: Document, old: Document | None) -> list[InvalidError]:
    wanted = codec.decode_object(document.text, CloneSet)
    problems = list(cloneset.problems(wanted))
    if old is not None:
        with suppress(InvalidError):  # one that cannot be read may be corrected
            problems += cloneset.immutable_field_problems(codec.decode_object(old.text, CloneSet), wanted)
    return problems


async def _scale_down_policy(
    strategies: Mapping[str, Factory],
    owners: ReplicaSetOwners,
    document: Document,
    _request: AdmissionRequest,
    _client: Client,
) -> Findings:
    return Findings(await read_beside(len(document.text), _policy_problems, strategies, owners, document))


def _policy_problems(
    strategies: Mapping[str, Factory], owners: ReplicaSetOwners, document: Document
) -> list[InvalidError]:
    return list(faults(codec.decode_object(document.text, ScaleDownPolicy), strategies, owners))


def checks(
    strategies: Mapping[str, Factory] = STRATEGIES,
    *,
    allowed_fields: Collection[str] = (),
    owners: ReplicaSetOwners = DEPLOYMENTS,
) -> Mapping[tuple[str, str], Check]:
    """All checks by group and kind; `strategies` are those that policies may name, `allowed_fields` the privileged
    fields that the patches of subsets may change, `owners` the kinds that own ReplicaSets, which can be targets."""
    return {
        ("apps.kruise.io", "CloneSet"): _clone_set,
        ("apps.kruise.io", "UnitedTopology"): partial(_united_topology, allowed_fields, owners),
        ("trimtab.dev", "ScaleDownPolicy"): partial(_scale_down_policy, strategies, owners),
    }


CHECKS = checks()
"""All checks, with Trimtab's own strategies."""


class Validation:
    """Reviews of created and updated objects of our kinds."""

    def __init__(self, client: Client, checks: Mapping[tuple[str, str], Check] = CHECKS) -> None:
        self._client = client
        self._checks = checks
        self.hooks: Sequence[Hook] = (Hook("validation", PATH, self.decide, BUDGET, refuses_unreadable=True),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit the object, or refuse it with every field that is wrong."""
        check = self._checks.get((request.kind.group, request.kind.kind))
        if check is None or request.object is None:
            return admitted(request)
        size = len(request.object.text)
        if await read_beside(size, _same_spec, request.object, request.old_object):
            return admitted(request)
        try:
            found = await check(request.object, request, self._client)
        except InvalidError as error:
            found = Findings([error])
        return _refused(request, found.problems) if found.problems else admitted(request, *found.warnings)


def _same_spec(new: Document, old: Document | None) -> bool:
    return old is not None and new.tree().get("spec") == old.tree().get("spec")


def _refused(request: AdmissionRequest, problems: Sequence[InvalidError]) -> AdmissionResponse:
    kind = request.kind
    message = "; ".join(str(problem) for problem in problems)
    causes = tuple(StatusCause(reason="FieldValueInvalid", message=each.reason, field=each.path) for each in problems)
    status = Status(
        status="Failure",
        message=f'{kind.kind} "{request.name}" is invalid: {message}',
        reason="Invalid",
        code=422,
        details=StatusDetails(name=request.name, group=kind.group, kind=kind.kind, causes=causes),
    )
    return AdmissionResponse(uid=request.uid, allowed=False, status=status)
