"""Patches that an API server would refuse are refused with the UnitedTopology, and not pod by pod."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.lab.workloads.objects import deployment_tree
from tests.unit.unitedtopology.clusters import TopologyCluster, subset, topology_tree
from trimtab.admission import patch_trials
from trimtab.admission.findings import Findings
from trimtab.admission.patch_trials import try_patches
from trimtab.admission.validation import Validation
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, GroupVersionKind
from trimtab.api.apps import Deployment
from trimtab.api.documents import Document
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.unitedtopology.privileges import FIELDS
from trimtab.kube.client import Client
from trimtab.kube.errors import Forbidden
from trimtab.kube.transport import Request, Response
from trimtab.subsets import shaping

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
    found = await try_patches(topology, client, namespace="default", allowed_fields=FIELDS)
    assert found.warnings == ()
    return [str(each) for each in found.problems]


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


async def start_trials(cluster: TopologyCluster, *subsets: JSON, target: str = "web") -> asyncio.Future[Findings]:
    """Try the patches of some subsets, beside other tasks."""
    topology = codec.convert(topology_tree(*subsets, target=target), UnitedTopology)
    return asyncio.ensure_future(try_patches(topology, cluster.user, namespace="default", allowed_fields=FIELDS))


def watch_shapes(monkeypatch: pytest.MonkeyPatch, callback: Callable[[], None]) -> None:
    """Call back whenever a pod is shaped."""
    shape = shaping.shape

    def watched(*arguments: Any, **more: Any) -> JSON:
        callback()
        return shape(*arguments, **more)

    monkeypatch.setattr(shaping, "shape", watched)


def tolerating(count: int) -> list[JSON]:
    """So many subsets that change their pods."""
    return [subset(f"s{number}", tolerations=[{"operator": "Exists"}]) for number in range(count)]


async def test_large_pods_are_shaped_outside_the_event_loop(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time, however many dry runs are under way: a thread for each would delay the event loop as well."""
    tree = deployment_tree("large", 0)
    tree["spec"]["template"]["metadata"]["annotations"] = {"text": "x" * 20_000}
    await cluster.create(Deployment, tree)
    threads: list[int] = []
    watch_shapes(monkeypatch, lambda: threads.append(threading.get_ident()))
    found = await (await start_trials(cluster, *tolerating(20), target="large"))
    assert found == Findings([], ())
    assert len(threads) == 40, "by the rules, and for a dry run"
    assert threading.get_ident() not in threads


async def test_other_tasks_run_between_two_shapes(cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand subsets may take seconds together."""
    turns = 0
    shaped: list[int] = []
    watch_shapes(monkeypatch, lambda: shaped.append(turns))
    trials = await start_trials(cluster, *tolerating(20))
    while not trials.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(shaped) == len(set(shaped)) == 40


async def test_what_cannot_be_tried_in_time_is_a_warning(
    cluster: TopologyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod takes half a second to shape: two of five are tried by the rules, and the request is not late."""

    async def slowly(_: int, shape: Callable[[], JSON]) -> JSON:
        await cluster.clock.sleep(0.5)
        return shape()

    monkeypatch.setattr(patch_trials, "read_beside", slowly)
    trials = await start_trials(cluster, *tolerating(5))
    await cluster.clock.advance(1.3)
    found = await trials
    assert found.problems == []
    (warning,) = found.warnings
    assert warning == (
        "3 subsets (such as s2) could not be tried on a pod of Deployment web within 1.2 s; a pod to which the patch "
        "of its subset does not apply is admitted without a subset (event PatchFailed)"
    )


async def test_warnings_are_part_of_the_answer() -> None:
    """The object is admitted, and the user sees what was not checked."""

    async def check(*_: object) -> Findings:
        return Findings(warnings=("not tried",))

    kind = GroupVersionKind(group="apps.kruise.io", version="v1alpha1", kind="UnitedTopology")
    request = AdmissionRequest(uid="u", kind=kind, operation="CREATE", object=Document({"spec": {}}))
    no_client: Any = None
    response = await Validation(no_client, {(kind.group, kind.kind): check}).decide(request)
    assert (response.allowed, response.warnings) == (True, ("not tried",))
