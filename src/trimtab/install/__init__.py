"""What a cluster needs for Trimtab to run in it: the objects, as values, and the way back.

Belongs here: manifests (definitions, access, webhook configurations, deployments, protection of costs), what an
installation was told (`options`), where it lives (`namespaces`), and taking it all away again (`removal`).

Does not belong here: printing and asking, which are the command line's (`cli.install`).

May import: `webhooks` and `controllers` for the names and paths that must agree with them, `kube`, `api` and the
standard library.

    options ──→ manifests.everything(options) ──→ kubectl apply -f -
"""
