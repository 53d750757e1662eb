"""Feature: CloneSet. Keeps the desired number of pods, and on scale-down deletes those that leave the rest level.

For clusters without OpenKruise: if OpenKruise serves the kind, the controller does nothing and reports that.

kind_owner    which controller the kind belongs to: Trimtab or OpenKruise                       (pure)
observation   the pods of a CloneSet as columns                                                 (pure)
sizes         how many pods to create, to delete, to replace                                    (pure)
victims       which pods are deleted first, by the order of `trimtab.ranking`                   (pure)
ranks         costs: by rank, wait, or fall back                                                (pure)
plan          all of that together: the next step                                               (pure)
instances     the names of new pods, the same after a crash                                     (pure)
revisions     templates as ControllerRevisions                                                  (pure)
conflicts     CloneSets whose selectors overlap                                                 (pure)
status        counts and conditions                                                             (pure)
view          caches of the cluster
pods          creates and deletes pods
history       creates, renumbers and deletes ControllerRevisions
reporter      writes the status, records events
reconciler    observe, decide, act, report
controller    what runs, and what queues a CloneSet

Does not belong here: the victim order itself (`ranking`), and which policy applies to a CloneSet: `app` passes that in.

May import: `admission`, `kube` and below, msgspec, numpy, prometheus-client; no other feature.

**Crash-safe at any line.** Nothing is remembered that could not be found out again. Every deletion names the UID it was
decided for. The name of a new pod follows from its CloneSet and a number (`instances`), so that creating it twice
fails. A wait for ranks is written into the status. Writes that are not observed yet are tracked by expectations; a new
process needs none, because its list shows all that was written before.
"""
