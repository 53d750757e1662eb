"""Deployments: a ReplicaSet for each template, and pods moved from the old ones to the new one.

templates      when two templates are the same, and what a ReplicaSet is called after one           (pure)
fleets         the ReplicaSets of a Deployment, the new one and the old ones, and its limits         (pure)
revisions      how revisions are count_status, what a ReplicaSet's annotations say, which are expired   (pure)
rolling, recreate, proportional    which sizes the ReplicaSets get: a strategy each                  (pure)
progress       the status and its conditions                                                         (pure)
plan           all of it together                                                                    (pure)
controller     the loop
"""
