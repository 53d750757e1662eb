"""The objects that a cluster needs for Trimtab to run in it, as values, and their removal.

Belongs here: manifests (definitions, RBAC, webhook configurations, deployments, protection of costs), the options of an
installation (`options`), its namespace (`namespaces`), a kustomization of it (`kustomize`), other installations in the
same cluster (`installations`), and its removal (`removal`, `cleanup`).

Does not belong here: terminal input and output (`cli.install`).

May import: `admission` and the features for the names and paths that must agree with them, `kube` and below, jsonpatch,
yaml.

    options ──→ manifests.everything(options) ──→ kubectl apply -f -
"""
