"""The admission half of UnitedTopology: new pods get a reservation in a subset, deleted pods release it.

Belongs here: the hooks (`hooks`, `pod_reviews`, `deletion_reviews`), the UnitedTopology of a pod (`topologies`), the
group commit of reservations (`status_batcher`, `topology_batch`, `pending`, `allocator`, `pacing`) with its uncached
reads (`lookups`), the simulation of placements (`simulation`), and costs for a size that a held scale request is about
to set (`scaledown_preparation`).

Does not belong here: recounts by events, annotations of existing pods (see `controller`).

May import: what `trimtab.unitedtopology` may, except `controller`.

    review → `topologies` → `status_batcher` → `topology_batch`: `allocator` → one conditional write → response
"""
