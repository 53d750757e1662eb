"""The controllers of the lab's cluster: ReplicaSets, ReplicationControllers, Deployments and disruption budgets.

They do what kube-controller-manager 1.36 does, over HTTP and on any API server, so that the lab can replace a cluster
in tests. They must not run beside a controller manager.

Belongs here: `replicaset`, `deployment`, `disruption`, a package each; their settings (`options`); `service`, which
runs them; and `serving`, which serves their metrics.

Does not belong here: garbage collection and the lifecycle of namespaces, which the lab's API server does. The order of
victims is in `trimtab.ranking`.

May import: what `trimtab_lab` may, and `ranking`, `snapshot`, prometheus-client.

**The structure of a controller.** `controller.py` reads (from informers alone), acts and reports; decisions are pure
functions in the modules beside it. It keeps no state that it could not read again: killed at any line and restarted, it
continues from what the API server has. Every write is conditional on a resource version, or can safely be repeated.

    from trimtab_lab.workloads.service import Workloads

    await Workloads(client).run()       # until cancelled
"""
