"""Where may a pod go: filters, scores, topology spread, default constraints, profiles. Pure.

Belongs here: what makes a node possible for a pod, and which of the possible ones is best; each as a function of the
snapshot's columns, over all nodes at once and without sampling.

Does not belong here: queues, bindings and retries (see `scheduler`), and which pod goes first (see `ranking`).

May import: the standard library, msgspec, numpy, `trimtab.snapshot` and `trimtab.api`.
"""
