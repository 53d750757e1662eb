"""Policies that apply to workloads, kept until something changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.unit.scaledown.policy_cluster import PolicyCluster, target
from trimtab.api import selectors
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.meta import LabelSelector
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.selectors import Selector
from trimtab.kube import informers
from trimtab.kube.resources import Key, Resource
from trimtab.scaledown.policy import conflicts
from trimtab.scaledown.policy.defaults import NO_DEFAULTS
from trimtab.scaledown.policy.findings import PolicyInspector
from trimtab.scaledown.policy.groups import Groups
from trimtab.scaledown.policy.workloads import WorkloadRef, workload_ref
from trimtab_lab.testing.labs import deployment

POLICIES = Resource.of(ScaleDownPolicy).raw
BOTH = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}


def applied(cluster: PolicyCluster, name: str = "web") -> str | None:
    """The policy that applies to a Deployment."""
    refs = cluster.controller.groups.refs_in("default")
    found = next(ref for ref in refs if (ref.kind, ref.name) == ("Deployment", name))
    policy = cluster.controller.groups.policy_for(found)
    return None if policy is None else policy.name


async def test_a_change_of_a_policy_changes_what_applies(cluster: PolicyCluster) -> None:
    """An edit, an addition, and a deletion."""
    await cluster.deploy(1)
    assert applied(cluster) is None
    await cluster.policy("wide", selector={})
    assert applied(cluster) == "wide"
    await cluster.policy("narrow", selector={"matchLabels": {"app": "web"}})
    assert applied(cluster) == "narrow"
    narrow = {"spec": {"selector": {"matchLabels": {"app": "api"}}}}
    await cluster.user.patch(POLICIES, "narrow", narrow, namespace="default")
    await cluster.look()
    assert applied(cluster) == "wide"
    await cluster.drop_policy("wide")
    assert applied(cluster) is None


async def test_a_change_of_a_workloads_labels_changes_what_applies(cluster: PolicyCluster) -> None:
    """Those of its template."""
    await cluster.deploy(1)
    await cluster.policy("front", selector={"matchLabels": {"tier": "front"}})
    assert applied(cluster) is None
    labels = {"spec": {"template": {"metadata": {"labels": {"tier": "front"}}}}}
    await cluster.user.patch(Deployment, "web", labels, namespace="default")
    await cluster.look()
    assert applied(cluster) == "front"


async def test_a_workload_that_is_created_again_is_looked_up_again(cluster: PolicyCluster) -> None:
    """With the labels of the new one."""
    await cluster.deploy(1)
    await cluster.policy("web", selector={"matchLabels": {"app": "web"}})
    assert applied(cluster) == "web"
    await cluster.user.delete(Deployment, "web", namespace="default")
    await cluster.look()
    await cluster.create(Deployment, deployment("web", 1, labels={"app": "other"}))
    await cluster.look()
    assert applied(cluster) is None


async def test_all_policies_are_inspected_with_one_comparison_for_each_workload(
    cluster: PolicyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What applies to the workloads is known, also after statuses were written; nothing is compiled again."""
    compared: list[Selector] = []
    compiled: list[LabelSelector | None] = []
    matches, compiling = Selector.matches, selectors.compile

    def counted_matches(selector: Selector, labels: Mapping[str, str]) -> bool:
        compared.append(selector)
        return matches(selector, labels)

    def counted_compile(selector: LabelSelector | None) -> Selector:
        compiled.append(selector)
        return compiling(selector)

    for at in range(8):
        await cluster.create(Deployment, deployment(f"web-{at}", 0, labels={"app": f"web-{at}"}))
        await cluster.policy(f"both-{at}", selector=BOTH)
    inspector = PolicyInspector(cluster.view, cluster.controller.groups, cluster.controller.continuous)
    policies = list(cluster.view.policies_in("default"))
    await inspector.inspect(policies[0])
    monkeypatch.setattr(Selector, "matches", counted_matches)
    monkeypatch.setattr(selectors, "compile", counted_compile)
    found = [await inspector.inspect(policy) for policy in policies]
    assert [len(each.applies_to) + len(each.overridden_by) for each in found] == [8] * 8
    assert len(compared) == 8 * 8
    assert len(compiled) <= 8


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that the conflicts of a namespace are computed."""
    found: list[str] = []
    original: Callable[..., dict[str, tuple[WorkloadRef, ...]]] = conflicts.conflicts_by_uid

    def counted(workloads: list[WorkloadRef]) -> dict[str, tuple[WorkloadRef, ...]]:
        found.append("")
        return original(workloads)

    monkeypatch.setattr(conflicts, "conflicts_by_uid", counted)
    return found


async def test_conflicts_are_computed_again_when_a_selector_changes_and_not_on_a_new_size(
    cluster: PolicyCluster, computed: list[str]
) -> None:
    """Scale-downs are what policies are for."""
    await cluster.deploy(3)
    await cluster.policy()
    computed.clear()
    await cluster.scale(1)
    await cluster.look()
    assert computed == []
    await cluster.create(Deployment, deployment("other", 0, labels={"app": "web"}))
    await cluster.look()
    assert computed
    found = await cluster.condition("OverlappingSelectors")
    assert found is not None
    assert "Deployment web and Deployment other select the same pods" in found.message
    computed.clear()
    await cluster.user.delete(Deployment, "other", namespace="default")
    await cluster.look()
    assert computed
    assert await cluster.condition("OverlappingSelectors") is None


async def test_conflicts_are_not_computed_again_on_a_rollout(cluster: PolicyCluster, computed: list[str]) -> None:
    """Its ReplicaSets take no part in them, nor does an image; other labels of the pods do."""
    await cluster.deploy(3)
    await cluster.policy()
    computed.clear()
    sets = len(await replica_sets(cluster))
    await cluster.user.patch(Deployment, "web", in_template(annotations={"restarted": "now"}), namespace="default")
    await cluster.look()
    assert len(await replica_sets(cluster)) == sets + 1
    for name in await replica_sets(cluster):
        await cluster.user.delete(ReplicaSet, name, namespace="default")
    await cluster.look()
    assert computed == []
    await cluster.user.patch(Deployment, "web", in_template(labels={"tier": "front"}), namespace="default")
    await cluster.look()
    assert computed


def in_template(**metadata: dict[str, str]) -> dict[str, Any]:
    """A patch of the template of a workload."""
    return {"spec": {"template": {"metadata": metadata}}}


async def replica_sets(cluster: PolicyCluster) -> list[str]:
    """The names of all ReplicaSets."""
    return [each.metadata.name for each in (await cluster.user.list(ReplicaSet, namespace="default")).items]


async def test_conflicts_are_computed_again_when_a_replica_set_is_adopted_or_released(cluster: PolicyCluster) -> None:
    """One that a Deployment owns takes no part in them."""
    await cluster.deploy(0)
    owner = {**target("web"), "uid": (await cluster.get(Deployment, "web")).metadata.uid, "controller": True}
    for name in ("one", "two"):
        await cluster.create(ReplicaSet, {**deployment(name, 0, labels={"app": "both"}), "kind": "ReplicaSet"})
    await cluster.look()
    one = cluster.view.sets.get(Key("default/one"))
    assert one is not None

    async def found_after(*references: dict[str, Any]) -> list[str]:
        patch = {"metadata": {"ownerReferences": references}}
        written = await cluster.user.patch(Resource.of(ReplicaSet).raw, "two", patch, namespace="default")
        await cluster.view.sets.wait_seen(Key("default/two"), written["metadata"]["resourceVersion"])
        return [each.name for each in cluster.controller.groups.conflicting_with(workload_ref(one))]

    assert await found_after() == ["two"]
    assert await found_after(owner) == []
    assert await found_after() == ["two"]


async def test_conflicts_are_computed_again_when_a_workload_is_gone_before_it_was_reported(
    cluster: PolicyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups that are created later are told of many workloads a few at a time."""
    for name in ("one", "two"):
        await cluster.create(Deployment, deployment(name, 0, labels={"app": "both"}))
    await cluster.look()
    one = cluster.view.deployments.get(Key("default/one"))
    assert one is not None
    monkeypatch.setattr(informers, "PART", 1)
    groups = Groups(cluster.view, NO_DEFAULTS)
    assert [each.name for each in groups.conflicting_with(workload_ref(one))] == ["two"]
    cluster.view.deployments.informer._remove(Key("default/two"))  # noqa: SLF001 - before any other task runs
    assert groups.conflicting_with(workload_ref(one)) == ()


async def test_no_conflicts_are_kept_of_a_namespace_without_workloads(cluster: PolicyCluster) -> None:
    """Though a ReplicaSet is looked up after its Deployment is gone, as when a namespace is deleted."""
    groups = cluster.controller.groups
    await cluster.deploy(1)
    await cluster.policy(selector={})
    (ref,) = [each for each in groups.refs_in("default") if each.kind == "ReplicaSet"]
    assert groups._conflicts.keys() == {"default"}  # noqa: SLF001
    cluster.view.deployments.informer._remove(Key("default/web"))  # noqa: SLF001 - and the ReplicaSet not yet
    assert groups.conflicting_with(ref) == ()
    cluster.view.sets.informer._remove(Key(f"default/{ref.name}"))  # noqa: SLF001
    assert groups.conflicting_with(ref) == ()
    assert groups._conflicts == {}  # noqa: SLF001


async def test_nothing_is_kept_of_namespaces_without_policies(cluster: PolicyCluster) -> None:
    """Nor of those whose policies are gone."""
    kept = cluster.controller.groups._policies  # noqa: SLF001
    await cluster.deploy(1)
    assert applied(cluster) is None
    for keep in (True, False):
        assert kept.find(WorkloadRef("apps/v1", "Deployment", "other", "web", "u"), keep=keep) is None
    assert len(kept) == 0
    await cluster.policy()
    assert applied(cluster) == "web"
    assert len(kept) == 1
    await cluster.drop_policy()
    assert applied(cluster) is None
    assert len(kept) == 0


async def test_nothing_is_kept_of_workloads_that_are_gone(cluster: PolicyCluster) -> None:
    """The policies of their namespace are, while there are any."""
    kept = cluster.controller.groups._policies  # noqa: SLF001
    await cluster.deploy(1)
    await cluster.policy()
    assert kept._found.keys() == {"default"}  # noqa: SLF001
    await cluster.user.delete(Deployment, "web", namespace="default")
    for name in await replica_sets(cluster):
        await cluster.user.delete(ReplicaSet, name, namespace="default")
    await cluster.look()
    assert kept._found == {}  # noqa: SLF001
    await cluster.drop_policy()
    assert len(kept) == 0


async def test_other_tasks_run_while_many_workloads_are_looked_up(
    cluster: PolicyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may be compared with hundreds of policies."""
    await cluster.deploy(0)
    await cluster.policy("wide", selector={})
    (ref,) = [each for each in cluster.controller.groups.refs_in("default") if each.kind == "Deployment"]
    groups = cluster.controller.groups
    monkeypatch.setattr(groups, "refs_in", lambda _: [ref] * 100)
    looked_up: list[int] = []
    monkeypatch.setattr(groups, "policy_for", lambda _: looked_up.append(len(looked_up)))
    seen: list[int] = []

    async def look() -> None:
        while len(looked_up) < 100:
            seen.append(len(looked_up))
            await asyncio.sleep(0)

    await asyncio.gather(cluster.controller.reconcile(Key("default/gone")), look())
    assert seen == [20, 40, 60, 80]
