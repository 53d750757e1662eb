"""Who decides which pods go: a policy's own PodGroupCost, not a rival's; and the ranks of an external component.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab, configuration, running
from tests.e2e.test_cloneset import BY_RANK, TWELVE, running_clonesets, twelve
from tests.e2e.test_install import connected, resource
from tests.e2e.test_modes import seen_event
from tests.e2e.test_privileges import acting_as, until_refused
from tests.lab.clonesets import CloneSetSandbox, group_costs
from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from tests.lab.policing import define
from trimtab.api.annotations import ALPHA_COST, DELETION_COST, PROTECT_COSTS, SCALE_PLAN, STATED_COST
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.install import access, protection
from trimtab.install.options import NAME, Options, account
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.errors import Forbidden
from trimtab.kube.resources import Resource, object_key, untyped
from trimtab.kube.sessions import Session

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

COSTS = Resource.of(PodGroupCost).raw
CLONESET = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}
TWO_ZONES = {"zone-a": 3, "zone-b": 3}
SIX = 6


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made


def costs_of(owner: JSON, costs: Mapping[str, int], name: str) -> JSON:
    """A PodGroupCost as an editor, or an external component, writes it."""
    kind = {"apiVersion": COSTS.api_version, "kind": COSTS.kind}
    return {**kind, "metadata": {"name": name}, "spec": {"owner": owner, "costs": dict(costs)}}


# Under a policy.


async def rival_condition(made: CloneSetSandbox) -> Condition:
    """The condition of the policy that reports a rival."""

    def find() -> Condition | None:
        policy = made.policies.get(object_key(made.name, "web"))
        found = [] if policy is None else policy.status.conditions
        return next((each for each in found if each.type == "RivalCosts"), None)

    await within(made.client.clock, 30.0, made.policies.wait_for(lambda _: find() is not None))
    condition = find()
    assert condition is not None
    return condition


async def test_a_rival_of_a_policys_object_is_reported_and_not_obeyed(client: Client) -> None:
    """An editor creates `aaa` with reversed costs: the busiest stay, and a condition and an event name the object."""
    work = {name: number for number, name in enumerate(TWELVE)}
    async with running_clonesets(client, **BY_RANK) as (made, trimtab), group_costs(made) as costs:
        await twelve(made)
        await made.annotate(STATED_COST, work)
        await made.govern(carrier="PodGroupCost", delivery="Continuous", strategies=[{"name": "Stated"}])
        await within(client.clock, 30.0, costs.wait_for(lambda store: any(len(e.spec.costs) == 12 for e in store)))
        (own,) = costs.store
        reversed_costs = {name: -cost for name, cost in own.spec.costs.items()}
        await client.create(COSTS, costs_of(CLONESET, reversed_costs, "aaa"), namespace=made.name)
        assert "PodGroupCost aaa for CloneSet web" in (await rival_condition(made)).message
        event = await made.event("RivalCosts")
        assert event.message.startswith("PodGroupCost aaa does not count: ScaleDownPolicy")
        assert await trimtab.sample("trimtab_scaledown_rival_costs", CONTROLLERS) == 1
        await made.scale(10)
        assert await made.until(10) == set(TWELVE[2:]), "the two with the least work go"


async def test_an_edited_object_of_a_policy_is_written_again(client: Client) -> None:
    """Whoever may write PodGroupCosts changes it for a moment."""
    work = {name: number for number, name in enumerate(TWELVE)}
    async with running_clonesets(client, **BY_RANK) as (made, _), group_costs(made) as costs:
        await twelve(made)
        await made.annotate(STATED_COST, work)
        await made.govern(carrier="PodGroupCost", delivery="Continuous", strategies=[{"name": "Stated"}])
        await within(client.clock, 30.0, costs.wait_for(lambda store: any(len(e.spec.costs) == 12 for e in store)))
        (own,) = costs.store
        editor = client.using(field_manager="kubectl-edit")
        change = {"spec": {"costs": {name: -cost for name, cost in own.spec.costs.items()}}}
        await editor.patch(COSTS, own.metadata.name, change, namespace=made.name)
        written = own.spec.costs
        await within(
            client.clock,
            30.0,
            costs.wait_for(
                lambda store: (
                    [e.spec.costs for e in store] == [written]
                    and all(e.metadata.resource_version != own.metadata.resource_version for e in store)
                )
            ),
        )
        await made.scale(10)
        assert await made.until(10) == set(TWELVE[2:])


# Without a policy.


async def test_of_two_objects_without_a_policy_none_counts(client: Client) -> None:
    """The original order decides, and an event and the metric say so; one object alone counts."""
    ranks = {name: number for number, name in enumerate(TWELVE)}
    async with running_clonesets(client, **BY_RANK) as (made, trimtab):
        await twelve(made)
        await client.create(COSTS, costs_of(CLONESET, ranks, "ranks"), namespace=made.name)
        await made.scale(11)
        assert await made.until(11) == set(TWELVE[:11])
        await client.create(COSTS, costs_of(CLONESET, ranks, "aaa"), namespace=made.name)
        event = await made.event("RivalCosts")
        assert "PodGroupCosts aaa, ranks rank the same pods, so none of them counts" in event.message
        assert await trimtab.sample("trimtab_scaledown_rival_costs", CONTROLLERS) == 2
        await made.scale(10)
        await made.until(10)
        assert (await made.event("RanksIgnored")).message.endswith("none of PodGroupCosts aaa, ranks counts")


# Ranks of an external component, under the default policy of an installation.


async def ranked_by_annotations(made: DeploymentSandbox, owner: JSON, ranks: Mapping[str, int]) -> None:
    """The cost proposal's annotation on each pod."""
    del owner
    for name, value in ranks.items():
        await made.client.patch(Pod, name, {"metadata": {"annotations": {ALPHA_COST: str(value)}}}, namespace=made.name)


async def ranked_by_an_object(made: DeploymentSandbox, owner: JSON, ranks: Mapping[str, int]) -> None:
    """One PodGroupCost for all."""
    await made.client.create(COSTS, costs_of(owner, ranks, "ranks"), namespace=made.name)


Rank = Callable[[DeploymentSandbox, JSON, Mapping[str, int]], Awaitable[None]]


def in_zone_a(made: DeploymentSandbox) -> set[str]:
    """The pods in the first zone: the busy ones."""
    zones = {node.metadata.name: node.metadata.labels["topology.kubernetes.io/zone"] for node in made.machines.store}
    return {pod.metadata.name for pod in made.pods.store if zones[pod.spec.node_name] == "zone-a"}


def names(made: DeploymentSandbox) -> set[str]:
    """The names of the pods."""
    return {pod.metadata.name for pod in made.pods.store if pod.active}


async def deploy(made: DeploymentSandbox, kind: str) -> JSON:
    """Six pods of a workload of this kind, three in each zone; a reference to it."""
    if kind == "Deployment":
        await made.deploy("web", SIX)
        return {"apiVersion": "apps/v1", "kind": kind, "name": "web"}
    tree = made.deployment("web", SIX)
    tree["spec"]["selector"] = tree["spec"]["selector"]["matchLabels"]
    await made.client.create(ReplicationController, tree, namespace=made.name)
    await made.settled(SIX)
    return {"kind": kind, "name": "web"}


async def shrink(made: DeploymentSandbox, kind: str, replicas: int) -> set[str]:
    """Scale down to so many; the pods that are left."""
    if kind == "Deployment":
        await made.scale("web", replicas)
    else:
        await made.client.resize(ReplicationController, "web", replicas, namespace=made.name)
    await made.settled(replicas)
    return names(made)


@asynccontextmanager
async def default_policy(client: Client, **fields: Any) -> AsyncIterator[tuple[DeploymentSandbox, Trimtab]]:
    """A namespace with two zones, and the webhooks of an installation with one default policy."""
    await define(client)
    async with deployment_sandbox(client, TWO_ZONES) as made:
        tree = configuration(made.name, scaleDown={"defaultPolicies": [{"name": "level", **fields}]})
        async with running(client, tree, [WEBHOOKS]) as trimtab:
            yield made, trimtab


@pytest.mark.parametrize("kind", ["Deployment", "ReplicationController"])
@pytest.mark.parametrize("rank", [ranked_by_annotations, ranked_by_an_object], ids=lambda each: each.__name__)
async def test_built_in_controllers_follow_explicit_ranks(client: Client, kind: str, rank: Rank) -> None:
    """They win over the default policy that would keep the zones level, and nothing is left on pods."""
    async with default_policy(client, mode="Enforce") as (made, _):
        owner = await deploy(made, kind)
        busy = in_zone_a(made)
        assert len(busy) == 3
        await rank(made, owner, {name: int(name not in busy) for name in names(made)})
        await asyncio.sleep(1.0)  # the webhooks' watch shows the ranks
        assert await shrink(made, kind, 3) == busy
        await made.until(lambda store: not any(SCALE_PLAN in pod.metadata.annotations for pod in store))
        assert not [pod for pod in made.pods.store if DELETION_COST in pod.metadata.annotations]


async def test_explicit_ranks_are_only_observed_by_a_default_policy_that_observes(client: Client) -> None:
    """As installed: the scale-down is recorded, no pod is written to, and the controller's own order decides."""
    async with default_policy(client) as (made, trimtab):
        owner = await deploy(made, "Deployment")
        busy = in_zone_a(made)
        await ranked_by_an_object(made, owner, {name: int(name not in busy) for name in names(made)})
        versions = {pod.metadata.name: pod.metadata.annotations for pod in made.pods.store}
        await asyncio.sleep(1.0)  # the webhooks' watch shows the ranks
        left = await shrink(made, "Deployment", 3)
        await seen_event(client, made.name, "ScaleDownObserved")
        assert {pod.metadata.name: pod.metadata.annotations for pod in made.pods.store} == {
            name: versions[name] for name in left
        }
        (record,) = await trimtab.document("/scaledowns")
        assert set(record["victims"]) == set(versions) - busy
        assert made.warnings == []


async def test_one_unranked_pod_means_the_controllers_own_order(client: Client) -> None:
    """The warning names it."""
    async with default_policy(client, mode="Enforce") as (made, trimtab):
        await deploy(made, "Deployment")
        unranked, *others = sorted(names(made))
        await ranked_by_annotations(made, {}, dict.fromkeys(others, 1))
        await asyncio.sleep(1.0)  # the webhooks' watch shows the ranks
        await shrink(made, "Deployment", 3)
        assert f"1 of 6 pods have no rank by the annotation {ALPHA_COST}: {unranked}" in made.warnings
        assert await trimtab.sample("trimtab_scaledown_fallbacks_total", reason="unranked") == 1


async def test_two_objects_are_warned_about_and_the_default_policy_decides(client: Client) -> None:
    """They are not chosen from by name: the zones stay level."""
    async with default_policy(client, mode="Enforce") as (made, _):
        owner = await deploy(made, "Deployment")
        busy = in_zone_a(made)
        ranks = {name: int(name not in busy) for name in names(made)}
        for name in ("aaa", "bbb"):
            await client.create(COSTS, costs_of(owner, ranks, name), namespace=made.name)
        await asyncio.sleep(1.0)  # the webhooks' watch shows the objects
        await shrink(made, "Deployment", 4)
        assert made.spread() == (2, 2)
        assert any("PodGroupCosts aaa, bbb rank the same pods" in each for each in made.warnings)


# Permissions, on an API server that has them.


async def test_editors_write_pod_group_costs_only_where_the_administrator_says_so(control_plane: Path) -> None:
    """With the printed role, which is aggregated to `edit`."""
    name = f"editors-{secrets.token_hex(4)}"
    roles = untyped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
    bindings = untyped("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
    body = costs_of(CLONESET, {}, "aaa")
    created: list[str] = []
    async with connected(control_plane) as admin, acting_as(control_plane, "ann") as ann:
        await define(admin)
        await admin.create(Namespace, {"metadata": {"name": name}})
        try:
            for edits in (False, True):
                (role,) = [
                    each
                    for each in access.manifests(Options(group_cost_edits=edits))
                    if each["metadata"]["name"] == f"{NAME}-edit"
                ]
                role["metadata"] = {"name": f"{name}-{edits}".lower()}
                await admin.create(roles, role)
                created.append(role["metadata"]["name"])
                api = "rbac.authorization.k8s.io"
                reference = {"apiGroup": api, "kind": "ClusterRole", "name": role["metadata"]["name"]}
                subjects = [{"apiGroup": api, "kind": "User", "name": "ann"}]
                binding = {"metadata": {"name": role["metadata"]["name"]}, "roleRef": reference, "subjects": subjects}
                await admin.create(bindings, binding, namespace=name)
                await until_allowed(lambda: ann.create(ScaleDownPolicy, policy(), namespace=name, dry_run=True))
                if edits:
                    await until_allowed(lambda: ann.create(COSTS, body, namespace=name, dry_run=True))
                else:
                    with pytest.raises(Forbidden, match="podgroupcosts"):
                        await ann.create(COSTS, body, namespace=name, dry_run=True)
        finally:
            for role_name in created:
                await admin.delete(roles, role_name)
            await admin.delete(Namespace, name)


def policy() -> JSON:
    """A policy for the CloneSet web."""
    kind = {"apiVersion": COSTS.api_version, "kind": "ScaleDownPolicy"}
    return {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": CLONESET}}


async def until_allowed(attempt: Callable[[], Awaitable[object]]) -> None:
    """An API server takes a moment to take up a role."""
    async with asyncio.timeout(30):
        while True:
            try:
                await attempt()
            except Forbidden:
                await asyncio.sleep(0.2)
            else:
                return


@asynccontextmanager
async def protecting(client: Client, options: Options, name: str) -> AsyncIterator[None]:
    """A namespace whose PodGroupCosts are protected, by a policy of this name."""
    _, _, rule, binding = protection.manifests(options)
    rule["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = name
    binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] = name
    await client.create(Namespace, {"metadata": {"name": name, "labels": {PROTECT_COSTS: "true"}}})
    try:
        for each in (rule, binding):
            await client.create(resource(each), each)
        yield
    finally:
        for each in (binding, rule):
            await client.delete(resource(each), name)
        await client.delete(Namespace, name)


async def test_pod_group_costs_are_protected_with_the_annotations(control_plane: Path) -> None:
    """Where an administrator says so, nobody but Trimtab creates, changes or deletes one."""
    options = Options(deny_cost_changes=True)
    name = f"costs-{secrets.token_hex(4)}"
    ours = f"system:serviceaccount:{options.namespace}:{account('controllers')}"
    async with connected(control_plane) as admin:
        await define(admin)
        async with protecting(admin, options, name):
            body = costs_of(CLONESET, {"web-0": 1}, "aaa")
            words = "PodGroupCosts are written by Trimtab"
            await until_refused(lambda: admin.create(COSTS, body, namespace=name, dry_run=True), words)
            async with connected(control_plane, user=ours) as trimtab:
                await trimtab.create(COSTS, body, namespace=name)
            with pytest.raises(Forbidden, match=words):
                await admin.patch(COSTS, "aaa", {"spec": {"costs": {"web-0": 9}}}, namespace=name)
            with pytest.raises(Forbidden, match=words):
                await admin.delete(COSTS, "aaa", namespace=name)
            collector = "system:serviceaccount:kube-system:generic-garbage-collector"
            async with connected(control_plane, user=collector) as garbage_collector:
                await garbage_collector.delete(COSTS, "aaa", namespace=name)
