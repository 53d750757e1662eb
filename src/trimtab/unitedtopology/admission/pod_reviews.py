"""A pod is about to be created: its UnitedTopology gives it a place, and the subset shapes it.

Admitted as it is: a pod without an owner that has subsets; one for which no subset is left; one that has its place
already (a review that is repeated because another webhook changed the pod); and, by the edge, one for which there was
no answer in time. The controller finds those that were let go, and counts them where they are.

A dry run is answered as a pod would be, from what is known, and reserves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from trimtab.admission.server import Hook, admitted
from trimtab.api import annotations as keys
from trimtab.api import codec, times
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.annotations import DELETION_COST, SubsetAnnotations
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.clocks import Clock
from trimtab.kube.stores import Object, key_of
from trimtab.ranking.costs import Band, Level
from trimtab.subsets import allocation, shaping, statuses
from trimtab.subsets.allocation import Applicant
from trimtab.subsets.members import revision_of
from trimtab.unitedtopology.admission.status_batcher import Patience, Placed, Rounds
from trimtab.unitedtopology.admission.topologies import Topologies

NAME = "pods"
PATH = "/pods"
BUDGET = 1.0
"""Seconds in which a pod has its place, or goes on without."""
_DIGITS = 12
"""How much of a review's UID tells reservations of one UnitedTopology apart."""

Simulate = Callable[[JSON, str], bool]
"""Whether a pod, as it would be shaped, finds a node in the cluster. The second argument is its namespace."""
Tell = Callable[[Object, str, str], None]
"""Tells people what happened to an object: which one, a reason in one word, a sentence."""


class _Pod(Model):
    metadata: ObjectMeta = ObjectMeta()


class Shaping(Protocol):
    """The pod as one of the subsets would shape it."""

    def __call__(self, subset: int) -> JSON:
        """Raises InvalidError where the subset's patch does not apply."""
        ...


class PodReviews:
    """The hook of pods that are created."""

    def __init__(
        self,
        topologies: Topologies,
        rounds: Rounds,
        clock: Clock,
        *,
        simulate: Simulate | None = None,
        tell: Tell | None = None,
        budget: float = BUDGET,
    ) -> None:
        """Without `simulate`, an Adaptive UnitedTopology takes the first subset with room, as a Fixed one does."""
        self._topologies = topologies
        self._rounds = rounds
        self._clock = clock
        self._simulate = simulate
        self._tell = tell
        self.hooks: Sequence[Hook] = (Hook(NAME, PATH, self.decide, budget),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit, with a place in a subset if there is one."""
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return admitted(request)
        pod = codec.decode(request.object.text, _Pod)
        topology = await self._topologies.governing(pod.metadata, request.namespace)
        if topology is None:
            return admitted(request)
        return await self._place(request, pod.metadata, request.object.tree(), topology)

    def let_go(self, request: AdmissionRequest, reason: str) -> None:
        """Tell of a pod that was admitted without a decision."""
        metadata = codec.decode(request.object.text, _Pod).metadata if request.object is not None else ObjectMeta()
        topology = self._topologies.known(metadata, request.namespace)
        if topology is not None and self._tell is not None:
            name = request.name or metadata.generate_name
            self._tell(topology, "PodLetGo", f"pod {name} was admitted without a subset: {reason}")

    async def _place(
        self, request: AdmissionRequest, metadata: ObjectMeta, tree: JSON, topology: UnitedTopology
    ) -> AdmissionResponse:
        a_key = key_of(topology)
        if self._has_place(metadata, topology):
            return admitted(request)
        reservation = f"{metadata.generate_name or request.name}{request.uid.replace('-', '')[-_DIGITS:]}"

        def shaped(subset: int, by: UnitedTopology = topology) -> JSON:
            chosen = by.spec.subsets[subset]
            return _priced(
                shaping.shape(tree, chosen, SubsetAnnotations(by.metadata.name, chosen.name, reservation)), by, subset
            )

        fits = self._fits(topology, shaped, request.namespace)
        applicant = Applicant(reservation, revision_of(metadata), fits, swayed=_is_swayed(tree))
        if request.dry_run:
            placed: Placed | None = self._foretold(topology, applicant)
        else:
            placed = await self._rounds.reserve(a_key, applicant)
        if placed is None or placed.subset is None:
            return admitted(request)
        try:
            return _changed(request, tree, shaped(placed.subset, placed.topology))
        except InvalidError as error:
            self._rounds.withdraw(a_key, reservation)
            self._complain(topology, metadata, error)
            return admitted(request)

    def _has_place(self, metadata: ObjectMeta, topology: UnitedTopology) -> bool:
        mark = keys.subset_annotations(metadata.annotations)
        current = self._rounds.current(key_of(topology))
        if mark is None or mark.topology != topology.metadata.name or current is None:
            return False
        row = statuses.Table(current).row(revision_of(metadata), mark.subset)
        return row is not None and mark.reservation in row.creating

    def _fits(self, topology: UnitedTopology, shaped: Shaping, namespace: str) -> Callable[[int], bool]:
        """Whether the pod finds a node in a subset; each is tried once, however often the round is repeated. Of one
        that was added to the spec meanwhile nothing is known: yes in doubt."""
        strategy = topology.spec.schedule_strategy
        disabled = strategy.adaptive is not None and strategy.adaptive.disable_simulation_schedule
        simulate = self._simulate
        if simulate is None or strategy.type != "Adaptive" or disabled:
            return allocation.anywhere

        verdicts: dict[int, bool] = {}

        def fits(subset: int) -> bool:
            if subset not in verdicts:
                verdicts[subset] = subset >= len(topology.spec.subsets) or tried(subset)
            return verdicts[subset]

        def tried(subset: int) -> bool:
            try:
                return simulate(shaped(subset), namespace)
            except InvalidError:
                return False

        return fits

    def _foretold(self, topology: UnitedTopology, applicant: Applicant) -> Placed | None:
        current = self._rounds.current(key_of(topology)) or topology
        if not statuses.counted(current):
            return None
        with Patience(self._clock) as patience:
            made = allocation.allocate(current, [applicant], now=self._now(), hurry=patience.is_over)
        return Placed(current, made.choices[applicant.reservation])

    def _complain(self, topology: UnitedTopology, metadata: ObjectMeta, error: InvalidError) -> None:
        if self._tell is not None:
            told = f"pod {metadata.name or metadata.generate_name} was admitted without a subset: {error}"
            self._tell(topology, "PatchFailed", told)

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


def _priced(pod: JSON, topology: UnitedTopology, subset: int) -> JSON:
    """With the deletion cost of its level, so that nobody has to write to the pod once more: who is given a place
    within a maximum is Guaranteed. A cost that the template has is its author's."""
    subsets = topology.spec.subsets
    annotations = pod["metadata"]["annotations"]
    if subsets[subset].max_replicas is not None and DELETION_COST not in annotations:
        cost = str(Band(Level.GUARANTEED, subset, len(subsets)).centre)
        annotations.update({DELETION_COST: cost, keys.SUBSET_COST: cost})
    return pod


def _is_swayed(pod: JSON) -> bool:
    """Whether pods of its kind, by being placed, can make room for it elsewhere: to keep level, or to be near."""
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    return bool(spec.get("topologySpreadConstraints") or affinity.get("podAffinity"))


def _changed(request: AdmissionRequest, before: JSON, after: JSON) -> AdmissionResponse:
    patch = codec.encode(shaping.difference(before, after))
    return AdmissionResponse(uid=request.uid, allowed=True, patch=patch, patch_type="JSONPatch")
