"""Which pods are deleted after a zone was added, and what Kubernetes alone would do."""

from trimtab.api.nodes import ZONE
from trimtab.api.times import parse_ns
from trimtab.ranking import Constraint, Workload, plan
from trimtab.testing.builders import cluster

hosts = {zone: [f"{zone}{number}" for number in range(10)] for zone in ("a", "b", "c")}
view = (
    cluster(*(f"{zone}: {' '.join(names)}" for zone, names in hosts.items()))
    .running(*hosts["a"], *hosts["b"], created="2026-01-01T00:00:00Z")
    .running(*hosts["c"], created="2026-01-09T00:00:00Z")
    .snapshot()
)
workload = Workload.of_all(view, constraints=[Constraint(ZONE)])
decided = plan(workload, view, replicas=20, now=parse_ns("2026-01-10T00:00:00Z"))

print(decided.sentence())
for victim in decided.victims[:3]:
    print(f"{victim.key} goes: {victim.because}")
