"""UnitedTopology: how a workload's pods are divided, counted and ordered. Values in, values out.

Belongs here: every decision about subsets. Does not belong here: reading or writing a cluster (`webhooks.pods`,
`webhooks.deletions`, `controllers.unitedtopology`), placing a pod (a callable is handed in), costs as numbers
(`ranking.costs`). May import: the standard library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.

**The one truth is the status of the UnitedTopology.** For each revision and subset it says how many pods are counted
(`replicas`), how many are missing up to the limit (`missingReplicas`), who was given a place and has not been seen yet
(`creating`), and whose deletion was asked for and has not been seen yet (`deleting`). Whoever changes it reads it,
decides, and writes it conditionally on the version that was read. Five rules make that safe with any cache as old as it
likes; the tests explore every interleaving of them:

1. A place is reserved (entry in `creating`) before its pod is admitted. The entry goes in the write that counts the
   pod, or once a *live* read has shown, after the time in which any creation ends, that there is no such pod.
2. A pod enters `deleting` only while it is counted or reserved: the webhook reads the status, then reads the pod live
   (same UID, not terminating), then writes conditionally on the status read before.
3. An entry of `deleting` makes room only for whoever has read live that the pod is terminating or gone: a deletion that
   is refused in the end has given nothing away.
4. The entry goes in the write that stops counting the pod, or is taken back if the pod lives on.
5. A recount is not written from a cache that is older than the one the last count was made from (`countedVersion`).

**The map**

| module          | what                                                                                             |
|-----------------|--------------------------------------------------------------------------------------------------|
| `apportionment` | limits as numbers: Webster's method                                                               |
| `reservations`  | the life of a place (reserved, seen, deleting, gone) as a table, from which the docs draw it      |
| `marks`         | what a pod carries: its UnitedTopology, subset and reservation                                    |
| `members`       | a pod of the target, as far as counting looks at it                                               |
| `matching`      | the subset whose rules an unmarked pod meets                                                      |
| `shaping`       | the pod as a subset wants it: term, tolerations, patch, marks                                     |
| `statuses`      | the status as a table of (revision, subset); the conditional patch that writes it                 |
| `allocation`    | from a status to places for new pods; deletions announced and taken back                          |
| `recount`       | from live pods and the old status to the new status, in one value                                 |
| `levels`        | Guaranteed, BestEffort, Redundant                                                                 |
| `rescheduling`  | Adaptive: pods that wait too long, subsets that were found full                                   |

**What the controller and the webhooks call**

    apportionment.limits(subsets: Sequence[Subset], replicas: int) -> tuple[int | None, ...]

    marks.TOPOLOGY, marks.SUBSET, marks.RESERVATION: annotation keys
    marks.Mark(topology: str, subset: str, reservation: str = "")
    marks.read(annotations: Mapping[str, str]) -> Mark | None
    marks.written(mark: Mark) -> dict[str, str];  marks.erased() -> dict[str, None]    # for a merge patch

    members.revision_of(metadata: ObjectMeta) -> str    # the owning ReplicaSet's UID, or the CloneSet's revision hash
    members.Member(name, uid, revision, subset, reservation, active, ready, created, version, mark, matched)
    members.member_of(pod: Pod, topology: UnitedTopology, node: Node | None) -> Member
        # `subset` is the mark's if that subset exists, else the one matched, else ""; `matched` says that it was
        matched, so that # the controller marks the pod (after the status that counts it is written, never before: rule
        2)

    matching.match(pod: Pod, node: Node | None, subsets: Sequence[Subset]) -> int | None shaping.shape(pod: JSON,
    subset: Subset, mark: Mark) -> JSON          # raises InvalidError where the patch does not apply

    recount.Observed(members: Sequence[Member], replicas: int, revision: str, version: str, absent: Collection[str] =
    ())
        # replicas: the workload's size; revision: the one whose pods it creates now; version: how far the pods'
        informer # has seen (`Informer.version`); absent: reservations that a live read, made after the status was read,
        did not find
    recount.recount(topology: UnitedTopology, observed: Observed, *, now: datetime) -> Recount | Stale
    recount.Recount(status: UnitedTopologyStatus, expired: tuple[Entry, ...], taken_back: tuple[Entry, ...],
                    overdue: tuple[str, ...], recheck: float | None)
        # overdue: reservations to look for live and to hand in as `absent` next time (the read must come after the
        # status was read); expired, taken_back: for events; recheck: seconds until time alone changes the answer
    recount.Stale(version: str)      # the cache must first see that version: write nothing, come back

    levels.Standing(level: Level, subset: int)    # Level values are the names of ranking.costs.Level
    levels.standings(subsets: Sequence[Subset], members: Iterable[Member], replicas: int) -> dict[str, Standing]
        # by pod name, each revision for itself; give the size that is aimed at as `replicas` to plan a scale-down;
        # members without a subset have no standing
        # as a cost: Band(costs.Level(standing.level.value), standing.subset, len(subsets)).centre

    rescheduling.unschedulable_since(pod: Pod) -> datetime | None
    rescheduling.moved(topology: UnitedTopology, member: Member, *, now: datetime) -> UnitedTopologyStatus | None
        # enters the pod in `deleting`, counts missingReschedule on the next subset with room, and remembers the subset
        # as full (`shortages`) for a while that doubles; None if there is nowhere else to go. Write it, then delete the
        # pod by UID

    statuses.patch(topology: UnitedTopology, status: UnitedTopologyStatus) -> JSON | None
        # merge patch for the `status` subresource, conditional on topology's resourceVersion; None if nothing changes

`creating` is keyed by the identity stamped on the pod (`trimtab.dev/reservation`), and by its name once its deletion
was announced before it was counted; `deleting` by the pod's name. `status.subsetStatuses` is about the revision that
the workload creates pods of now (`status.revision`), `status.otherRevisions` has the rest.
"""
