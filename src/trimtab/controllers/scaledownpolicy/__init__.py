"""Who goes first when a workload shrinks, carried to a cluster: ScaleDownPolicy.

Belongs here: which policy speaks for a workload (`policies`, pure), costs at the moment of a scale-down (`intents`),
costs kept current all the time (`continuous`), how they are written and taken back (`ledger`, `carriers`), what
strategies need from outside (`sources`), and what policies say of themselves (`controller`, `reports`).

Does not belong here: who goes first (see `ranking`), and the admission edge that asks (see `webhooks`).

May import: what `controllers` may.
"""
