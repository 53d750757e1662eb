"""Subsets kept as they should be: UnitedTopology's controller.

Belongs here: what the controller sees (`view`, `targets`), what it decides (`verdicts`, `costs`, `levels`, `moves`, all
pure on top of `trimtab.subsets`), what it does (`controller`, `pods`, `namespaces`, and `foresight` before a workload
shrinks), and whether a pod would find a node (`simulation`), which the webhook asks.

Does not belong here: counting, allocation, levels (see `trimtab.subsets`), and admission (see `webhooks`).

May import: what `controllers` may.

    view → recount → one conditional write of the status → marks and costs on pods → pods that wait too long are moved

The status is written before the pods are: a pod's mark says that it is counted, so it must be counted first.
"""
