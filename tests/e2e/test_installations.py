"""Several installations in one cluster, and namespaces that one of them no longer manages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import Cluster, empty_cluster, marks
from trimtab.install.options import INSTANCE

pytestmark = marks


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with the namespaces that are managed."""
    with empty_cluster(tmp_path_factory.mktemp("empty")) as found:
        for name in ("shop", "bank", "mill"):
            found.kubectl("create", "namespace", name)
        yield found


def install(cluster: Cluster, namespace: str, folder: Path, *managed: str) -> None:
    """Install into a namespace, for some namespaces."""
    file = folder / f"{namespace}.json"
    api = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "TrimtabConfiguration"}
    file.write_text(json.dumps({**api, "namespaces": managed}))
    cluster.apply("--namespace", namespace, "--config", str(file), "--crds=all")


def test_a_removal_leaves_the_other_installation_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing of the one is left but the kinds, which both need; every object of the other is as it was."""
    install(cluster, "team-a", tmp_path, "shop", "bank")
    install(cluster, "team-b", tmp_path, "mill")
    before = cluster.stored(f"{INSTANCE}=team-b")
    assert len(before) == len(cluster.stored(f"{INSTANCE}=team-a")) - 3  # its second namespace has three RoleBindings
    cluster.remove("team-a")
    assert not cluster.objects(f"{INSTANCE}=team-a")
    assert cluster.stored(f"{INSTANCE}=team-b") == before
    cluster.remove("team-b", "--remove-crds")
    assert not cluster.objects()


def test_permissions_in_a_dropped_namespace_go(cluster: Cluster, tmp_path: Path) -> None:
    """`kubectl apply` deletes nothing, so a command does it."""
    install(cluster, "team-a", tmp_path, "shop", "bank")
    install(cluster, "team-a", tmp_path, "shop")
    role = "trimtab-controllers-writing.team-a"
    assert cluster.bound(role) == {"shop", "bank"}
    cluster.trimtab("uninstall", "--namespace", "team-a", "--dropped-namespaces")
    assert cluster.bound(role) == {"shop"}
    cluster.remove("team-a", "--remove-crds")
    assert not cluster.bound(role)
