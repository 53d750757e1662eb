"""What Trimtab wrote to other objects is reverted, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.install.test_removal import a_cluster
from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.annotations import (
    DELETION_COST,
    NAMESPACE_LABEL,
    POLICY_COST,
    SCALE_PLAN,
    SUBSET_COST,
    PlanAnnotation,
    PolicyCostAnnotation,
)
from trimtab.api.core import Namespace
from trimtab.api.pods import Pod
from trimtab.install.cleanup import CLEANUPS
from trimtab.kube.client import Client
from trimtab.kube.errors import IncompleteSweep
from trimtab.testing.clocks import VirtualClock

PLAN = PlanAnnotation(
    plan="p", workload="Deployment/web", uid="u", generation=1, to=2, share=2, side="victims", cost=-5, at=0
)


async def pod(client: Client, name: str, annotations: dict[str, str]) -> None:
    """A pod with these annotations."""
    container = {"name": "web", "image": "example.com/web:1"}
    metadata = {"name": name, "annotations": {"example.com/team": "shop", **annotations}}
    await client.create(Pod, {"metadata": metadata, "spec": {"containers": [container]}}, namespace="default")


async def carried(client: Client, name: str) -> dict[str, Any]:
    """What a pod is annotated with."""
    return dict((await client.get(Pod, name, namespace="default")).metadata.annotations)


async def test_everything_of_ours_is_reverted_and_foreign_values_stay(tmp_path: Path) -> None:
    """A plan's cost is reverted to the subset's, and that is removed; a foreign cost stays."""
    subset = {**keys.SubsetAnnotations("web", "a", "r1").written(), SUBSET_COST: "1000"}
    plan = codec.encode(PLAN).decode()
    both = codec.encode(PlanAnnotation(**{**_fields(PLAN), "before": "1000"})).decode()
    async with a_cluster(tmp_path) as client:
        await pod(client, "planned", {DELETION_COST: "-5", SCALE_PLAN: plan})
        await pod(client, "divided", {DELETION_COST: "1000", **subset})
        await pod(client, "both", {DELETION_COST: "-5", SCALE_PLAN: both, **subset})
        await pod(client, "theirs", {DELETION_COST: "77"})
        await client.create(Namespace, {"metadata": {"name": "shop", "labels": {NAMESPACE_LABEL: "enabled"}}})
        counts = {what: await cleanup(client) for what, cleanup in CLEANUPS.items()}
        for name in ("planned", "divided", "both"):
            assert await carried(client, name) == {"example.com/team": "shop"}
        assert (await carried(client, "theirs"))[DELETION_COST] == "77"
        assert NAMESPACE_LABEL not in (await client.get(Namespace, "shop")).metadata.labels
        assert list(counts.values()) == [2, 0, 2, 1]
        assert {await cleanup(client) for cleanup in CLEANUPS.values()} == {0}


@pytest.mark.parametrize("before", ["abc", "", "+5", "007", "4294967296", "9" * 5000, "1.5"])
async def test_a_forged_previous_value_is_not_written(before: str, tmp_path: Path) -> None:
    """API servers refuse costs that are no 32-bit integers: the cost is removed instead."""
    forged = codec.encode(PlanAnnotation(**{**_fields(PLAN), "before": before})).decode()
    policy = codec.encode(PolicyCostAnnotation(policy="p", carrier="Annotation", cost=-5, before=before)).decode()
    async with a_cluster(tmp_path) as client:
        await pod(client, "planned", {DELETION_COST: "-5", SCALE_PLAN: forged})
        await pod(client, "ranked", {DELETION_COST: "-5", POLICY_COST: policy})
        for cleanup in CLEANUPS.values():
            await cleanup(client)
        for name in ("planned", "ranked"):
            assert await carried(client, name) == {"example.com/team": "shop"}


@pytest.mark.parametrize("what", ["costs of scale-downs", "costs kept current by policies", "labels of namespaces"])
async def test_a_refusal_is_reported_and_passed_over(what: str) -> None:
    """The others are done, and a second run does nothing but the refused one."""
    clock = VirtualClock()
    server = FakeServer(clock)
    plan = codec.encode(PLAN).decode()
    policy = codec.encode(PolicyCostAnnotation(policy="p", carrier="Annotation", cost=-5)).decode()
    written = {"costs of scale-downs": {SCALE_PLAN: plan}, "costs kept current by policies": {POLICY_COST: policy}}
    for name in ("a", "b", "c"):
        annotations = {DELETION_COST: "-5", **written.get(what, {})}
        tree = {"metadata": {"name": name, "namespace": "n", "annotations": annotations}}
        server.put("/api/v1", "pods", tree)
        server.put("/api/v1", "namespaces", {"metadata": {"name": name, "labels": {NAMESPACE_LABEL: "enabled"}}})
    server.intercept = lambda request: (
        failure(422, "Invalid", "it is locked") if request.method == "PATCH" and request.path.endswith("/b") else None
    )
    client = Client(server, clock=clock)
    for count in (2, 0):
        with pytest.raises(IncompleteSweep, match="it is locked") as raised:
            await CLEANUPS[what](client)
        assert raised.value.count == count or what == "labels of namespaces"
        assert len(raised.value.failed) == 1


@pytest.mark.parametrize(
    ("what", "kind", "key"),
    [
        ("costs of scale-downs", "pods", "pod n/odd"),
        ("costs kept current by policies", "pods", "pod n/odd"),
        ("costs kept current by policies", "podgroupcosts", "PodGroupCost n/odd"),
        ("annotations and costs of subsets", "pods", "pod n/odd"),
        ("labels of namespaces", "namespaces", "namespace odd"),
    ],
)
async def test_an_object_that_cannot_be_read_is_reported(what: str, kind: str, key: str) -> None:
    """It may have something of ours; in a namespace that is not included, it is another installation's."""
    clock = VirtualClock()
    server = FakeServer(clock)
    namespace = {} if kind == "namespaces" else {"namespace": "n"}
    metadata = {"name": "odd", **namespace, "labels": {NAMESPACE_LABEL: "enabled"}, "finalizers": 7}
    server.put("/apis/trimtab.dev/v1alpha1" if kind == "podgroupcosts" else "/api/v1", kind, {"metadata": metadata})
    client = Client(server, clock=clock)
    with pytest.raises(IncompleteSweep) as raised:
        await CLEANUPS[what](client)
    assert list(raised.value.failed) == [key]
    assert "cannot be read" in raised.value.failed[key]
    assert await CLEANUPS[what](client, includes=lambda _: False) == 0


def _fields(mark: PlanAnnotation) -> dict[str, Any]:
    return {name: getattr(mark, name) for name in mark.__struct_fields__}
