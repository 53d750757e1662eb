"""Workloads of a kind that the configuration names, inspected: planned, ranked, explained, stored and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.rollouts import KIND, OWNERS, REVISION, WORKLOADS, Rollout, rollout
from tests.unit.inspection.clusters import SOFT, three_zones
from tests.unit.inspection.test_files import captured
from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet
from trimtab.api.configuration import read
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.inspection import anonymous, files, manifests, reading
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.explanations import explain_pod
from trimtab.inspection.lint.rules import check
from trimtab.inspection.lint.world import world_of
from trimtab.inspection.observing import FOLLOWED
from trimtab.inspection.placements import place_manifest
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.ranks import rank_workload
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import find_pod, find_workload, typed_names
from trimtab.kube.client import Client
from trimtab.testing.clocks import VirtualClock

ON = ["a1", "a1", "a2", "a2", "b1", "b2", "b1", "c1"]
SETTINGS = Settings(read({"workloads": WORKLOADS, "scaleDown": {"defaultPolicies": [{"name": "level"}]}}))


def web(**more: Any) -> Cluster:
    """A Rollout of eight pods, most of them in one zone."""
    return three_zones().deployment("web", ON, constraints=[SOFT], model=Rollout, **more).build()


@pytest.mark.parametrize("name", ["rollout", "Rollout", "rollouts", "rollouts.rollouts.example.com"])
def test_it_is_named_as_kubectl_names_it(name: str) -> None:
    """By its kind or its plural, with its group or without."""
    assert find_workload(web(), f"{name}/web", "default").metadata.name == "web"


def test_a_kind_that_no_configuration_names_is_refused_with_what_to_do() -> None:
    """As is what no kind is called."""
    cluster = three_zones().deployment("web", ON).build()
    with pytest.raises(InvalidError, match="listed in workloads of a configuration, which --config names"):
        find_workload(cluster, "rollout/web", "default")


def test_its_plan_is_that_of_a_deployment() -> None:
    """Its ReplicaSet deletes the pods."""
    as_deployment = three_zones().deployment("web", ON, constraints=[SOFT]).build()
    expected = plan_workload(as_deployment, find_workload(as_deployment, "deploy/web", "default"), 5, SETTINGS)
    made = plan_workload(web(), find_workload(web(), "rollout/web", "default"), 5, SETTINGS)
    assert made.kind == "Rollout"
    assert made.victims == expected.victims
    assert made.policy.reason == "no ScaleDownPolicy refers to the workload"


def test_its_pods_are_ranked_and_explained() -> None:
    """With the policy that names it."""
    reference = {"apiVersion": KIND.api_version, "kind": "Rollout", "name": "web"}
    metadata = {"name": "rolls", "namespace": "default", "uid": "p"}
    policy = codec.convert({"metadata": metadata, "spec": {"targetRef": reference}}, ScaleDownPolicy)
    cluster = three_zones().deployment("web", ON, constraints=[SOFT], model=Rollout).put(policy).build()
    ranked = rank_workload(cluster, find_workload(cluster, "rollout/web", "default"), SETTINGS)
    assert (ranked.kind, ranked.policy.name, len(ranked.controllers[0].pods)) == ("Rollout", "default/rolls", 8)
    explained = explain_pod(cluster, find_pod(cluster, "web-1-00", "default"), SETTINGS)
    assert explained.owners == ("ReplicaSet default/web-1", "Rollout default/web")
    assert explained.policy is not None
    assert explained.policy.name == "default/rolls"


def test_a_size_that_is_divided_in_an_unknown_way_has_no_plan() -> None:
    """And the obstacle says so."""
    cluster = web()
    (first,) = cluster.all(ReplicaSet)
    second = codec.convert(
        {
            "metadata": {
                "name": "web-2",
                "namespace": "default",
                "uid": "second",
                "ownerReferences": [codec.to_tree(each) for each in first.metadata.owner_references],
            },
            "spec": {"replicas": 2},
        },
        ReplicaSet,
    )
    cluster = Cluster(time=cluster.time, objects={**cluster.objects, ReplicaSet: [first, second]})
    made = plan_workload(cluster, find_workload(cluster, "rollout/web", "default"), 5, SETTINGS)
    assert made.controllers == ()
    assert any("among which its controller divides its size in a way of its own" in each for each in made.obstacles)


def test_a_file_has_the_kind_and_its_workloads(tmp_path: Path) -> None:
    """So that it is read without a configuration."""
    cluster = captured(web())
    path = tmp_path / "cluster"
    path.write_bytes(files.encode(files.to_file(cluster)))
    again = files.load(path)
    assert list(again.all(Rollout)) == list(cluster.all(Rollout))
    assert again.owners == OWNERS
    made = plan_workload(again, find_workload(again, "rollout/web", "default"), 5, SETTINGS)
    assert len(made.victims) == 3


def test_the_revision_that_its_controller_writes_is_captured() -> None:
    """It decides which ReplicaSet is the newest."""
    sets = [codec.convert({"metadata": {"name": "web", "annotations": {REVISION: "3", "note": "x"}}}, ReplicaSet)]
    (kept,) = captured(Cluster(time=0, objects={ReplicaSet: sets})).all(ReplicaSet)
    assert kept.metadata.annotations == {REVISION: "3"}


def test_an_anonymous_file_keeps_the_kind_alone() -> None:
    """The plan is the same."""
    cluster = captured(web())
    tree = anonymous.anonymize(files.tree_of(files.to_file(cluster)))
    assert b'"web' not in files.encode(tree, compress=False)
    again = files.decode(files.encode(tree), origin="test")
    (found,) = again.all(Rollout)
    made = plan_workload(again, found, 5, SETTINGS)
    expected = plan_workload(cluster, cluster.all(Rollout)[0], 5, SETTINGS)
    assert [each.constraints for each in made.controllers] != []
    assert [victim.criterion for victim in made.victims] == [victim.criterion for victim in expected.victims]


def test_a_manifest_is_placed_and_checked(tmp_path: Path) -> None:
    """Its template is where a Deployment has it."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    subsets = [{"name": "a", "maxReplicas": 2}]
    reference = {"apiVersion": KIND.api_version, "kind": "Rollout", "name": "web"}
    topology = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedTopology",
        "metadata": {"name": "web"},
        "spec": {"targetRef": reference, "subsets": subsets},
    }
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump_all([rollout({"metadata": {"name": "web"}, "spec": spec}), topology]))
    written = list(manifests.read([path]))
    found = check(world_of(written, Cluster(time=0), owners=OWNERS)).findings
    (small,) = [each for each in found if "its subsets take 2 pods" in each.message]
    assert "Rollout default/web has 5 replicas" in small.message
    placed = place_manifest(three_zones().build(), written[0], SETTINGS, count=3, namespace="default", seed=1)
    assert placed.placed == 3


async def test_a_kind_that_is_named_and_not_installed_is_a_gap() -> None:
    """Someone named it and expects it to be there."""
    clock = VirtualClock()
    server = FakeServer(clock)
    server.intercept = lambda request: failure(404, "NotFound", "none") if KIND.group in request.path else None
    client = Client(server, clock=clock)
    cluster = await reading.read(client, namespace="default", kinds=(*reading.ALL, Rollout))
    (gap,) = cluster.gaps
    assert gap.sentence() == (
        "rollouts (cluster): the cluster does not serve rollouts.example.com/v1alpha1 Rollout; without them, Rollouts "
        "are not found; their ReplicaSets are shown on their own"
    )
    assert typed_names(cluster, OWNERS.custom, "default") == []
    _, kinds, gaps = await reading.readable(client, namespace="default", kinds=(*FOLLOWED, Rollout))
    assert Rollout not in kinds
    assert gaps == (gap,)
