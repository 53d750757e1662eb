"""ScaleDownPolicy objects: which policy applies to a workload, their status, and the controller that keeps both.

Belongs here: workloads as policies refer to them (`workloads`), the configuration (`defaults`), the policy that applies
(`effective`; kept for each workload: `applied_policies`), workloads that select the same pods (`conflicts`), groups of
pods (`groups`), the status of a policy (`findings`, `statuses`, `continuous_plans`) and the `controller`. `workloads`,
`defaults`, `effective`, `conflicts` and `statuses` are pure.

Does not belong here: writing costs (see `continuous` and `intent`).
"""
