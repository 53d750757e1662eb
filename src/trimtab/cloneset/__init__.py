"""CloneSets: as many pods as are wanted, and of those that are too many, the ones go first that leave the rest level.

For clusters without OpenKruise: where that serves the kind, the controller stands back and says so.

presence      whose kind it is: ours, or somebody else's                                        (pure)
observation   the pods of a CloneSet as columns                                                 (pure)
sizes         how many pods to make, to delete, to replace                                      (pure)
victims       which pods go, by the order of `trimtab.ranking`                                  (pure)
ranks         costs: by rank, wait, or fall back                                                (pure)
plan          all of that together: what is done next                                           (pure)
instances     the names of new pods, the same after a crash                                     (pure)
revisions     templates as ControllerRevisions: which one is meant, which are forgotten         (pure)
rivals        CloneSets whose selectors overlap                                                 (pure)
reports       the status                                                                        (pure)
view          what is seen of the cluster
pods          pods made and deleted
history       ControllerRevisions made, renumbered and deleted
reconciler    observe, decide, act, report
controller    what runs, and what wakes it

Does not belong here: the order itself (`ranking`), and which policy speaks for a CloneSet: that is handed in.

May import: what `controllers` may.

**Crash-safe at any line.** Nothing is remembered that could not be found out again. Every deletion names the UID it was
decided for. The name of a new pod follows from its CloneSet and a number (`instances`), so that making it a second time
meets the first one. A wait for ranks is written into the status. What was written and is not seen yet is known from
expectations; a new process needs none, for its list shows all that was written before.
"""
