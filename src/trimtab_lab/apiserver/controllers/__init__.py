"""Controllers: what the server does by itself, after and besides requests.

    workqueue          a queue of keys with one worker and retries
    garbage_collector  deletes objects whose owners are gone
    namespaces         first objects of new namespaces; contents of deleted ones
    definitions        serves the kinds of CustomResourceDefinitions
    bootstrap          the objects of a new cluster

Belongs here: what reacts to stored events by writing objects. Does not belong here: workload controllers
(`trimtab_lab.workloads`) and anything a request waits for (`verbs`). Imports `verbs` and the groups below it.
"""
