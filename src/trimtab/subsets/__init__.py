"""UnitedTopology: allocation of a workload's pods to subsets, recounts, and levels. Values in, values out.

Belongs here: every decision about subsets. Does not belong here: reading or writing a cluster and deletion costs as
numbers (both in `trimtab.unitedtopology`), finding a node for a pod (a callable is passed in). May import: the standard
library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.

**The status of the UnitedTopology is the only source of truth.** For each revision and subset it holds how many pods
are counted (`replicas`), how many are missing up to the limit (`missingReplicas`), which pods have a reservation and
have not been counted yet (`creating`), and for which pods a deletion was announced that has not been observed yet
(`deleting`). Every writer reads it, decides, and writes it conditionally on the resource version that was read. Five
rules make that safe however old a cache is; the tests explore every interleaving of them:

1. A reservation (an entry in `creating`) is written before its pod is admitted. The entry is removed in the write that
   counts the pod, or once an *uncached* read has shown, after the time in which any creation ends, that there is no
   such pod.
2. A pod enters `deleting` only while it is counted or reserved: the webhook reads the status, then reads the pod
   uncached (same UID, not terminating), then writes conditionally on the status read before.
3. An entry of `deleting` frees capacity only for a process that has read, uncached, that the pod is terminating or
   gone: a deletion that is refused in the end has freed nothing.
4. The entry is removed in the write that stops counting the pod, or is reverted if the pod still exists.
5. A recount is not written from a cache that is older than the one of the last recount (`countedVersion`).

A cache may trigger a read, and never decides: a webhook that has seen a pod fail, or be released, lists all pods
uncached with its next batch. Where the status was counted for another generation, or not at all, the first recount
lists uncached too, in the webhook as in the controller: reservations in a subset that was removed are held by nothing
but their pods, and there is no last recount that a cache could be older than. A subset that is renamed keeps its
reservations, and so does a UnitedTopology that is deleted and created again: every webhook has seen the last status.

**Modules**

| module          | content                                                                                          |
|-----------------|--------------------------------------------------------------------------------------------------|
| `apportionment` | limits as numbers: Webster's method                                                              |
| `reservations`  | the states of a reservation (reserved, counted, deleting, gone) as a table; the docs draw it     |
| `members`       | a pod of the target, reduced to the fields that counting uses                                    |
| `matching`      | the subset whose rules a pod without subset annotations meets                                    |
| `shaping`       | a pod with its subset's term, tolerations, patch and annotations                                 |
| `statuses`      | the status as a table of (revision, subset); the conditional patch that writes it                |
| `allocation`    | from a status to reservations for new pods; announced and reverted deletions                     |
| `recount`       | from existing pods and the old status to the new status, in one value                            |
| `levels`        | Guaranteed, BestEffort, Redundant                                                                |
| `rescheduling`  | Adaptive: pods that cannot be scheduled, subsets that were found full                            |
| `returning`     | Adaptive: pods that return to an earlier subset which has room again                             |
| `questions`     | decisions that ask whether a node can take a pod, and let their caller pause                     |

**Callers**

| event                              | calls                                                                         |
|------------------------------------|-------------------------------------------------------------------------------|
| a pod is created (webhook)         | `allocation.decide`, then `shaping.shape` for the chosen subset               |
| a pod is deleted (webhook)         | `allocation.announce`, and `revert_deletions` if it still exists              |
| the controller counts              | `members.member_of` for each pod, `recount.recount`; on `Stale` it requeues   |
| … and ranks                        | `levels.pod_levels`; with the target size, to prepare a scale-down            |
| … and reschedules (Adaptive)       | `rescheduling.unschedulable_since`, `reschedule`; written before the deletion |
| … and returns pods (Adaptive)      | `returning.decide_returns`; written before the eviction                       |
| every writer                       | `statuses.patch`: conditional on the version that was read                    |

For the keys in `Recount.overdue` the caller does an uncached read, after the status was read, and passes the result as
`absent` to the next recount. A pod that was matched is annotated after the status that counts it was written, never
before (rule 2).

`creating` is keyed by the identity in the pod's annotation `trimtab.dev/reservation`, prefixed by the pod's name if its
deletion was announced before it was counted (`name@reservation`); `deleting` is keyed by the pod's name.
`status.subsetStatuses` is about the revision that the workload creates pods of now (`status.revision`),
`status.otherRevisions` has the rest.
"""
