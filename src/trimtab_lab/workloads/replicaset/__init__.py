"""ReplicaSets, and ReplicationControllers, their elders: as many pods as are wanted, no more, no fewer.

census       the pods of a workload, count_status                                                    (pure)
replicas     how many pods to make or delete, and the status                                    (pure)
victims      which pods go, by the order of `trimtab.ranking`                                   (pure)
families     the two kinds, as one type
pods         pods made and deleted, with the events that tell of it
controller   the loop
metrics      how much older than the youngest pod the victims were
"""
