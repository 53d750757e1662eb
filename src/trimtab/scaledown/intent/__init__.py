"""Requests to scale down that are held: reviews → gate → plan → deliver. What happens afterwards is in `results`.

Belongs here: reading reviews (`reviews`), the checks (`gate`), waiting for what a plan needs (`planner`), writing costs
and waiting until they are seen (`delivery`), the component that runs them in order (`holder`), and the report of the
last plan (`plan_reports`).

Does not belong here: how plans are computed (see `replicaset_plans` and `ranking`), and tracking them (see `results`).
"""
