"""Which parts of pods are kept once, and what is not kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trimtab.api import codec, pooling
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Container, Pod, PodSpec
from trimtab.api.pooling import PodPool, trim


def tree(name: str, *, restarts: int = 0, **annotations: str) -> dict[str, Any]:
    """A running pod of a template."""
    since = "2026-03-01T08:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled", "example.com/gate")
    return {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "annotations": annotations,
        },
        "spec": {"nodeName": f"node-of-{name}", "containers": [{"name": "main", "image": "web:1"}]},
        "status": {
            "phase": "Running",
            "podIP": "192.0.2.1",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds],
            "containerStatuses": [{"name": "main", "restartCount": restarts, "resources": {"requests": {"cpu": "1"}}}],
        },
    }


def test_pods_of_a_template_share_all_but_their_own_fields() -> None:
    """Statuses and annotations too; the values are those that were decoded."""
    trees = [tree("a", team="x"), tree("b", team="x"), tree("c", restarts=1, team="y")]
    pool = PodPool()
    first, second, third = (pool.adopt(codec.convert(each, Pod)) for each in trees)
    assert [first, second, third] == [codec.convert(each, Pod) for each in trees]
    assert first.spec.containers is second.spec.containers is third.spec.containers
    assert first.status.container_statuses is second.status.container_statuses
    assert first.status.container_statuses is not third.status.container_statuses
    assert first.metadata.annotations == second.metadata.annotations != third.metadata.annotations


def test_statuses_that_differ_in_one_container_share_the_others() -> None:
    """The restarts of each container vary, and their combinations are many."""
    trees = [tree("a"), tree("b")]
    for number, each in enumerate(trees):
        each["status"]["containerStatuses"].append({"name": "proxy", "restartCount": number})
    pool = PodPool()
    first, second = (pool.adopt(codec.convert(each, Pod)) for each in trees)
    assert [first, second] == [codec.convert(each, Pod) for each in trees]
    assert first.status.container_statuses[0] is second.status.container_statuses[0]
    assert first.status.container_statuses[1] is not second.status.container_statuses[1]


def test_pods_that_share_their_containers_share_the_rest_too() -> None:
    """`NodeScores` finds the pods of a template by the identity of their parts."""
    containers = (Container(name="main", image="web:1"),)
    pool = PodPool()
    first, second = (
        pool.adopt(Pod(spec=PodSpec(containers=containers, node_selector={"disk": "fast"}))) for _ in range(2)
    )
    assert first.spec.node_selector is second.spec.node_selector


def test_a_pod_that_another_pool_has_adopted_keeps_its_parts() -> None:
    """An informer's pods are put into snapshots: their objects are recognized and not replaced."""
    informer, snapshot = PodPool(), PodPool()
    pods = [informer.adopt(codec.convert(tree(name), Pod)) for name in ("a", "b")]
    parts = [(pod.spec, pod.status, pod.metadata) for pod in pods]
    for pod in pods:
        snapshot.adopt(pod)
    assert all(
        mine is now
        for pod, part in zip(pods, parts, strict=True)
        for mine, now in zip(part, (pod.spec, pod.status, pod.metadata), strict=True)
    )


def test_the_pod_that_was_adopted_last_is_not_examined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An informer and its snapshots have one pool; an event is adopted once."""
    examined: list[Any] = []
    alike = pooling._Part.alike  # noqa: SLF001 - counted

    def count(part: Any, one: Any, *more: Any, **named: Any) -> Any:
        examined.append(one)
        return alike(part, one, *more, **named)

    monkeypatch.setattr(pooling._Part, "alike", count)  # noqa: SLF001 - as above
    pool, pods = PodPool(), [codec.convert(tree(name), Pod) for name in ("a", "b")]
    for pod in (pods[0], pods[0], pods[1], pods[0]):
        assert pool.adopt(pod) is pod
    assert len(examined) == 3 * 3


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param({}, {"spec", "status", "annotations"}, id="nothing"),
        pytest.param({"restarts": 1}, {"spec", "annotations"}, id="restarts"),
        pytest.param({"team": "y"}, {"spec", "status"}, id="annotations"),
    ],
)
def test_a_new_version_keeps_the_objects_of_what_did_not_change(change: dict[str, Any], kept: set[str]) -> None:
    """Whatever other pods were adopted meanwhile; its value is the one that was decoded."""
    pool = PodPool()
    former = pool.adopt(codec.convert(tree("a", team="x"), Pod))
    for number in range(6):
        other = tree(f"other-{number}", restarts=number + 2, team=f"t{number}")
        other["spec"]["containers"][0]["image"] = f"other:{number}"
        pool.adopt(codec.convert(other, Pod))
    made = tree("a", **{"team": "x", **change})
    made["metadata"]["resourceVersion"] = "2"
    new = pool.adopt(codec.convert(made, Pod), former)
    assert new == codec.convert(made, Pod)
    same = {
        "spec": new.spec is former.spec,
        "status": new.status is former.status,
        "annotations": new.metadata.annotations is former.metadata.annotations,
    }
    assert {name for name, is_same in same.items() if is_same} == kept
    assert new.metadata.labels is former.metadata.labels


def test_a_version_on_another_node_shares_the_rest_of_its_spec() -> None:
    """The node is a field of the pod's own."""
    pool = PodPool()
    former = pool.adopt(codec.convert(tree("a"), Pod))
    made = tree("a")
    made["spec"]["nodeName"] = "another"
    new = pool.adopt(codec.convert(made, Pod), former)
    assert (new.spec.node_name, former.spec.node_name) == ("another", "node-of-a")
    assert new.spec.containers is former.spec.containers


def test_pods_of_a_template_one_after_another_are_not_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared with the pod before, which takes less."""
    packed: list[Any] = []

    def pack(value: Any) -> bytes:
        packed.append(value)
        return msgspec.msgpack.encode(value)

    monkeypatch.setattr(pooling, "_pack", pack)
    pool = PodPool()
    first = pool.adopt(codec.convert(tree("a", team="x"), Pod))
    packed.clear()
    second = pool.adopt(codec.convert(tree("b", team="x"), Pod))
    assert not [each for each in packed if each != second.metadata.annotations]
    assert second.spec.containers is first.spec.containers
    assert second.status.container_statuses is first.status.container_statuses
    assert second.metadata.labels is first.metadata.labels


def test_a_full_pool_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distinct templates never fill the memory, and values stay what they are."""
    monkeypatch.setattr(pooling, "_LIMIT", 2)
    pool = PodPool()
    for number in range(5):
        made = tree("a")
        made["spec"]["containers"][0]["image"] = f"web:{number}"
        assert pool.adopt(codec.convert(made, Pod)) == codec.convert(made, Pod)
    assert len(pool) <= 2


def test_conditions_that_nothing_reads_are_not_kept() -> None:
    """Those of others are: a strategy of a user may read them."""
    pod = trim(codec.convert(tree("a"), Pod))
    assert [each.type for each in pod.status.conditions] == ["Ready", "example.com/gate"]
    assert pod.ready


def test_an_unscheduled_pod_keeps_the_reason() -> None:
    """The scheduler's answer is read while there is no node."""
    made = tree("a")
    made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    condition = trim(codec.convert(made, Pod)).status.condition("PodScheduled")
    assert condition is not None
    assert condition.reason == "Unschedulable"


def test_annotations_of_network_plugins_are_not_kept() -> None:
    """All others are: a strategy may rank by any of them."""
    made = tree("a")
    made["metadata"]["annotations"] = {"cni.projectcalico.org/podIP": "192.0.2.1/32", "example.com/cost": "7"}
    assert trim(codec.convert(made, Pod)).metadata.annotations == {"example.com/cost": "7"}


def test_annotations_that_recur_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if pods with others were adopted in between; but not more of them than fit."""
    pool = PodPool()
    pods = [pool.adopt(codec.convert(tree(f"p{at}", team=team), Pod)) for at, team in enumerate("xyzy")]
    assert pods[3].metadata.annotations is pods[1].metadata.annotations
    monkeypatch.setattr(pooling, "_ANNOTATIONS_LIMIT", 2)
    for number in range(5):
        pool.adopt(codec.convert(tree(f"q{number}", team=str(number)), Pod))
    assert len(pool._annotations) <= 2  # noqa: SLF001 - the memory that it holds


def test_the_texts_of_conditions_are_kept_once() -> None:
    """Each is decoded anew, and there are few of them."""
    conditions = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    document = msgspec.json.encode({"metadata": {"name": "a"}, "status": {"conditions": conditions}})
    first, second = (trim(codec.decode(document, Pod)).status.conditions[0] for _ in range(2))
    assert first.reason is second.reason
    assert (first.type is second.type, first.status is second.status) == (True, True)


def test_trimming_takes_time_in_proportion_to_the_annotations() -> None:
    """Each name is looked at once: a pod may have tens of thousands of annotations that nothing reads."""

    class Name(str):
        """A name that counts how often it is compared."""

        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    annotations: Any = {Name(f"k8s.ovn.org/{number}"): "x" for number in range(1000)} | {Name("own"): "y"}
    trimmed = trim(Pod(metadata=ObjectMeta(name="p", annotations=annotations)))
    assert trimmed.metadata.annotations == {"own": "y"}
    assert Name.compared < 10


def test_very_large_parts_are_not_kept() -> None:
    """Pods that do not exist any longer would fill the memory; versions of one pod share them still."""
    pool = PodPool()
    large = {f"k{number}": "v" * 50 for number in range(2000)}
    pod = pool.adopt(Pod(spec=PodSpec(node_selector=large)))
    assert len(pool) == 0
    assert pool.adopt(Pod(spec=PodSpec(node_selector=dict(large))), pod).spec is pod.spec


def test_a_pool_of_many_bytes_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is limited in bytes, too: users choose how large a pod is."""
    monkeypatch.setattr(pooling, "_BYTES", 10_000)
    pool = PodPool()
    for number in range(50):
        pool.adopt(Pod(spec=PodSpec(node_selector={f"k{each}": f"v{number}" for each in range(100)})))
        assert len(pool) < 20
