"""Reviews of pods that are about to be created: capacity is reserved in a subset, and the subset's changes are applied.

Admitted without changes: a pod whose owner has no UnitedTopology; one for which no subset has free capacity; one that
has a reservation already (the review is repeated because another webhook changed the pod); and, by the HTTPS server,
one for which no decision was made in time. The controller counts those where they are.

A review may be forged. So a pod whose owner does not exist with that UID, or wants no more pods than it has (see
`trimtab.subsets.demand`), is admitted without changes too, and counted: the answer shows nothing of a subset's patch.

A dry run gets the same answer from the cached status, and reserves nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from trimtab.admission.server import Hook, admitted, size_of
from trimtab.api import codec, times
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.annotations import DELETION_COST, SUBSET_COST, Reason, SubsetAnnotations, subset_annotations
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.api.unitedtopology import Level, UnitedTopology
from trimtab.kube.clocks import Clock
from trimtab.kube.stores import Object, key_of
from trimtab.kube.threads import read_beside
from trimtab.ranking.costs import Band
from trimtab.subsets import allocation, shaping, statuses
from trimtab.subsets.allocation import PodCreation
from trimtab.subsets.members import revision_of
from trimtab.unitedtopology.admission.allocator import SimulationBudget, allocate_in_slices
from trimtab.unitedtopology.admission.fits import Simulate, SimulatedFits
from trimtab.unitedtopology.admission.pending import Assignment
from trimtab.unitedtopology.admission.simulation import simulates
from trimtab.unitedtopology.admission.status_batcher import StatusBatcher
from trimtab.unitedtopology.admission.topologies import AppliedTopology, OwnerNotFoundError, Topologies
from trimtab.unitedtopology.metrics import RefusalReason

NAME = "pods"
PATH = "/pods"
BUDGET = 0.8
"""Seconds after which a pod is admitted without a subset: an API server waits for one second, so that every creation
ends within that, also while this process is stopped."""
_DIGITS = 12
"""How many digits of a review's UID make a reservation unique in one UnitedTopology."""

_PREFIX = 58
"""How many characters of `generateName` an API server uses for the name of a pod."""
_LABEL = 63
"""Characters of a label's value; before a pod is validated, a longer one is possible."""
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9.-]")

DefaultsFor = Callable[[str], Sequence[TopologySpreadConstraint]]
"""The default constraints of pods with this `schedulerName`."""
Report = Callable[[Object, Reason, str], None]
"""Records an event on an object, with a reason and a message."""


log = logging.getLogger(__name__)


def no_defaults(_: str) -> Sequence[TopologySpreadConstraint]:
    """No default constraints, whatever the scheduler."""
    return ()


class _Pod(Model):
    metadata: ObjectMeta = ObjectMeta()


class PodReviews:
    """The hook for creations of pods."""

    def __init__(
        self,
        topologies: Topologies,
        batcher: StatusBatcher,
        clock: Clock,
        *,
        simulate: Simulate | None = None,
        report: Report | None = None,
        allowed_fields: Collection[str] = (),
        defaults: DefaultsFor = no_defaults,
        budget: float = BUDGET,
    ) -> None:
        """`allowed_fields` are the privileged fields that patches may change.

        Without `simulate`, Adaptive takes the first subset with free capacity, as Fixed does."""
        self._topologies = topologies
        self._batcher = batcher
        self._clock = clock
        self._simulate = simulate
        self._report = report
        self._allowed_fields = allowed_fields
        self._defaults = defaults
        self.hooks: Sequence[Hook] = (Hook(NAME, PATH, self.decide, budget),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit, with a reservation in a subset if there is capacity."""
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return admitted(request)
        size = len(request.object.text)
        pod = await read_beside(size, codec.decode, request.object.text, _Pod)
        try:
            applied = await self._topologies.find(pod.metadata, request.namespace)
        except OwnerNotFoundError as error:
            log.info("pod %s in %s gets no subset: %s", _name(request, pod.metadata), request.namespace, error)
            self._batcher.metrics.record_refusals(RefusalReason.OWNER_NOT_FOUND)
            return admitted(request)
        if applied is None:
            return admitted(request)
        return await self._assign(request, pod.metadata, await read_beside(size, request.object.tree), applied)

    def report_undecided(self, request: AdmissionRequest, reason: str, metadata: ObjectMeta) -> None:
        """Record an event about a pod that was admitted without a decision."""
        topology = self._topologies.find_cached(metadata, request.namespace)
        if topology is not None and self._report is not None:
            message = f"pod {_name(request, metadata)} was admitted without a subset: {reason}"
            self._report(topology, Reason.ADMITTED_WITHOUT_SUBSET, message)

    async def _assign(
        self, request: AdmissionRequest, metadata: ObjectMeta, tree: JSON, applied: AppliedTopology
    ) -> AdmissionResponse:
        topology = applied.topology
        key = key_of(topology)
        if self._has_reservation(metadata, topology):
            return admitted(request)
        reservation = _reservation(metadata.generate_name or request.name, request.uid)

        def shaped(subset: int, by: UnitedTopology = topology) -> JSON:
            chosen = by.spec.subsets[subset]
            annotations = SubsetAnnotations(by.metadata.name, chosen.name, reservation)
            pod = shaping.shape(tree, chosen, annotations, allowed_fields=self._allowed_fields)
            return _with_cost(pod, by, subset)

        def changed(subset: int, by: UnitedTopology) -> AdmissionResponse:
            return _changed(request, tree, shaped(subset, by))

        fits = self._fits(topology, shaped, request)
        creation = PodCreation(
            reservation,
            revision_of(metadata)[:_LABEL],
            fits,
            is_affected_by_peers=_is_affected_by_peers(tree, self._defaults),
            owner=applied.owner,
        )
        if request.dry_run:
            assignment: Assignment | None = await self._predict(topology, creation)
        else:
            assignment = await self._batcher.reserve(key, creation)
        if assignment is None or assignment.subset is None:
            return admitted(request)
        try:
            return await read_beside(size_of(request), changed, assignment.subset, assignment.topology)
        except InvalidError as error:
            self._batcher.withdraw(key, reservation)
            self._report_patch(topology, metadata, error)
            return admitted(request)
        except asyncio.CancelledError:
            self._batcher.withdraw(key, reservation)
            raise

    def _has_reservation(self, metadata: ObjectMeta, topology: UnitedTopology) -> bool:
        annotations = subset_annotations(metadata.annotations)
        current = self._batcher.current(key_of(topology))
        if annotations is None or annotations.topology != topology.metadata.name or current is None:
            return False
        row = statuses.Table(current).row(revision_of(metadata)[:_LABEL], annotations.subset)
        return row is not None and annotations.reservation in row.creating

    def _fits(
        self, topology: UnitedTopology, shaped: Callable[[int], JSON], request: AdmissionRequest
    ) -> Callable[[int], bool]:
        """Whether the pod finds a node in a subset."""
        if self._simulate is None or not simulates(topology):
            return allocation.fits_anywhere
        return SimulatedFits(
            self._simulate,
            shaped,
            size=size_of(request),
            subsets=len(topology.spec.subsets),
            namespace=request.namespace,
            metrics=self._batcher.metrics,
        )

    async def _predict(self, topology: UnitedTopology, creation: PodCreation) -> Assignment | None:
        current = self._batcher.current(key_of(topology)) or topology
        if not statuses.is_counted(current):
            return None
        budget = SimulationBudget(self._clock)
        questions = allocation.decide(current, [creation], now=self._now(), is_out_of_time=budget.is_over)
        allocated = await allocate_in_slices(questions, budget, self._clock)
        return Assignment(current, allocated.choices[creation.reservation])

    def _report_patch(self, topology: UnitedTopology, metadata: ObjectMeta, error: InvalidError) -> None:
        if self._report is not None:
            message = f"pod {metadata.name or metadata.generate_name} was admitted without a subset: {error}"
            self._report(topology, Reason.PATCH_FAILED, message)

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


def pod_metadata(request: AdmissionRequest) -> ObjectMeta:
    """The metadata of the pod that a review is about; empty if there is none."""
    return ObjectMeta() if request.object is None else codec.decode_object(request.object.text, _Pod).metadata


def _name(request: AdmissionRequest, metadata: ObjectMeta) -> str:
    return (request.name or metadata.generate_name)[:_LABEL]


def _reservation(prefix: str, uid: str) -> str:
    """The identity of a reservation; of limited length, and of characters that its key in the status can have."""
    return _OTHER_CHARACTERS.sub("", prefix[:_PREFIX]) + _OTHER_CHARACTERS.sub("", uid.replace("-", "")[-_DIGITS:])


def _with_cost(pod: JSON, topology: UnitedTopology, subset: int) -> JSON:
    """Add the deletion cost of the pod's level, so that the pod need not be written once more: a pod within a maximum
    is Guaranteed. A cost of the template stays."""
    subsets = topology.spec.subsets
    annotations = pod["metadata"]["annotations"]
    if subsets[subset].max_replicas is not None and DELETION_COST not in annotations:
        cost = str(Band(Level.GUARANTEED, subset, len(subsets)).centre)
        annotations.update({DELETION_COST: cost, SUBSET_COST: cost})
    return pod


def _is_affected_by_peers(pod: JSON, defaults: DefaultsFor) -> bool:
    """Whether placing other pods can make a node fit for it: by spread constraints, or by pod affinity."""
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    if spec.get("topologySpreadConstraints") or affinity.get("podAffinity"):
        return True
    return any(each.when_unsatisfiable == "DoNotSchedule" for each in defaults(spec.get("schedulerName") or ""))


def _changed(request: AdmissionRequest, before: JSON, after: JSON) -> AdmissionResponse:
    patch = codec.encode(shaping.difference(before, after))
    return AdmissionResponse(uid=request.uid, allowed=True, patch=patch, patch_type="JSONPatch")
