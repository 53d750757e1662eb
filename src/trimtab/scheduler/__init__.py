"""A scheduler for the pods that name one of its profiles in `schedulerName`, on any control plane.

Belongs here: the queue of pods without a node, the decisions on them, assumed pods, binding, reports (events,
conditions, metrics), and the service that runs them.

Does not belong here: where a pod may go and which changes may help it (`placement`), the view of the cluster
(`snapshot`), and the client of the API server (`kube`).

May import: the standard library, msgspec, numpy, prometheus-client, `trimtab.kube`, `trimtab.placement`,
`trimtab.snapshot` and `trimtab.api`.

Where to start reading:

    configuration → service → state → queue → unschedulable → queuedpods
                            ↘ binding, bursts, reports, metrics

`Service` connects informers, state and API server. `SchedulerState` holds what is known and makes the decisions,
without I/O and without waiting: every method returns at once, so no event comes between a decision and its effect. All
state is in memory and is rebuilt from the API server at the start.
"""
