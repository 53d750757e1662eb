"""Cluster files: they have what decisions look at and nothing else, and say the same when they are read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.unit.inspection.clusters import SOFT, three_zones
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST
from trimtab.api.errors import InvalidError
from trimtab.api.model import Present
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.inspection import anonymous, files
from trimtab.inspection.cluster import Cluster, Gap
from trimtab.inspection.contents import trimmed
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import find_workload

ON = ["a1", "a1", "a2", "a2", "b1", "b2", "b1", "c1"]
SECRETS = ("hunter2", "PASSWORD", "private", "example.com/note")


def captured(cluster: Cluster) -> Cluster:
    """The cluster as it is read from an API server: trimmed."""
    objects = {kind: [trimmed(each) for each in found] for kind, found in cluster.objects.items()}
    return replace(cluster, objects=objects)


def _costs_of_a_ranker() -> PodGroupCost:
    fields = [{"manager": "private", "fieldsV1": {"f:metadata": {}}}, {"manager": "ranker", "fieldsV1": {"f:spec": {}}}]
    tree = {
        "metadata": {"name": "ledger", "namespace": "default", "managedFields": fields},
        "spec": {"owner": {"kind": "CloneSet", "name": "ledger"}, "costs": {"ledger-0": 3}},
    }
    return codec.convert(tree, PodGroupCost)


def a_cluster() -> Cluster:
    """Workloads of every kind, with annotations of others, an environment and foreign costs."""
    annotations = {0: {DELETION_COST: "7", "example.com/note": "private"}}
    return (
        three_zones()
        .deployment("web", ON, constraints=[SOFT], annotations=annotations)
        .cloneset("ledger", ["a1", "b1", "c1"])
        .replication_controller("legacy", ["a1", "b1"])
        .put(_costs_of_a_ranker())
        .build()
    )


def test_a_file_says_what_the_cluster_said(tmp_path: Path) -> None:
    """Objects, gaps, the time and the namespace: compressed or not."""
    gap = Gap(resource="nodes", scope="cluster", reason="may not be listed", effect="domains are not known")
    cluster = replace(captured(a_cluster()), gaps=(gap,), namespace="shop")
    for compress in (True, False):
        path = tmp_path / "cluster"
        path.write_bytes(files.encode(files.to_file(cluster), compress=compress))
        again = files.load(path)
        assert (again.time, again.gaps, again.namespace) == (cluster.time, (gap,), "shop")
        for kind, found in cluster.objects.items():
            assert list(again.all(kind)) == list(found)


def test_what_is_captured_has_no_environment_and_no_annotations_of_others() -> None:
    """Costs are kept, because decisions look at them."""
    before = codec.encode(files.to_file(a_cluster())).decode()
    assert all(secret in before for secret in SECRETS)
    after = codec.encode(files.to_file(captured(a_cluster()))).decode()
    assert [secret for secret in SECRETS if secret in after] == []
    assert f'"{DELETION_COST}":"7"' in after


def test_volumes_are_kept_as_facts_alone() -> None:
    """A claim keeps Trimtab from placing the pod; its name is nobody's business."""
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "ledger"}},
        {"name": "config", "secret": {"secretName": "token"}},
    ]
    pod = codec.convert({"metadata": {"name": "db"}, "spec": {"volumes": volumes}}, Pod)
    kept = trimmed(pod)
    assert [volume.persistent_volume_claim for volume in kept.spec.volumes] == [Present()]
    assert b"ledger" not in codec.encode(kept)


def test_an_anonymous_file_has_none_of_the_names_and_the_same_plan() -> None:
    """Names are replaced everywhere alike, so that selectors match and domains are told apart."""
    cluster = captured(a_cluster())
    tree = anonymous.anonymize(files.tree_of(files.to_file(cluster)))
    text = msgspec.json.encode(tree).decode()
    for name in ("web", "ledger", "legacy", '"a1"', '"z1"', "example.com/app:1", '"app"'):
        assert name not in text, name
    again = files.decode(files.encode(tree), origin="anonymous")
    before = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 4, Settings())
    named = tree["objects"]["deployments"][0]["metadata"]["name"]
    after = plan_workload(again, find_workload(again, f"deploy/{named}", "default"), 4, Settings())
    for one, other in zip(before.controllers[0].constraints, after.controllers[0].constraints, strict=True):
        assert sorted(zip(one.before, one.after, strict=True)) == sorted(zip(other.before, other.after, strict=True))
        assert (one.topology_key, one.skew_stock) == (other.topology_key, other.skew_stock)
    uids = {pod.metadata.name: pod.metadata.uid for pod in cluster.all(Pod)}
    changed = {pod.metadata.name: pod.metadata.uid for pod in again.all(Pod)}
    assert [uids[victim.pod] for victim in before.victims] == [changed[victim.pod] for victim in after.victims]


def test_an_anonymous_file_has_no_names_in_mappings_by_pod() -> None:
    """What is no field of ours is a name, wherever it stands."""
    status = {"subsetStatuses": [{"name": "spot", "creating": {"web-5d4f-x2b9k": "2026-01-01T00:00:00Z"}}]}
    tree = {"objects": {"unitedtopologies": [{"metadata": {"name": "web"}, "status": status}]}}
    changed = anonymous.anonymize(tree)["objects"]["unitedtopologies"][0]["status"]["subsetStatuses"][0]
    assert list(changed["creating"]) == ["key-1"]
    assert changed["name"] != "spot"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"{}", "is not a file of `trimtab snapshot`", id="other JSON"),
        pytest.param(b"\x28\xb5\x2f\xfdbroken", "cannot be decompressed", id="a broken file"),
        pytest.param(b"apiVersion: v1", "is not a file of `trimtab snapshot`", id="YAML"),
    ],
)
def test_another_file_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    """With its path, and what is wrong with it."""
    path = tmp_path / "other.json"
    path.write_bytes(data)
    with pytest.raises(InvalidError, match=message) as raised:
        files.load(path)
    assert str(path) in str(raised.value)
