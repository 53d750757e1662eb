"""A small cluster that runs on a laptop: enough Kubernetes to run, test and simulate everything Trimtab does.

Belongs here: `apiserver`, an API server that keeps its objects in memory; `nodes`, `workloads` and `scenarios`, which
use it; `supervisor`, which runs them as processes; `provisioning`, which creates Trimtab's objects; `cli`.

Does not belong here: anything of the product. Trimtab reaches the lab as it reaches a real cluster, over HTTPS with a
kubeconfig, so that one can replace the other.

May import of the product: `trimtab.api`, `trimtab.kube` and `trimtab.ranking` (with the snapshot that it takes).
"""

__version__ = "0.1.0"
