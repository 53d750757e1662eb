"""Simulated nodes: thousands of them in one process, on the lab's API server or on a real one.

Belongs here: the shape of a cluster, the registration and heartbeats of nodes, kubelets that run pods as far as an API
server can tell, failing nodes, drains, and the part of the node controllers that a control plane without a controller
manager lacks.

Does not belong here: scheduling and workload controllers, which are separate programs, and anything of the API server:
it is reached through `trimtab.kube` alone, so that any API server will do.

May import: the standard library, msgspec, pyyaml, `trimtab.kube` and `trimtab.api`.

The modules, from the outside to the inside:

    service         Nodes: runs everything below until cancelled
    operations      operations on nodes: fail, recover, cordon, uncordon, drain
    registration    Node objects and their status
    heartbeats      Leases
    kubelets        pods: one informer, one queue
    nodelifecycle   the work of the node controllers            health      … and their decisions (pure)
    simulatednodes  which nodes are simulated, which have failed
    addresses       IPs for nodes and pods                      settings    rates and timeouts
    podlifecycle    the lifecycle of a pod (pure)               scripts     the behaviour of a pod by annotations (pure)
    statuses        a lifecycle as a pod's status (pure)        shapes      a cluster in YAML (pure)
    nodegroups      the nodes of a shape file (pure)            shapefile   its fields and checks (pure)
    views           pods, nodes and leases as types

Everything is level-triggered: all state that must survive is in the objects themselves, so a process that is killed and
restarted continues with the same nodes and pods.
"""
