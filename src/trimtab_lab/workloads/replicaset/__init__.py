"""ReplicaSets and ReplicationControllers: exactly as many pods as desired.

podcounts    the pods of a workload, counted                                                    (pure)
replicas     how many pods to create or delete, and the status                                  (pure)
victims      which pods are deleted, by the order of `trimtab.ranking`                          (pure)
kinds        the two kinds, as one type
podcontrol   creates and deletes pods, with events
controller   the loop
metrics      the age ratio of victims, deleted pods
"""
