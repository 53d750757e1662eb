"""The controllers of Trimtab: each observes the cluster, decides, acts, and reports what came of it.

Belongs here: a package for each kind that Trimtab looks after. In each, what is decided stands in modules of pure
functions; what touches the cluster is thin.

Does not belong here: the order of victims, placement and subsets (`ranking`, `placement`, `subsets`, all pure); what an
API server asks (`webhooks`).

May import: `kube` and below, and prometheus-client. Controllers import neither `webhooks` nor `scheduler`, and not one
another: what one needs of another is handed in by `app`.
"""
