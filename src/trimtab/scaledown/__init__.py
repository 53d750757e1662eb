"""Who goes first when a workload shrinks, carried to a cluster: ScaleDownPolicy.

Belongs here: which policy speaks for a workload (`policies`, pure), costs at the moment of a scale-down (`intents`),
costs kept current all the time (`continuous`), how they are written and taken back (`ledger`, `carriers`), what
strategies need from outside (`sources`), and what policies say of themselves (`controller`, `reports`).

At the moment of a scale-down, what `intents` does is decided by pure modules: who shrinks to what (`shares`), the plan
and its costs (`steps`, `deliveries`), what CloneSets look at before costs (`clonesets`), what became of it
(`verdicts`). `aftermath` sees every plan to its end, `settling` learns how long to wait, `turns` says whose turn it is.
All of them look at one `view` of the cluster.

What `continuous` keeps is decided by pure modules as well: the ranks of a group and its costs (`assessment`), with as
few changed as can be (`numbering`). `groups` finds who speaks for which pods, `controller` what wakes whom; `findings`
and `reports` become a policy's status, `plans` its last plan.

Does not belong here: who goes first (see `ranking`), and the admission edge that asks (see `webhooks`).

May import: what `controllers` may.
"""
