"""The controllers of the lab's cluster: ReplicaSets, ReplicationControllers, Deployments and disruption budgets.

They do what kube-controller-manager 1.36 does, over the wire and on any API server, so that the lab can stand in for a
cluster, and a cluster for the lab. (Where a cluster has a controller manager of its own, these must not run beside it.)

Belongs here: `replicaset`, `deployment`, `disruption`, a package each; what they share: the settings (`options`); and
`service`, which runs them.

Does not belong here: deleting what belongs to a deleted owner, and the life of namespaces: the lab's API server does
both. The order in which pods go is `trimtab.ranking`'s.

May import: what `lab` may, and `ranking`, `snapshot`, prometheus-client.

**The shape of a controller.** `controller.py` reads (from informers alone), acts and reports; what it decides stands
beside it in modules of pure functions. It remembers nothing that it could not find out again: killed at any line and
started anew, it goes on from what the API server has. Every write says which version it was decided on, or is one that
may happen twice without harm.

    from trimtab_lab.workloads.service import Workloads

    await Workloads(client).run()       # until cancelled
"""
