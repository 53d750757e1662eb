"""Printers: the tables that `kubectl get` prints.

    tables      the columns and cells of every built-in kind
    cells       what rows are made of: names, ages, labels, selectors
    pods, workloads, cluster    the rows of these kinds; pod_status computes the status of a pod
    custom      the columns of custom kinds, by JSONPath (jsonpaths)

Belongs here: what a table shows. Does not belong here: which response format is used (`verbs.negotiation`).
"""
