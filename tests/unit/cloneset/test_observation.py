"""The pods of a CloneSet, as columns."""

from __future__ import annotations

import pytest

from tests.unit.cloneset.test_victims import spec
from trimtab.api import selectors
from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE
from trimtab.api.meta import ObjectMeta
from trimtab.cloneset import observation
from trimtab.testing.builders import PodBuilder, cluster, pod, uid_for
from trimtab.testing.clocks import START

WEB = ObjectMeta(name="web", namespace="default", uid=uid_for("CloneSet/web"))
VERSION = "apps.kruise.io/v1alpha1"
SELECTOR = selectors.from_labels({"app": "web"})


def owned(name: str, **labels: str) -> PodBuilder:
    """A pod of the CloneSet."""
    return pod(name).labels(labels or {"app": "web"}).owned_by("web", kind="CloneSet", api_version=VERSION)


SNAPSHOT = (
    cluster("z: a")
    .with_pods(
        owned("mine"),
        owned("stray", app="api"),
        owned("going").terminating(),
        owned("failed").phase("Failed"),
        pod("orphan").labels(app="web"),
        pod("old-orphan").labels(app="web").terminating(),
        pod("elsewhere", namespace="other").labels(app="web"),
        pod("stranger").labels(app="api"),
        pod("theirs").labels(app="web").owned_by("other", kind="CloneSet", api_version=VERSION),
        pod("forged").labels(app="web").owned_by("web", kind="CloneSet", api_version="example.com/v1"),
    )
    .snapshot()
)


def test_members_are_active_owned_and_matching() -> None:
    """And those that were adopted just now, although their owner has not been seen. The table has all pods of the
    cluster: one of another kind, whose reference names the same UID, is none."""

    def names(*adopted: str) -> list[str]:
        uids = [uid_for(f"default/{name}") for name in adopted]
        rows = observation.members(SNAPSHOT.pods, WEB, SELECTOR, uids)
        group = observation.observe(SNAPSHOT.pods, rows, spec(), "web-1", START)
        return list(group.names)

    assert names() == ["mine"]
    assert names("orphan") == ["mine", "orphan"]


def test_what_is_misplaced() -> None:
    """Orphans of the namespace that match, and own pods that do not; no terminating pods, and none of other
    controllers."""
    found = observation.claimable(SNAPSHOT.pods, WEB, SELECTOR)
    assert sorted(each.metadata.name for each in found) == ["orphan", "stray"]


@pytest.mark.parametrize(
    ("label", "revision", "want"),
    [
        pytest.param("web-abc", "web-abc", True, id="by name"),
        pytest.param("abc", "web-abc", True, id="by its hash alone, where the name was too long"),
        pytest.param("web-xyz", "web-abc", False, id="another one"),
        pytest.param("", "web-abc", False, id="a pod that was adopted has none"),
        pytest.param("", "", False, id="none is not the same as none"),
    ],
)
def test_revisions_of_pods(label: str, revision: str, want: bool) -> None:
    """A pod is of the revision that its label names."""
    labels = {REVISION_HASH: label} if label else {}
    assert observation.is_of_revision(owned("p", app="web", **labels).build(), revision) is want


def test_specified_pods() -> None:
    """By the label, whatever its value, or by name."""
    assert observation.is_specified(owned("p", **{SPECIFIED_DELETE: "false"}).build(), ())
    assert observation.is_specified(owned("p").build(), {"p"})
    assert not observation.is_specified(owned("p").build(), {"q"})


def test_a_pod_that_is_not_running_is_not_ready() -> None:
    """A condition alone is not enough."""
    view = cluster("z: a").with_pods(owned("p").ready().phase("Pending"), owned("q").on("a").ready()).snapshot()
    group = observation.observe(view.pods, [0, 1], spec(), "web-1", START)
    assert group.ready.tolist() == [False, True]
    assert group.available.tolist() == [False, True]


def test_a_ready_pod_without_a_transition_time_is_not_available() -> None:
    """As in Kubernetes, where minReadySeconds asks for some time."""
    view = cluster("z: a").with_pods(owned("p").on("a").condition("Ready", "True")).snapshot()
    group = observation.observe(view.pods, [0], spec(minReadySeconds=5), "web-1", START)
    assert (group.ready.tolist(), group.available.tolist(), group.next_available) == ([True], [False], None)
    assert observation.observe(view.pods, [0], spec(), "web-1", START).available.tolist() == [True]


def test_an_empty_group() -> None:
    """Has no pods, and nothing to wait for."""
    group = observation.observe(SNAPSHOT.pods, [], spec(minReadySeconds=5), "web-1", START)
    assert (len(group), group.names, group.next_available) == (0, (), None)
