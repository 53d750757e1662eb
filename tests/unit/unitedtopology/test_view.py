"""What is found of pods by index."""

from __future__ import annotations

import pytest

from tests.lab.rollouts import OWNERS
from tests.unit.kube.fakes import ScriptedTransport
from tests.unit.subsets.topologies import subset, topology
from trimtab.api.annotations import SubsetAnnotations
from trimtab.kube.client import Client
from trimtab.testing.builders import PodBuilder, pod
from trimtab.unitedtopology.view import View, by_ended


def owned() -> PodBuilder:
    """A pod of a ReplicaSet, with subset annotations."""
    marked = pod("p", namespace="shop").annotations(SubsetAnnotations("spread", "a", "of-p").written())
    return marked.owned_by("web-1")


@pytest.mark.parametrize(
    ("subject", "want"),
    [
        pytest.param(owned(), (), id="one that runs has not ended"),
        pytest.param(owned().phase("Failed"), ("shop/spread",), id="one that failed has"),
        pytest.param(owned().phase("Succeeded"), ("shop/spread",), id="one that is done has"),
        pytest.param(owned().terminating(), (), id="for a deletion a webhook was called"),
        pytest.param(
            pod("p", namespace="shop").annotations(SubsetAnnotations("spread", "a").written()),
            ("shop/spread",),
            id="one that was released has",
        ),
        pytest.param(pod("p").phase("Failed"), (), id="one without annotations has no UnitedTopology"),
    ],
)
def test_the_index_of_ended_pods(subject: PodBuilder, want: tuple[str, ...]) -> None:
    """Pods that free capacity without a call to a webhook."""
    assert tuple(by_ended(subject.build())) == want


@pytest.mark.parametrize(
    ("absent", "problem", "known", "told"),
    [
        pytest.param(True, "no such kind", True, [], id="a cluster without CloneSets lacks nothing"),
        pytest.param(
            False, "forbidden", False, ["clonesets: forbidden"], id="CloneSets that cannot be read are lacking"
        ),
        pytest.param(False, "", False, [], id="CloneSets that are being read are lacking"),
    ],
)
def test_clonesets_are_cached_or_absent(absent: bool, problem: str, known: bool, told: list[str]) -> None:
    """Whatever else keeps them from being read is a problem, and no answer."""
    view = View(Client(ScriptedTransport()))
    informer = view.clonesets.informer
    informer.absent, informer.problem, informer.answers = absent, problem, int(absent)
    assert (view.is_known("CloneSet"), view.is_known("Deployment"), view.problems) == (known, True, told)


def test_a_kind_that_the_configuration_names_may_be_absent() -> None:
    """Then there are none of it; until that is known, its UnitedTopologies wait."""
    view = View(Client(ScriptedTransport()), owners=OWNERS)
    assert not view.is_known("Rollout")
    informer = view.custom["Rollout"].informer
    informer.absent, informer.problem, informer.answers = True, "no such kind", 1
    assert view.is_known("Rollout")
    assert view.problems == []


def test_members_are_kept_for_cached_pods_only() -> None:
    """Nothing reports the end of a pod that was listed uncached, or that was deleted before it became a member."""
    view = View(Client(ScriptedTransport()))
    assert view.member(owned().build(), topology(subset("a"))).subset == "a"
    assert view._members == {}  # noqa: SLF001 - it would grow
