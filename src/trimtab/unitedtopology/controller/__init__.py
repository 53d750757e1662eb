"""The controller half of UnitedTopology: recounts statuses, annotates pods, reschedules pods.

Belongs here: the reconcile loop (`controller`), the events that start it (`triggers`), recounts (`counting`,
`reservation_ages`), Adaptive rescheduling (`rescheduling`, `unschedulable`), the label of namespaces
(`namespace_labels`).

Does not belong here: reservations for new pods (see `admission`).

May import: what `trimtab.unitedtopology` may, except `admission`.
"""
