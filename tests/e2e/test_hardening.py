"""One bad object, one forged call or one busy minute does not stop an installation: each case on a real control plane.

The installation runs as processes with its printed permissions (`hostility`). Parts of one case have tests elsewhere:
who may write patches, and what the controllers may not do, in `test_privileges`; consent in `test_unitedtopology`.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bench.soak.players import TOPOLOGIES, UNREADABLE, deep, forged_pod, forged_scale, unreadable, wide
from tests.e2e import attacks
from tests.e2e.clusters import Cluster, marks
from tests.e2e.hostility import COMPONENTS, SIZE, Victim, installed, observed
from tests.e2e.processes import CONTROLLERS, WEBHOOKS
from tests.e2e.test_unitedtopology import eventually
from tests.lab.policing import POLICIES, Workers
from trimtab.api import complexity, crds
from trimtab.api.annotations import DELETION_COST, POLICY_COST, SCALE_PLAN, SUBSET
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import Service
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.errors import Invalid, NotFound
from trimtab.kube.resources import Resource, untyped
from trimtab.kube.sessions import Session

pytestmark = [*marks, pytest.mark.asyncio(loop_scope="module")]

Record = Callable[[str, object], None]

DEPTH = 1400
VALUES = 300_000
"""Values that fit in an object of an API server."""
WATCHERS = (WEBHOOKS, CONTROLLERS)
"""The components that watch our own kinds."""
STRANGE = {"policy": "ScaleDownPolicy", "subset": "UnitedTopology", "cloneset": "CloneSet"}
"""The unreadable objects. A deep pod can be read: what is deep in it, `managedFields`, is never decoded."""
SECRET = {"spec": {"containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": "hunter2"}]}]}}
DEFINITION = "unitedtopologies.apps.kruise.io"
SLICES = untyped("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
BUDGET_AND_ANSWER = 2.25
"""Seconds within which a request is answered: a budget of two, and a quarter of a second, after which it is noticed at
most that the loop had no processor."""
CONNECTING = 0.25
"""Seconds that a caller needs for its connection, and for reading the answer, where the processors are busy."""
STALL = 2.5
"""Seconds that an event loop is never late, the next limit of the histogram above the two that a request is held for;
before there were limits on reviews, it was 15."""
PROBE = 5.0
"""Seconds within which a kubelet wants an answer to a probe (`timeoutSeconds` of the printed Deployments)."""
SLACK = 64.0
"""MiB that a process may keep of a burst: the buffers of the connections that it allows, and fragments."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victim() -> AsyncIterator[Victim]:
    """An installation."""
    async with Client(Session(config.discover())) as client, installed(client) as made:
        yield made


# 1. Objects that cannot be read


@pytest.mark.parametrize(
    ("form", "value", "is_too_complex"),
    [
        pytest.param("deep", deep(DEPTH), partial(complexity.is_too_deep, limit=DEPTH), id="deep"),
        pytest.param("wide", wide(VALUES), partial(complexity.has_more_values, limit=VALUES), id="of many values"),
    ],
)
async def test_unreadable_objects_are_skipped_and_reported(
    victim: Victim, form: str, value: str, is_too_complex: Callable[[bytes], bool], record_property: Record
) -> None:
    """Also by processes that find them when they start. Everything else goes on."""
    kinds = UNREADABLE if form == "deep" else STRANGE  # no form of managedFields has many values in few bytes
    for kind in kinds:
        path, body = unreadable(kind, f"{form}-{kind}", value)
        stored = await victim.client.call("POST", path.format(victim.strange), body=body)
        assert is_too_complex(stored.body)
    await eventually(lambda: are_reported(victim, form))

    async def have_events() -> bool:
        return await victim.kinds_with_event(victim.strange, "Unreadable", form) == set(STRANGE.values())

    await eventually(have_events)
    for component in COMPONENTS:
        await victim.restart(component)
    await eventually(lambda: are_reported(victim, form))
    await victim.check_works()
    for kind in kinds:
        path, _ = UNREADABLE[kind]
        await victim.client.call("DELETE", f"{path.format(victim.strange)}/{form}-{kind}")
    late = {component: await victim.lags_above(0.25, component) for component in COMPONENTS}
    record_property("late", f"event loop above 0.25 s: {late}")


async def are_reported(victim: Victim, form: str) -> bool:
    """Whether both components are ready, name each object in detail, and count it."""
    for component in WATCHERS:
        text = await victim.readiness(component)
        lines = [f"{kind} {victim.strange}/{form}-{name} cannot be read" for name, kind in STRANGE.items()]
        name = "trimtab_unreadable_objects_total"
        counts = [await victim.trimtab.sample(name, component, kind=kind) for kind in STRANGE.values()]
        if not (text.startswith("ok\n") and all(line in text for line in lines) and all(counts)):
            return False
    return True


# 2. Work without bound


async def test_wide_objects_and_large_bodies_are_refused_while_everything_goes_on(
    victim: Victim, record_property: Record
) -> None:
    """By the schema, by the type, and by size before they are read. Leases are kept, and probes answered."""
    await eventually(lambda: has_leaders(victim))
    leases = await victim.leases()
    entry: JSON = {"name": "Balance", "threshold": 1}
    large = {size: attacks.large_review(victim.sandbox.name, size << 20) for size in (1, 3, 8, 32)}
    async with observed(victim) as observers:
        wide = attacks.policy("wide", *[entry] * 10_000)
        with pytest.raises(Invalid, match=r"spec\.strategies: Too many: 10000: must have at most \d+ items"):
            await victim.client.create(POLICIES.raw, wide, namespace=victim.sandbox.name)
        for entries, reason in (
            (10_000, "spec.strategies: has too many entries"),
            (100_000, complexity.TOO_MANY_VALUES),
        ):
            wide = attacks.policy_review(victim.sandbox.name, attacks.policy("wide", *[entry] * entries))
            await eventually(partial(is_refused, victim, wide, reason))
        for megabytes, body in large.items():
            assert await attacks.send_large(victim, body) in ({200} if megabytes <= 3 else {413, 0})
    assert await victim.leases() == leases
    longest = {name: f"{each.longest:.2f} s" for name, each in observers.items()}
    record_property("readyz", f"answered within {longest}")
    assert {code for each in observers.values() for code in each.answers} == {200}
    assert max(each.longest for each in observers.values()) < PROBE
    for component in COMPONENTS:
        assert await victim.lags_above(STALL, component) == 0, f"{component}: {victim.trimtab.log(component)}"
    await victim.check_works()


async def test_a_pod_on_a_node_takes_no_room_in_tables_with_what_it_invents(victim: Victim) -> None:
    """Thousands of resources that no node has, and more affinity terms than count, which its event says."""
    node = (await victim.client.list(Node)).items[0].metadata.name
    amounts = {f"example.com/r{number}": "1" for number in range(5000)}
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{number}"}}} for number in range(200)]
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": amounts, "limits": amounts}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    body: JSON = {"metadata": {"name": "inventor"}, "spec": {"nodeName": node, "affinity": affinity}}
    body["spec"]["containers"] = [container]
    await victim.client.create(Pod, body, namespace=victim.strange)

    async def is_told() -> bool:
        return "Pod" in await victim.kinds_with_event(victim.strange, "IgnoredRules", "inventor")

    await eventually(is_told)
    await victim.check_works()
    await victim.client.delete(Pod, "inventor", namespace=victim.strange, grace_period_seconds=0)


async def test_rules_that_are_too_many_are_ignored_and_reported(victim: Victim) -> None:
    """On the Service, and on the workload whose scale-downs keep to some of its constraints."""
    selector = {f"l{number}": "" for number in range(2001)}
    service = {"metadata": {"name": "many-labels"}, "spec": {"clusterIP": "None", "selector": selector}}
    await victim.client.create(Service, service, namespace=victim.strange)
    workload = victim.sandbox.deployment("many-constraints", 0)
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {"topologyKey": f"example.com/k{number}", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        for number in range(17)
    ]
    await victim.client.create(Deployment, workload, namespace=victim.strange)

    async def are_told() -> bool:
        return await victim.kinds_with_event(victim.strange, "IgnoredRules", "many") == {"Service", "Deployment"}

    await eventually(are_told)
    assert await victim.trimtab.sample("trimtab_ignored_rules_total", CONTROLLERS, kind="Deployment") == 1
    await victim.client.delete(Service, "many-labels", namespace=victim.strange)
    await victim.client.delete(Deployment, "many-constraints", namespace=victim.strange)


async def is_refused(victim: Victim, review: JSON, reason: str) -> bool:
    """Whether validation refuses a review. It is admitted if its megabytes arrive too late: the schema refuses it."""
    answer = await victim.send("/validate", review)
    return not answer["allowed"] and reason in answer["status"]["message"]


async def has_leaders(victim: Victim) -> bool:
    """Whether every component leads."""
    return len(await victim.leases()) == len(COMPONENTS)


async def test_a_pod_with_thousands_of_rules_does_not_keep_others_waiting(victim: Victim) -> None:
    """Trimtab's scheduler leaves it alone, and says so in its condition."""
    made = victim.sandbox
    expression = {"key": "none", "operator": "Exists"}
    terms = [{"matchExpressions": [expression]}] * 10_000
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    spec = {**made.deployment("any", 1)["spec"]["template"]["spec"], "schedulerName": made.name}
    for name, more in (("ruled", {"affinity": affinity}), ("plain", {})):
        await victim.client.create(Pod, {"metadata": {"name": name}, "spec": {**spec, **more}}, namespace=made.name)

    async def is_told() -> bool:
        found = await victim.client.get(Pod, "ruled", namespace=made.name)
        return any("nodeAffinity has 20,000 entries" in each.message for each in found.status.conditions)

    async def is_placed() -> bool:
        return bool((await victim.client.get(Pod, "plain", namespace=made.name)).spec.node_name)

    await eventually(is_told)
    await eventually(is_placed)
    for name in ("ruled", "plain"):
        await victim.client.delete(Pod, name, namespace=made.name, grace_period_seconds=0)


# 3. Forged reviews


async def test_forged_reviews_learn_nothing_fill_nothing_and_grow_nothing(victim: Victim) -> None:
    """With an invented UID, and with that of an owner that has all its pods; its later pods get the subset."""
    client, made = victim.client, victim.sandbox
    await client.create(Deployment, made.deployment("united", 2), namespace=made.name)
    await made.settled(SIZE + 2)
    tree = attacks.topology("united", {"name": "own", "maxReplicas": 10, "patch": SECRET}, {"name": "rest"})
    await client.create(TOPOLOGIES, tree, namespace=made.name)
    await eventually(lambda: are_counted(victim, 2))
    found = (await client.list(ReplicaSet, namespace=made.name)).items
    (owner,) = [each.metadata for each in found if each.metadata.name.startswith("united-")]
    before = len(json.dumps(await status(victim)))
    for uid in ("invented", owner.uid):
        answers = await attacks.forge_pods(victim, owner.name, uid, 1500)
        assert {(each["allowed"], each.get("patch")) for each in answers} == {(True, None)}
    name = "trimtab_subset_reservations_refused_total"
    for reason in ("owner-not-found", "not-wanted"):
        assert await victim.trimtab.sample(name, reason=reason) > 0  # others came too late to be looked up
    assert len(json.dumps(await status(victim))) < before + 100
    await made.scale("united", 6)
    await made.settled(SIZE + 6)
    pods = [pod.metadata for pod in made.pods.store if pod.metadata.labels["app"] == "united"]
    assert [pod.annotations.get(SUBSET) for pod in pods] == ["own"] * 6
    await client.delete_all(UnitedTopology, namespace=made.name)
    await client.delete(Deployment, "united", namespace=made.name, propagation="Background")
    await made.settled(SIZE)


async def status(victim: Victim) -> Any:
    """The status of the UnitedTopology."""
    return (await victim.client.get(TOPOLOGIES, "united", namespace=victim.sandbox.name)).get("status", {})


async def are_counted(victim: Victim, count: int) -> bool:
    """Whether the status counts so many pods."""
    return bool((await status(victim)).get("replicas") == count)


async def test_plans_on_pods_of_others_decide_nothing(victim: Victim) -> None:
    """A pod without an owner claims that the next scale-down is planned already, by another process."""
    client, made = victim.client, victim.sandbox
    found = await client.get(Deployment, "web", namespace=made.name)
    annotations = {SCALE_PLAN: attacks.forged_plan(found, to=SIZE // 2), DELETION_COST: "-5"}
    body = {"metadata": {"name": "stranger", "annotations": annotations}}
    body["spec"] = made.deployment("stranger", 1)["spec"]["template"]["spec"]
    await client.create(Pod, body, namespace=made.name)
    await made.settled(SIZE + 1)
    before = await decided(victim)
    await made.scale("web", SIZE // 2)
    await made.settled(SIZE // 2 + 1)
    assert await decided(victim) == before + 1
    await client.delete(Pod, "stranger", namespace=made.name, grace_period_seconds=0)
    await made.scale("web", SIZE)
    await made.settled(SIZE)


async def decided(victim: Victim) -> float:
    """How many requests were planned, or needed no plan."""
    name = "trimtab_scaledown_requests_total"
    return sum([await victim.trimtab.sample(name, outcome=each) for each in ("planned", "as-stock")])


async def has_lost(victim: Victim, pod: str, *annotations: str) -> bool:
    """Whether a pod does not have these annotations any more."""
    return not set(annotations) & set(await victim.annotations(pod))


async def test_install_finds_the_addresses_of_api_servers(victim: Victim, control_plane: Path) -> None:
    """Those that the cluster publishes. A lab's own is that of every machine, and not published."""
    address = "192.0.2.10"
    labels = {"kubernetes.io/service-name": "kubernetes"}
    tree = {"metadata": {"name": "kubernetes-tried", "labels": labels}, "addressType": "IPv4"}
    await victim.client.create(SLICES, {**tree, "endpoints": [{"addresses": [address]}]}, namespace="default")
    text = Cluster(control_plane).trimtab("install", "--api-server-cidr", "auto", "--output", "json")
    policies = [each["spec"] for each in json.loads(text)["items"] if each["kind"] == "NetworkPolicy"]
    sources = [source for spec in policies for rule in spec["ingress"] for source in rule.get("from", ())]
    assert {"ipBlock": {"cidr": f"{address}/32"}} in sources
    await victim.client.delete(SLICES, "kubernetes-tried", namespace="default")


# 4. Privileges


@pytest.mark.parametrize(
    ("field", "patch"),
    [
        ("serviceAccountName", {"serviceAccountName": "other"}),
        ("hostNetwork", {"hostNetwork": True}),
        ("hostPath", {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}),
        ("securityContext", {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}),
    ],
)
async def test_privileges_of_patches_need_consent(victim: Victim, field: str, patch: JSON) -> None:
    """Whoever writes them: here it is the cluster's administrator."""
    tree = attacks.topology("web", {"name": "a", "patch": {"spec": patch}})
    with pytest.raises(Invalid, match=f'needs consent: an administrator can add "{field}"'):
        await victim.client.create(TOPOLOGIES, tree, namespace=victim.sandbox.name)


# 5. Sweeps


async def test_a_forged_previous_cost_is_never_written(victim: Victim, control_plane: Path) -> None:
    """The running processes remove the cost, and send nothing that the API server has to refuse."""
    client, made = victim.client, victim.sandbox
    found = await client.get(Deployment, "web", namespace=made.name)
    forged = {
        SCALE_PLAN: attacks.forged_plan(found, to=1, at=1, before="not-an-integer"),
        POLICY_COST: attacks.forged_cost("9" * 40),
    }
    with audit_log(control_plane).open() as audit:
        audit.seek(0, 2)
        for pod, (key, value) in zip(made.pods.store, forged.items(), strict=False):
            change = {"metadata": {"annotations": {key: value, DELETION_COST: "-5"}}}
            name = pod.metadata.name
            await client.patch(Pod, name, change, namespace=made.name)
            await eventually(lambda name=name, key=key: has_lost(victim, name, key, DELETION_COST))  # type: ignore[misc]
        refused = [line for line in audit if '"code":422' in line and victim.trimtab.namespace in line]
    assert refused == []


def audit_log(kubeconfig: Path) -> Path:
    """Where a lab records all requests."""
    return kubeconfig.parent / "logs" / "audit.log"


async def test_a_removal_passes_over_refusals_and_lists_them(victim: Victim, control_plane: Path) -> None:
    """A pod that nobody may update keeps its annotation, another one does not; then the rest can be done."""
    annotations = {POLICY_COST: attacks.forged_cost("not-an-integer"), DELETION_COST: "-5"}
    async with attacks.frozen(victim):
        for name in ("frozen", "free"):
            await attacks.create_pod(victim, name, name, annotations)
        code, text = await attacks.uninstall(control_plane, f"none-{secrets.token_hex(3)}")
    assert code == 1
    assert f"could not be done: costs kept current by policies: {victim.strange}/frozen:" in text
    assert "1 steps could not be done; correct what is named and run this again" in text
    assert await victim.annotations("free", victim.strange) == {}
    code, text = await attacks.uninstall(control_plane, f"none-{secrets.token_hex(3)}")
    assert (code, "could not be done" in text) == (0, False)
    assert await victim.annotations("frozen", victim.strange) == {}
    await victim.client.delete_all(Pod, namespace=victim.strange, grace_period_seconds=0)


# 7. Connections


async def test_memory_is_returned_after_a_burst_of_connections(victim: Victim, record_property: Record) -> None:
    """400 slow connections, and then 2,000 quick ones at once."""
    before = victim.memory()
    slow = await asyncio.gather(*(attacks.connect_slowly(victim.port) for _ in range(400)), return_exceptions=True)
    quick = await asyncio.gather(*(attacks.call_quickly(victim.port) for _ in range(2000)))
    peak = victim.memory()

    async def is_returned() -> bool:
        return victim.memory() <= before + SLACK

    await eventually(is_returned)
    record_property("memory", f"{before:.0f} MiB, then {peak:.0f}, then {victim.memory():.0f}; {sum(quick)} answers")
    assert any(quick), "slow connections do not keep out all others"
    for each in slow:
        if isinstance(each, asyncio.StreamWriter):
            each.transport.abort()
    await victim.check_works()


async def test_requests_are_answered_in_time_under_overload(victim: Victim, record_property: Record) -> None:
    """Counted from their arrival: large reviews arrive all the time, and busy loops share the processors."""
    name = "trimtab_webhook_review_duration_seconds"
    before = await victim.trimtab.sample(f"{name}_count", hook="scale")
    with attacks.overload(loops=2 * (os.cpu_count() or 1)):
        times = await attacks.hold_under_load(victim, rounds=12)
    record_property("answered", f"within {max(times):.2f} s as the caller sees it, {len(times)} requests")
    assert max(times) < BUDGET_AND_ANSWER + CONNECTING

    async def were_all_in_time() -> bool:
        within = await victim.trimtab.sample(f"{name}_bucket", hook="scale", le=str(BUDGET_AND_ANSWER))
        count = await victim.trimtab.sample(f"{name}_count", hook="scale")
        assert count - before >= len(times)
        return within == count  # unless one is answered in between

    await eventually(were_all_in_time)


# 8. Small leaks


async def test_an_answer_to_a_probe_is_shown_nowhere(victim: Victim) -> None:
    """Neither in the policy's status nor in a log."""
    workers = Workers(victim.sandbox)
    await workers.employ()
    workers.answers = {pod.metadata.name: "token=hunter2" for pod in victim.sandbox.pods.store}
    probe: JSON = {"name": "Probe", "args": {"port": workers.port, "path": "/cost", "periodSeconds": 5}}
    await victim.client.create(POLICIES.raw, attacks.policy("probing", probe), namespace=victim.sandbox.name)

    async def is_refused() -> bool:
        found = json.dumps(await victim.client.get(POLICIES.raw, "probing", namespace=victim.sandbox.name))
        assert "hunter2" not in found
        return "its answer is not a number" in found

    await eventually(is_refused)
    for component in COMPONENTS:
        assert "hunter2" not in (victim.trimtab.folder / f"{component}.log").read_text()
    await victim.client.delete_all(POLICIES, namespace=victim.sandbox.name)


@pytest.mark.parametrize("name", ["..", "../../secrets/x", "a%2f.."])
async def test_names_that_change_a_path_are_not_read(victim: Victim, control_plane: Path, name: str) -> None:
    """Neither as workloads nor as owners of pods, nor as namespaces: the API server is not asked."""
    with audit_log(control_plane).open() as audit:
        audit.seek(0, 2)
        for namespace in (victim.sandbox.name, name):
            assert (await victim.send("/scale", forged_scale(name, namespace, 1)))["allowed"]
            answer = await victim.send("/pods", forged_pod(namespace, name))
            assert (answer["allowed"], answer.get("patch")) == (True, None)
        asked = [json.loads(line)["requestURI"] for line in audit if victim.trimtab.namespace in line]
    assert not [each for each in asked if "secrets/x" in each or ".." in each or "2f" in each.lower()]


# 6. A kind that is missing


async def test_scale_downs_go_on_without_united_topologies(victim: Victim) -> None:
    """Also after a restart. Reviews of pods are admitted and counted; when the kind comes back, it works again."""
    counted = partial(victim.trimtab.sample, "trimtab_webhook_reviews_total", hook="pods")
    async with observed(victim) as observers:
        await victim.client.delete(CustomResourceDefinition, DEFINITION)
        await eventually(lambda: is_missing(victim))
        before = await counted()
        assert (await victim.send("/pods", forged_pod(victim.sandbox.name, "none")))["allowed"]
        assert await counted() == before + 1
        await victim.check_works()
    assert {code for each in observers.values() for code in each.answers} == {200}
    await victim.restart(WEBHOOKS)
    await victim.check_works()
    (definition,) = [each for each in crds.manifests() if each["metadata"]["name"] == DEFINITION]
    await victim.client.create(Resource.of(CustomResourceDefinition).raw, definition)
    await eventually(lambda: is_reconciled(victim))


async def is_missing(victim: Victim) -> bool:
    """Whether UnitedTopologies are not served."""
    try:
        await victim.client.list(TOPOLOGIES, namespace=victim.sandbox.name)
    except NotFound:
        return True
    return False


async def is_reconciled(victim: Victim) -> bool:
    """Whether the controllers report on a UnitedTopology, which is created if it can be."""
    try:
        return bool((await status(victim)).get("conditions"))
    except NotFound:
        tree = attacks.topology("united", {"name": "own"})
        with suppress(NotFound):
            await victim.client.create(TOPOLOGIES, tree, namespace=victim.sandbox.name)
        return False
