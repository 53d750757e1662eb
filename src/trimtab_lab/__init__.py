"""A small cluster that runs on a laptop: enough Kubernetes to run, test and simulate everything Trimtab does.

Belongs here: `apiserver`, an API server that keeps its objects in memory; the nodes, the workload controllers and the
scenarios that play on it.

Does not belong here: anything of the product. The product reaches the lab as it reaches a real cluster, over HTTPS with
a kubeconfig, so that the two can be exchanged.

May import of the product: `trimtab.api`, `trimtab.kube` and `trimtab.ranking` (with the snapshot that it takes).
"""

__version__ = "0.1.0"
