"""The UnitedTopology feature: pods of an existing workload are allocated to subsets.

Belongs here: everything that reads or writes the cluster for a UnitedTopology. `admission` is the half that runs in the
webhooks, `controller` the half that runs in the leader. Both use `view` (caches), `targets`, `readiness` (whether a
UnitedTopology is in effect), `costs` and `levels` (annotations and deletion costs of pods), `pod_annotator` (writes
them) and `metrics`.

Does not belong here: decisions about subsets (see `trimtab.subsets`), deletion costs of policies and plans (see
`trimtab.scaledown`), the HTTPS server of the webhooks (see `trimtab.admission`).

May import: `trimtab.admission`, `trimtab.kube`, the pure packages, `trimtab.snapshot`, `trimtab.api`, msgspec and
prometheus_client; no other feature.
"""
