"""What Trimtab wrote to other objects is reverted, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.install.test_removal import a_cluster
from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, NAMESPACE_LABEL, SCALE_PLAN, SUBSET_COST, PlanAnnotation
from trimtab.api.core import Namespace
from trimtab.api.pods import Pod
from trimtab.install.cleanup import CLEANUPS
from trimtab.kube.client import Client

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


def _fields(mark: PlanAnnotation) -> dict[str, Any]:
    return {name: getattr(mark, name) for name in mark.__struct_fields__}
