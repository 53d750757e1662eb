"""The objects of a new cluster: namespaces, two priority classes, and the Service of the API server."""

from __future__ import annotations

from trimtab_lab.apiserver.admission.users import AUTHENTICATED, User
from trimtab_lab.apiserver.storage.store import Tree
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.requests import Request, Target
from trimtab_lab.apiserver.verbs.writes import create_system_object

USER = User("system:apiserver", ("system:masters", AUTHENTICATED))

_PRIORITIES = "scheduling.k8s.io/v1"

OBJECTS: tuple[tuple[str, str, str, Tree], ...] = (
    *(
        ("v1", "namespaces", "", {"metadata": {"name": name}})
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ),
    (
        _PRIORITIES,
        "priorityclasses",
        "",
        {
            "metadata": {"name": "system-cluster-critical"},
            "value": 2_000_000_000,
            "description": "Used for system critical pods that must run in the cluster, "
            "but can be moved to another node if necessary.",
        },
    ),
    (
        _PRIORITIES,
        "priorityclasses",
        "",
        {
            "metadata": {"name": "system-node-critical"},
            "value": 2_000_001_000,
            "description": "Used for system critical pods that must not be moved from their current node.",
        },
    ),
    (
        "v1",
        "services",
        "default",
        {
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "type": "ClusterIP",
                "clusterIP": "10.0.0.1",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}],
            },
        },
    ),
)
"""API version, resource, namespace and object."""


async def create_default_objects(cluster: Cluster) -> None:
    """Create the objects that every cluster has."""
    for api_version, plural, namespace, tree in OBJECTS:
        kind = cluster.registry.find(api_version, plural)
        assert kind is not None  # noqa: S101 – built in
        await create_system_object(cluster, Request(Target(kind, namespace), {}, USER), tree)
