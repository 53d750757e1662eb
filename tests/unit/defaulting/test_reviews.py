"""Reviews of new pods: default constraints from cached and uncached owners, and never a pod that is blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest
from trimtab.api.annotations import DEFAULT_CONSTRAINTS
from trimtab.api.default_constraints import DefaultConstraintSettings
from trimtab.api.documents import Document
from trimtab.defaulting.owners import Owners
from trimtab.defaulting.reviews import DefaultingReviews
from trimtab.defaulting.rules import read_rules
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.testing.builders import PodBuilder, pod
from trimtab.testing.clocks import VirtualClock

JSON = dict[str, Any]

APPS, CORE, KRUISE = "/apis/apps/v1", "/api/v1", "/apis/apps.kruise.io/v1alpha1"
RACK = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
SELECTOR = {"matchLabels": {"app": "web", "pod-template-hash": "5f7"}}
LABELS = {"app": "web", "pod-template-hash": "5f7"}


def owner(selector: JSON, name: str = "web", namespace: str = "shop") -> JSON:
    """A controller."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector, "template": {}}}


class Stage:
    """An API server with a namespace that is chosen, and the hook."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.server.put(CORE, "namespaces", {"metadata": {"name": "shop", "labels": {DEFAULT_CONSTRAINTS: "enabled"}}})
        self.server.put(CORE, "namespaces", {"metadata": {"name": "plain"}})
        self.uids: dict[str, str] = {}
        self.own(APPS, "replicasets", "ReplicaSet", owner(SELECTOR))
        client = Client(self.server, clock=self.clock)
        tree = {"delivery": "Admission", "rules": [{"name": "racks", "constraints": [RACK]}]}
        rules = read_rules(codec.convert(tree, DefaultConstraintSettings))
        self.owners = Owners(client)
        self.reviews = DefaultingReviews(self.owners, rules)

    def own(self, group: str, plural: str, kind: str, tree: JSON) -> None:
        """Create a controller, to which pods of its kind and name refer from then on."""
        made = self.server.put(group, plural, tree)
        self.uids[f"{kind}/{tree['metadata']['name']}"] = made["metadata"]["uid"]

    async def review(
        self, built: PodBuilder, namespace: str = "shop", *, forged: bool = False, **fields: Any
    ) -> list[JSON] | None:
        """The constraints that a new pod gets; None if it is left as it is."""
        tree = built.tree()
        for reference in () if forged else tree["metadata"].get("ownerReferences", ()):
            reference["uid"] = self.uids.get(f"{reference['kind']}/{reference['name']}", reference["uid"])
        request = AdmissionRequest(uid="u", operation="CREATE", namespace=namespace, object=Document(tree))
        response = await self.reviews.decide(msgspec.structs.replace(request, **fields))
        assert response.allowed
        if response.patch is None:
            return None
        constraints: list[JSON] = msgspec.json.decode(response.patch)[0]["value"]
        return constraints

    def counted(self, result: str) -> float:
        """How many pods are counted with a result."""
        registry = self.reviews.metrics.registry
        return registry.get_sample_value("trimtab_defaulting_pods_total", {"result": result}) or 0.0


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """The hook with filled caches."""
    made = Stage()
    task = asyncio.create_task(made.owners.run())
    await made.clock.advance(1)
    assert made.owners.synced
    yield made
    await cancel(task)


async def test_a_pod_of_a_replicaset_gets_the_constraints_with_its_selector(stage: Stage) -> None:
    """The revision included; the Deployment stays as it is."""
    found = await stage.review(pod("p").labels(LABELS).owned_by("web"))
    assert found == [{**RACK, "labelSelector": SELECTOR}]
    assert stage.counted("added") == 1


async def test_a_service_narrows_the_selector(stage: Stage) -> None:
    """As kube-scheduler deduces it."""
    metadata = {"name": "front", "namespace": "shop"}
    stage.server.put(CORE, "services", {"metadata": metadata, "spec": {"selector": {"tier": "front"}}})
    await stage.clock.advance(1)
    found = await stage.review(pod("p").labels({**LABELS, "tier": "front"}).owned_by("web"))
    assert found is not None
    assert found[0]["labelSelector"] == {"matchLabels": {**LABELS, "tier": "front"}}


async def test_a_controller_that_is_not_cached_is_read(stage: Stage) -> None:
    """The first pods of a new ReplicaSet come within milliseconds."""
    stage.own(APPS, "replicasets", "ReplicaSet", owner({"matchLabels": {"app": "new"}}, "new"))
    assert await stage.review(pod("p").labels(app="new").owned_by("new")) is not None


@pytest.mark.parametrize(
    ("group", "plural", "kind", "version", "selector"),
    [
        pytest.param(APPS, "statefulsets", "StatefulSet", "apps/v1", {"matchLabels": {"app": "x"}}, id="StatefulSet"),
        pytest.param(CORE, "replicationcontrollers", "ReplicationController", "v1", {"app": "x"}, id="its map"),
        pytest.param(
            KRUISE, "clonesets", "CloneSet", "apps.kruise.io/v1alpha1", {"matchLabels": {"app": "x"}}, id="CloneSet"
        ),
    ],
)
async def test_other_controllers(
    stage: Stage, group: str, plural: str, kind: str, version: str, selector: JSON
) -> None:
    """Whose selectors count as well."""
    stage.own(group, plural, kind, owner(selector))
    await stage.clock.advance(1)
    found = await stage.review(pod("p").labels(app="x").owned_by("web", kind=kind, api_version=version))
    assert found is not None
    assert found[0]["labelSelector"] == {"matchLabels": {"app": "x"}}


async def test_pods_elsewhere_are_left_alone(stage: Stage) -> None:
    """Reviews for subsets come through the same webhook, from namespaces that are not chosen."""
    stage.own(APPS, "replicasets", "ReplicaSet", owner(SELECTOR, namespace="plain"))
    assert await stage.review(pod("p").labels(LABELS).owned_by("web"), "plain") is None
    assert await stage.review(pod("p").labels(LABELS).owned_by("web"), "unheard-of") is None
    assert await stage.review(pod("p").labels(LABELS).owned_by("web"), operation="UPDATE") is None


@pytest.mark.parametrize(
    ("built", "result"),
    [
        pytest.param(pod("p").labels(LABELS).owned_by("web").spread("zone"), "stated", id="constraints of its own"),
        pytest.param(pod("p").labels({**LABELS, DEFAULT_CONSTRAINTS: "disabled"}), "exempt", id="the label"),
        pytest.param(pod("p").labels(LABELS).owned_by("web", kind="DaemonSet"), "excluded", id="a DaemonSet"),
        pytest.param(pod("p").labels(app="other"), "ungrouped", id="neither controller nor service"),
        pytest.param(pod("p").labels(LABELS).owned_by("gone"), "ungrouped", id="a controller that does not exist"),
    ],
)
async def test_why_a_pod_is_left_as_it_is(stage: Stage, built: PodBuilder, result: str) -> None:
    """Counted by the reason."""
    assert await stage.review(built) is None
    assert stage.counted(result) == 1


async def test_a_controller_with_another_uid_does_not_count(stage: Stage) -> None:
    """A review may be forged: whoever does not know the UID learns no selector."""
    built = pod("p").labels(LABELS).owned_by("web")
    assert await stage.review(built, forged=True) is None
    assert await stage.review(built) is not None


async def test_a_fault_of_ours_never_blocks_a_pod(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged and counted."""

    async def fails(*_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(stage.owners, "selector", fails)
    assert await stage.review(pod("p").labels(LABELS).owned_by("web")) is None
    assert stage.counted("failed") == 1
