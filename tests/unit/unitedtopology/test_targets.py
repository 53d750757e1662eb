"""Workloads as targets: their size, their revision, whom their pods belong to."""

from __future__ import annotations

import pytest

from tests.lab.rollouts import REVISION, Rollout
from tests.unit.lab.workloads.objects import deployment, replicaset
from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON
from trimtab.testing.builders import uid_for
from trimtab.unitedtopology.targets import Target, target_of


def cloneset(revision: str) -> CloneSet:
    """A CloneSet of five pods."""
    tree = {
        "metadata": {"name": "web", "uid": "u"},
        "spec": {"replicas": 5, "selector": {}, "template": {}},
        "status": {"updateRevision": revision},
    }
    return codec.convert(tree, CloneSet)


def test_the_revision_of_a_deployment_is_its_newest_replicaset() -> None:
    """The one with the highest number: a rollback gives an old one a new number, whenever it was made."""
    sets = [
        replicaset("web-1", 1, revision=3, created="2026-01-01T00:00:00Z"),
        replicaset("web-2", 1, revision=2, created="2026-01-02T00:00:00Z"),
    ]
    found = target_of(deployment(4), sets)
    assert found.replicas == 4
    assert found.revision == uid_for("ReplicaSet/web-1")
    assert found.owners == {uid_for("ReplicaSet/web-1"), uid_for("ReplicaSet/web-2")}


def test_the_revision_of_a_kind_that_the_configuration_names_is_its_newest_replicaset() -> None:
    """By the annotation of its own controller."""
    sets = [
        codec.convert({"metadata": {"name": name, "uid": name, "annotations": {REVISION: number}}}, ReplicaSet)
        for name, number in (("web-1", "10"), ("web-2", "9"))
    ]
    found = target_of(codec.convert({"metadata": {"uid": "u"}, "spec": {"replicas": 4}}, Rollout), sets)
    assert found == Target("u", 4, "web-1", frozenset({"web-1", "web-2"}))


def test_a_deployment_without_replicasets_has_no_revision_yet() -> None:
    """It was created a moment ago."""
    assert target_of(deployment(4)) == Target(uid_for("Deployment/web"), 4)


@pytest.mark.parametrize(("group", "want"), [({"podGroupName": "gang"}, True), (None, False)])
def test_the_template_says_whether_pods_belong_to_a_scheduling_group(group: dict[str, str] | None, want: bool) -> None:
    """They are disrupted as their PodGroup says."""
    template: JSON = {"spec": {"containers": [], "schedulingGroup": group}}
    tree = {"metadata": {"name": "web", "uid": "u"}, "spec": {"selector": {}, "template": template}}
    assert target_of(codec.convert(tree, Deployment)).in_scheduling_group == want


def test_a_replicaset_is_its_own_revision() -> None:
    """All its pods are of one template."""
    uid = uid_for("ReplicaSet/web")
    assert target_of(replicaset("web", 2)) == Target(uid, 2, uid, frozenset({uid}))


@pytest.mark.parametrize(
    ("revision", "want"),
    [
        pytest.param("web-7d9f", "web-7d9f", id="a name"),
        pytest.param(f"{'w' * 60}-7d9f", "7d9f", id="a name that is too long for a label"),
        pytest.param("", "", id="none yet"),
    ],
)
def test_the_revision_of_a_cloneset_is_the_label_of_its_pods(revision: str, want: str) -> None:
    """The name, or the hash alone."""
    assert target_of(cloneset(revision)) == Target("u", 5, want, frozenset({"u"}))
