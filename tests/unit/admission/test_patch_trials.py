"""Patches that an API server would refuse are refused with the UnitedTopology, and not pod by pod."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.lab.workloads.objects import deployment_tree
from tests.unit.unitedtopology.clusters import TopologyCluster, subset, topology_tree
from trimtab.admission.patch_trials import patch_problems
from trimtab.api import codec
from trimtab.api.apps import Deployment
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.unitedtopology.privileges import FIELDS
from trimtab.kube.client import Client
from trimtab.kube.errors import Forbidden
from trimtab.kube.transport import Request, Response

JSON = dict[str, Any]
MOUNT = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[TopologyCluster]:
    """A cluster with a Deployment."""
    made = TopologyCluster()
    await made.start()
    await made.create(Deployment, deployment_tree("web", 0))
    yield made
    await made.stop()


async def problems(client: Client, *subsets: JSON, **more: Any) -> list[str]:
    """What is wrong with the subsets of the Deployment, in words."""
    topology = codec.convert(topology_tree(*subsets, **more), UnitedTopology)
    found = await patch_problems(topology, client, namespace="default", allowed_fields=FIELDS)
    return [str(each) for each in found]


def patching(**spec: Any) -> JSON:
    """A subset that patches the spec of its pods."""
    return subset("b", patch={"spec": spec})


def container(**fields: Any) -> JSON:
    """A subset that patches the container of its pods."""
    return patching(containers=[{"name": "main", **fields}])


@pytest.mark.parametrize(
    "accepted",
    [
        pytest.param(subset("b", "z1"), id="a term"),
        pytest.param(container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), id="resources"),
        pytest.param(
            patching(
                volumes=[{"name": "cache", "emptyDir": {}}],
                containers=[{"name": "main", **MOUNT}],
            ),
            id="a volume and its mount",
        ),
    ],
)
async def test_what_works_is_accepted(cluster: TopologyCluster, accepted: JSON) -> None:
    """By the rules and by the API server."""
    assert await problems(cluster.user, subset("a"), accepted) == []


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        pytest.param(
            container(**MOUNT),
            'spec.subsets[1].patch.spec.containers[main].volumeMounts[/cache].name: the pod has no volume "cache"; '
            "add it to spec.volumes, or remove the mount",
            id="a mount without its volume",
        ),
        pytest.param(
            container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}),
            "spec.subsets[1].patch.spec.containers[main].resources.requests.cpu: 2 is more than the limit of 1500m; "
            "lower it, or raise resources.limits.cpu",
            id="a request above its limit",
        ),
        pytest.param(
            subset("b", patch={"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "high"}}}),
            "spec.subsets[1].patch.metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: "
            '"high" is not a whole number of 32 bits; write for example "-5", or remove it',
            id="a cost that is no number",
        ),
    ],
)
async def test_mistakes_are_found_by_rule(cluster: TopologyCluster, refused: JSON, reason: str) -> None:
    """With the field and what to write."""
    assert await problems(cluster.user, subset("a"), refused) == [reason]


async def test_the_rest_is_found_by_the_api_server(cluster: TopologyCluster) -> None:
    """What no rule knows: the name of a port that is too long."""
    (found,) = await problems(cluster.user, container(ports=[{"containerPort": 80, "name": "much-too-long-a-name"}]))
    assert found.startswith("spec.subsets[0]: the API server would refuse its pods: ")
    assert "spec.containers[0].ports[0].name" in found
    assert await cluster.pods() == []


class ForbiddenDryRuns:
    """A transport that may not create pods."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        """Refuse creations of pods, as RBAC does."""
        if request.method == "POST" and request.path.endswith("/pods"):
            raise Forbidden("pods is forbidden")
        answer: Response = await self._inner.send(request)
        return answer


async def test_without_permission_the_rules_have_to_do(cluster: TopologyCluster) -> None:
    """A dry run that is forbidden says nothing about the patch."""
    transport: Any = ForbiddenDryRuns(cluster.user.transport)
    limited = Client(transport, clock=cluster.clock)
    assert await problems(limited, container(ports=[{"containerPort": 80, "name": "much-too-long-a-name"}])) == []
    assert len(await problems(limited, container(**MOUNT))) == 1


async def test_a_target_that_does_not_exist_yet_has_no_template(cluster: TopologyCluster) -> None:
    """The UnitedTopology may be created first; its pods are checked when they are created."""
    assert await problems(cluster.user, container(**MOUNT), target="later") == []
