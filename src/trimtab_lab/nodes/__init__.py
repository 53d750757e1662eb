"""Simulated nodes: thousands of them in one process, on the lab's API server or on a real one.

Belongs here: the shape of a cluster, the nodes' registration and heartbeats, kubelets that run pods as far as an API
server can tell, nodes that fail and come back, drains, and the small part of the node controllers that a control plane
without a controller manager lacks.

Does not belong here: where pods go, and how many there are (schedulers and workload controllers are separate
programs), and anything of the API server: it is reached through `trimtab.kube` alone, so that any will do.

May import: the standard library, msgspec, pyyaml, `trimtab.kube` and `trimtab.api`.

The modules, from the outside to the inside:

    service         Nodes: everything together, until cancelled
    operations      what people do to nodes: fail, recover, cordon, uncordon, drain
    registration    Node objects and their status        simulated      which nodes are ours, and which have failed
    heartbeats      Leases                               settings    how often, how fast, how many at once
    kubelets        pods: one informer, one queue        addresses   IPs for nodes and pods
    lifecycle       what the node controllers would do   health      … and what they decide (pure)
    lives           the life of a pod (pure)             scripts     what annotations tell a pod to do (pure)
    statuses        a life as a pod's status (pure)      shapes      a cluster in YAML (pure)
    views           pods, nodes and leases as types

Everything is driven by levels: what a process has to know is in the objects themselves, so that one that is killed and
started again carries on with the same nodes and the same pods.
"""
