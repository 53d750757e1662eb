"""Pods created and bound end to end on a real control plane: Trimtab's scheduler and kube-scheduler by turns.

    controlplane.py  etcd and kube-apiserver from a folder, started by the lab's own code
    wire.py          requests and a watch that cost little, so that the clients of the measurement do not slow it down
    cluster.py       5,000 nodes, and pods of each kind of constraint
    contenders.py    the processes that are compared, each alone while it is measured
    accounting.py    Trimtab as a process that counts the CPU time of its own parts: decisions, JSON, TLS and others
    turns.py         one turn: from the first creation until a watch has shown the last pod on a node
    comparison.py    all turns, and their medians

The limit is measured in the same way: the clients bind each pod to the next node themselves, without a decision.
"""
