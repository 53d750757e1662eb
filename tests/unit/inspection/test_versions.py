"""Former versions of objects, and the cluster as it was: compared with a replay of all changes up to a version."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from trimtab.api import codec
from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.inspection.versions import PastCluster, VersionLog
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import node, pod, uid_for

OWNERS = ("", "one", "two")
NODES = ("n1", "n2")
CHANGES = 120


def a_set(version: int, replicas: int) -> ReplicaSet:
    """A version of a ReplicaSet."""
    tree = {"metadata": {"name": "web", "namespace": "default", "resourceVersion": str(version)}}
    return codec.convert({**tree, "spec": {"replicas": replicas}}, ReplicaSet)


def a_pod(name: str, version: int, owner: str, on: str) -> Pod:
    """A version of a pod."""
    made = pod(name).on(on).requests(cpu=f"{version}m")
    built = (made.owned_by(owner) if owner else made).build()
    return msgspec.structs.replace(
        built, metadata=msgspec.structs.replace(built.metadata, resource_version=str(version))
    )


@dataclass
class History:
    """Random changes of a few pods: in a log and a snapshot, and one by one."""

    rng: random.Random
    log: VersionLog[Pod] = field(default_factory=VersionLog)
    snapshot: Snapshot = field(default_factory=lambda: snapshot_of(()))
    changes: list[tuple[int, str, Pod | None]] = field(default_factory=list)
    present: dict[str, Pod] = field(default_factory=dict)

    def begin(self) -> None:
        """Have a first list of pods."""
        for number in range(4):
            self.log.fill(self._put(f"p{number}", number + 1))

    def step(self, version: int) -> None:
        """Change, create or delete a pod."""
        name = f"p{self.rng.randrange(8)}"
        if name in self.present and self.rng.random() < 0.3:
            gone = self.present.pop(name)
            metadata = msgspec.structs.replace(gone.metadata, resource_version=str(version))
            self.log.drop(msgspec.structs.replace(gone, metadata=metadata), version)
            self.snapshot.drop(Pod, "default", name)
            self.changes.append((version, name, None))
        else:
            self.log.put(self._put(name, version), version)

    def at(self, version: int) -> dict[str, Pod]:
        """The slow twin: all changes up to a version, one after the other."""
        found: dict[str, Pod] = {}
        for number, name, content in self.changes:
            if number <= version and content is not None:
                found[name] = content
            elif number <= version:
                found.pop(name, None)
        return found

    def _put(self, name: str, version: int) -> Pod:
        made = a_pod(name, version, self.rng.choice(OWNERS), self.rng.choice(NODES))
        self.present[name] = made
        self.snapshot.put(made)
        self.changes.append((version, name, made))
        return made


def snapshot_of(pods: Iterable[Pod]) -> Snapshot:
    """The nodes with these pods."""
    made = Snapshot()
    for name in NODES:
        made.put(node(name, zone=name).build())
    for each in pods:
        made.put(each)
    return made


def requested(snapshot: Snapshot) -> dict[str, list[int]]:
    """What the pods of each node request."""
    return {name: snapshot.nodes.requested[snapshot.nodes.row_of(name)].tolist() for name in NODES}


def names(pods: Sequence[Pod]) -> list[str]:
    """Their names, in order."""
    return sorted(each.metadata.name for each in pods)


@pytest.mark.parametrize("seed", range(20))
def test_a_past_cluster_is_as_a_replay_of_all_changes_finds_it(seed: int) -> None:
    """Pods by name, by controller and without one, and the snapshot that decisions scan."""
    history = History(random.Random(seed))
    history.begin()
    for version in range(5, CHANGES):
        history.step(version)
    history.log.prune(before=CHANGES // 3)
    for version in (*range(CHANGES // 3, CHANGES, 7), None):
        want = history.at(CHANGES if version is None else version)
        past = PastCluster(0, logs={Pod: history.log}, version=version, followed=history.snapshot)
        assert names(past.all(Pod)) == sorted(want)
        for name in [f"p{number}" for number in range(8)]:
            assert past.find(Pod, "default", name) == want.get(name)
        for owner in OWNERS[1:]:
            uid = uid_for(f"ReplicaSet/{owner}")
            assert names(past.pods_of(uid)) == names([each for each in want.values() if _owner(each) == uid])
        assert names(past.orphans_in("default")) == names([each for each in want.values() if not _owner(each)])
        kept = [each for each in past.snapshot.pods.objects if each is not None]
        assert {each.metadata.name: each for each in kept} == want
        assert requested(past.snapshot) == requested(snapshot_of(want.values()))


def _owner(one: Pod) -> str:
    return "" if one.metadata.controller is None else one.metadata.controller.uid


def test_versions_are_kept_while_they_may_be_asked_for() -> None:
    """The last version before a moment is needed for every later moment; older ones, and objects long gone, are not."""
    log: VersionLog[ReplicaSet] = VersionLog()
    for number, replicas in ((1, 5), (4, 3), (9, 1)):
        log.put(a_set(number, replicas), now=number)
    assert [each.desired_replicas for each in log.as_of("default", 3)] == [5]
    assert [each.desired_replicas for each in log.as_of("default", 4)] == [3]
    assert [each.desired_replicas for each in log.as_of("default")] == [1]
    log.prune(before=9)
    assert [each.desired_replicas for each in log.as_of("default", 8)] == [3]
    assert list(log.as_of("default", 3)) == []
    log.drop(a_set(12, 1), now=12)
    assert list(log.as_of("default")) == []
    log.prune(before=100)
    assert list(log.as_of("default", 200)) == []


def test_a_workload_counts_in_place_of_the_one_of_its_name() -> None:
    """A plan is made for the size before the request, which the version of the request does not have any more."""
    log: VersionLog[ReplicaSet] = VersionLog()
    log.put(a_set(4, 3), now=4)
    past = PastCluster(0, logs={ReplicaSet: log, Pod: VersionLog()}, version=4, workload=a_set(1, 5))
    assert [each.desired_replicas for each in past.all(ReplicaSet)] == [5]
    found = past.find(ReplicaSet, "default", "web")
    assert found is not None
    assert found.desired_replicas == 5
