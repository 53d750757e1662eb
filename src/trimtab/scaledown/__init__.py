"""Scale-downs: which pods are deleted first when a workload shrinks, by ScaleDownPolicy.

Belongs here:

- `policy`: which policy applies to a workload (`effective`, pure), its status, and the controller of policies.
- `intent`: requests to scale down that are held: gate → plan → deliver.
- `results`: what becomes of a delivered plan: tracking, misses, reverting costs.
- `continuous`: costs that are kept current at all times, for `delivery: Continuous` and the other carriers.
- `sources`: values that strategies need from outside the cache.
- `view`: the informers that all of them share.

Both deliveries write costs with `pod_costs`, which has the patches that apply and revert them. A plan is computed by
pure modules: the new size of each controller (`proportional`), the plan of each (`replicaset_plans`), the fewest costs
for it (`plan_costs`), and what CloneSets compare before costs (`clonesets`). `cost_writer` writes a plan's costs.

Does not belong here: the order of victims and the strategies (see `ranking`), the HTTPS server that receives reviews
(see `admission`), and the costs of subsets (see `unitedtopology`).

May import: `admission`, `kube`, the pure packages, `snapshot` and `api`; no other feature.
"""
