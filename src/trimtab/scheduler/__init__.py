"""A scheduling service for the pods whose `schedulerName` it serves, on any control plane.

Belongs here: the queue of pods that wait, the cycle that takes one and decides, assumed pods, binding, what is told to
people (events, conditions, metrics), and the service that runs it all.

Does not belong here: where a pod may go (`placement` decides, this package asks), what is known of the cluster
(`snapshot`), and how the API server is spoken to (`kube`).

May import: the standard library, msgspec, numpy, prometheus-client, `trimtab.kube`, `trimtab.placement`,
`trimtab.snapshot` and `trimtab.api`.

The way in, from the outside to the inside:

    configuration → service → cycle → queue → hints → changes
                            ↘ binding, reports, metrics

`Service` connects informers, the cycle and the API server. `Cycle` is what is known and decided, without a wire and
without waiting: every method returns at once, so a decision is never overtaken by an event. All state is in memory and
is rebuilt from the API server at the start: a process that dies loses nothing but time.
"""
