"""Open plans: what they take over from earlier ones, and how many pods went against them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.scaledown.results.test_history import checked
from trimtab.api.annotations import PlanAnnotation
from trimtab.api.cloneset import REVISION_HASH
from trimtab.api.pods import Pod
from trimtab.scaledown.results.open_plans import OpenPlan, Resize, resizes_of
from trimtab.testing.builders import PodBuilder, pod, uid_for


def made(name: str, revision: str = "") -> PodBuilder:
    """A pod of a ReplicaSet, or of one revision of a CloneSet."""
    built = pod(name).owned_by("web")
    return built.labels({REVISION_HASH: revision}) if revision else built


def uid(name: str) -> str:
    """The UID of such a pod."""
    return made(name).build().metadata.uid


def plan(name: str = "p", *, victims: str = "", survivors: str = "", **fields: object) -> OpenPlan:
    """A plan for these pods, named by letters."""
    found = OpenPlan(name, "u", 2, {}, {uid(each): "zone" for each in victims}, frozenset(map(uid, survivors)))
    for field, value in fields.items():
        setattr(found, field, value)
    return found


def left(names: str, revision: str = "") -> list[Pod]:
    """The pods that are still there."""
    return [made(name, revision).build() for name in names]


def counted(found: OpenPlan, remaining: list[Pod]) -> dict[str, int]:
    """How many misses, by cause."""
    return {cause.value: count for cause, count in found.misses(remaining).items() if count}


@pytest.mark.parametrize(
    ("revisions", "revision", "want"),
    [
        pytest.param(set[str](), "", "lag", id="no CloneSet"),
        pytest.param({"r1"}, "web-r1", "lag", id="all of one revision"),
        pytest.param({"r0"}, "web-r1", "earlier-criterion", id="an older revision goes first"),
    ],
)
def test_a_cloneset_with_pods_of_several_revisions_goes_by_revision_first(
    revisions: set[str], revision: str, want: str
) -> None:
    """One pod was deleted instead of another."""
    found = plan(victims="a", survivors="bc", is_complete=True, revisions=revisions)
    assert counted(found, left("ac", revision)) == {want: 1}


@pytest.mark.parametrize(
    ("fields", "remaining", "want"),
    [
        pytest.param({"is_complete": True}, "cd", {}, id="other pods without costs went"),
        pytest.param({"is_complete": True}, "acd", {"lag": 1}, id="a victim with a cost was spared"),
        pytest.param({}, "acd", {"unwritten": 1}, id="and not all costs were written"),
        pytest.param({"is_complete": True}, "d", {"lag": 1}, id="a survivor with a cost went"),
        pytest.param({"is_complete": True}, "a", {"lag": 1}, id="one spared, one lost: one miss"),
        pytest.param(
            {"is_complete": True, "ready": {uid("c"): False}}, "ad", {"earlier-criterion": 1}, id="it was not ready"
        ),
        pytest.param({"is_complete": True, "ready": {uid("c"): True}}, "ad", {"lag": 1}, id="it was ready"),
        pytest.param(
            {"is_complete": True, "deleted_elsewhere": {uid("c")}}, "d", {}, id="a survivor was deleted by others"
        ),
    ],
)
def test_where_only_the_level_is_determined_costs_count(
    fields: dict[str, Any], remaining: str, want: dict[str, int]
) -> None:
    """Two victims and two survivors, of which one each has a cost."""
    costs = frozenset({uid("a"), uid("c")})
    found = plan(victims="ab", survivors="cd", is_exact=False, with_costs=costs, **fields)
    assert counted(found, left(remaining)) == want


def test_a_later_plan_takes_over_what_an_earlier_one_has_not_finished() -> None:
    """Its victims, unless they stay now; what was seen of it; and its annotations."""
    earlier = plan("p1", victims="ab", survivors="c", rewrites=2, is_rolling=True, supersedes=frozenset({"p0"}))
    earlier.ready, earlier.deleted_elsewhere, earlier.revisions = {uid("x"): False}, {uid("y")}, {"r1"}
    earlier.resizes = {"old": Resize(5, 4), "web": Resize(9, 8)}
    later = plan("p2", victims="c", survivors="b", rewrites=1)
    later.resizes = {"web": Resize(8, 7)}
    later.supersede(earlier)
    assert set(later.victims) == {uid("a"), uid("c")}
    assert (later.ready, later.deleted_elsewhere, later.revisions) == ({uid("x"): False}, {uid("y")}, {"r1"})
    assert (later.rewrites, later.is_rolling) == (3, True)
    assert later.resizes == {"old": Resize(5, 4), "web": Resize(8, 7)}
    assert later.supersedes == {"p0", "p1"}


@pytest.mark.parametrize(
    ("fields", "is_for", "is_answer"),
    [
        pytest.param({"request": checked(), "answered": 1, "is_complete": True}, True, True, id="answered"),
        pytest.param({"request": checked(), "answered": 1}, True, False, id="answered without all costs"),
        pytest.param({"request": checked(), "is_complete": True}, True, False, id="being answered"),
        pytest.param(
            {"request": checked(after=4), "answered": 1, "is_complete": True}, False, False, id="another size"
        ),
        pytest.param({"answered": 1, "is_complete": True}, False, False, id="without a request"),
    ],
)
def test_a_repeated_request_is_recognized(fields: dict[str, Any], is_for: bool, is_answer: bool) -> None:
    """It is answered at once if its plan was complete."""
    found = plan(**fields)
    assert (found.is_for(checked()), found.is_answer_to(checked())) == (is_for, is_answer)


def annotation(name: str, *, at: int = 1, was: int = 9, share: int = 6) -> PlanAnnotation:
    """An annotation of a plan."""
    return PlanAnnotation(
        plan=name, workload="Deployment/web", uid="u", generation=1, to=6, at=at, was=was, share=share
    )


@pytest.mark.parametrize(("name", "want"), [("p", True), ("earlier", True), ("other", False)])
def test_a_plan_covers_its_own_annotations_and_those_that_it_supersedes(name: str, want: bool) -> None:
    """And no annotation is none of them."""
    found = plan(supersedes=frozenset({"earlier"}))
    assert found.covers(annotation(name)) is want
    assert found.covers(None) is False


def test_the_latest_annotation_of_a_controller_has_its_sizes() -> None:
    """In whatever order the pods come; a pod without a controller has none."""
    pods = [
        (made("a").build(), annotation("p", at=2, was=9, share=6)),
        (made("b").build(), annotation("p", at=3, was=6, share=4)),
        (made("c").build(), annotation("p", at=1, was=12, share=9)),
        (pod("d").owned_by("old").build(), annotation("p", at=1, was=3, share=2)),
        (pod("e").build(), annotation("p", at=9)),
    ]
    want = {uid_for("ReplicaSet/web"): Resize(6, 4), uid_for("ReplicaSet/old"): Resize(3, 2)}
    assert resizes_of(pods) == resizes_of(pods[::-1]) == want
