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

A cache may make somebody look, and never decides: a webhook that has seen a pod fail, or be released, counts all pods
live in its next round. Where the status was counted for another spec, or not at all, whoever counts first reads live,
webhook or controller: what was reserved in a subset that is gone is held by nothing but its pods, and there is no last
count that a cache could be older than.

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

**Who calls what**

| who                                | what                                                                         |
|------------------------------------|------------------------------------------------------------------------------|
| a pod is created (`webhooks.pods`) | `allocation.allocate`, then `shaping.shape` as the chosen subset wants it      |
| a pod is to go (`…deletions`)      | `allocation.announce`, and `take_back` if it lives on                         |
| the controller counts              | `members.member_of` for each pod, `recount.recount`; `Stale` means: come back |
| … and ranks                        | `levels.standings`; with the size that is aimed at, to plan a scale-down       |
| … and moves (Adaptive)             | `rescheduling.unschedulable_since`, `moved`; written before the pod is deleted |
| whoever writes                     | `statuses.patch`: conditional on the version that was read                    |

What `recount` calls overdue is looked for live, after the status was read, and handed in as `absent` the next time. A
pod that was matched is marked after the status that counts it was written, never before (rule 2).

`creating` is keyed by the identity stamped on the pod (`trimtab.dev/reservation`), with its name before that once its
deletion was announced before it was counted (`name@reservation`); `deleting` by the pod's name.
`status.subsetStatuses` is about the revision that the workload creates pods of now (`status.revision`),
`status.otherRevisions` has the rest.
"""
