"""Deployments: a ReplicaSet for each template, and pods moved from the old ones to the new one.

templates      when two templates are equal, and the name of a ReplicaSet                           (pure)
replicasets    the new and the old ReplicaSets of a Deployment, and its limits                       (pure)
revisions      revision numbers, their annotations, and the history limit                            (pure)
rolling, recreate, proportional    the sizes of the ReplicaSets: a strategy each                     (pure)
progress       the status and its conditions                                                         (pure)
plan           all of it together                                                                    (pure)
controller     the loop
"""
