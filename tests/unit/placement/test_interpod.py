"""Affinity between pods. Tests cite the numbered rules at the head of `placement/interpod.py`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.plugin_clusters import (
    PREFERRED,
    REQUIRED,
    agrees,
    filtered,
    incoming_pods,
    sample_clusters,
    scored,
)
from tests.unit.placement.plugin_twins import NEVER, NO, PASSED, ScoresByNode, Verdicts
from tests.unit.placement.samples import SampleCluster
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import InterPodAffinityArgs
from trimtab.placement.framework import Cycle
from trimtab.placement.interpod import InterPodAffinity
from trimtab.snapshot import Snapshot, nodes
from trimtab.testing.builders import PodBuilder, node, pod

Tree = dict[str, Any]

LONELY = (NEVER, ("node(s) didn't match pod affinity rules",))
DISLIKED = (NO, ("node(s) didn't match pod anti-affinity rules",))
UNWANTED = (NO, ("node(s) didn't satisfy existing pods anti-affinity rules",))

# Two zones with two nodes each, and a node without a zone.
NODES = [
    node("a", zone="z1").build(),
    node("b", zone="z1").build(),
    node("x", zone="z2").build(),
    node("y", zone="z2").build(),
    node("lost").build(),
]
ALL_PASS = dict.fromkeys(("a", "b", "x", "y", "lost"), PASSED)


def term(app: str, key: str = ZONE, **more: Any) -> Tree:
    """Pods of that app, near in the sense of the key."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Tree) -> Tree:
    """Required affinity."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def away(*terms: Tree) -> Tree:
    """Required anti-affinity."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def likes(weight: int, wanted: Tree) -> Tree:
    """Preferred affinity."""
    return {"podAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": wanted}]}}


def dislikes(weight: int, unwanted: Tree) -> Tree:
    """Preferred anti-affinity."""
    return {"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": unwanted}]}}


def web(name: str = "p") -> PodBuilder:
    """A pod of the app `web`."""
    return pod(name).labels(app="web")


def db(name: str, on: str, *, namespace: str = "default") -> PodBuilder:
    """A pod of the app `db`, placed."""
    return pod(name, namespace=namespace).labels(app="db").on(on)


def zones(z1: tuple[str, Any], z2: tuple[str, Any], lost: tuple[str, Any]) -> Verdicts:
    """The same for all nodes of a zone."""
    return {"a": z1, "b": z1, "x": z2, "y": z2, "lost": lost}


@pytest.mark.parametrize(
    ("incoming", "there", "want"),
    [
        pytest.param(web(), [db("d", "a")], None, id="no terms: skipped"),
        pytest.param(
            web().affinity(near(term("db"))),
            [db("d", "a")],
            zones(PASSED, LONELY, LONELY),
            id="rule 1: the zone of the other",
        ),
        pytest.param(web().affinity(near(term("db"))), [], zones(LONELY, LONELY, LONELY), id="rule 1: no pods exist"),
        pytest.param(
            web().affinity(near(term("web"))), [], zones(PASSED, PASSED, LONELY), id="rule 1: the first of its kind"
        ),
        pytest.param(
            web().affinity(near(term("web"))),
            [web("q").on("lost")],
            zones(PASSED, PASSED, LONELY),
            id="rule 1: still the first, if the other is in no zone",
        ),
        pytest.param(
            web().affinity(near(term("web"))),
            [web("q").on("a")],
            zones(PASSED, LONELY, LONELY),
            id="rule 1: no longer the first",
        ),
        pytest.param(
            web().affinity(near(term("db"), term("db", HOSTNAME))),
            [db("d", "a")],
            {"a": PASSED, "b": LONELY, "x": LONELY, "y": LONELY, "lost": LONELY},
            id="rule 1: near in every sense",
        ),
        pytest.param(
            web().affinity(near(term("db"), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"big": "yes"}}})),
            [db("d", "a"), pod("e").labels(big="yes").on("a"), db("f", "x").labels(big="yes")],
            zones(LONELY, PASSED, LONELY),
            id="rule 1: one pod must meet all terms",
        ),
        pytest.param(
            web().affinity(near(term("db"))),
            [db("d", "a").terminating(), db("e", "x").phase("Failed")],
            zones(PASSED, LONELY, LONELY),
            id="a pod terminating is still there, a finished one is not",
        ),
        pytest.param(
            web().affinity(away(term("db"))),
            [db("d", "a")],
            zones(DISLIKED, PASSED, PASSED),
            id="rule 2: not in the zone of the other",
        ),
        pytest.param(
            web().affinity(away(term("db", HOSTNAME))),
            [db("d", "a"), db("e", "lost")],
            {**ALL_PASS, "a": DISLIKED, "lost": DISLIKED},
            id="rule 2: not on the node of the other",
        ),
        pytest.param(web().affinity(away(term("db"))), [], ALL_PASS, id="rule 2: no pods exist"),
        pytest.param(
            web(),
            [db("d", "a").affinity(away(term("web")))],
            zones(UNWANTED, PASSED, PASSED),
            id="rule 3: the other objects",
        ),
        pytest.param(
            web(), [db("d", "a").affinity(away(term("db")))], None, id="rule 3: the other's term selects other pods"
        ),
        pytest.param(web(), [db("d", "lost").affinity(away(term("web")))], None, id="rule 3: the other is in no zone"),
        pytest.param(
            web().affinity({**near(term("db")), **away(term("cat", HOSTNAME))}),
            [db("d", "a").affinity(away(term("web"))), pod("c").labels(app="cat").on("b")],
            {"a": UNWANTED, "b": DISLIKED, "x": LONELY, "y": LONELY, "lost": LONELY},
            id="the first rule that is broken is the reason",
        ),
        pytest.param(
            web().affinity(near({"topologyKey": ZONE})),
            [web("q").on("a")],
            zones(LONELY, LONELY, LONELY),
            id="no selector matches no pods",
        ),
        pytest.param(
            web().affinity(away({"topologyKey": ZONE, "labelSelector": {}})),
            [db("d", "a"), db("e", "x", namespace="other")],
            zones(DISLIKED, PASSED, PASSED),
            id="an empty selector means everybody, in the own namespace",
        ),
    ],
)
def test_required_terms(incoming: PodBuilder, there: list[PodBuilder], want: Verdicts | None) -> None:
    """Where a pod may go for the sake of others."""
    sample = SampleCluster(NODES, [each.build() for each in there])
    assert filtered(InterPodAffinity(), incoming.build(), sample) == want


NAMESPACES = {"default": {}, "other": {"team": "two"}, "third": {"team": "three"}}


def selecting(operator: str, *values: str) -> Tree:
    """A selector of namespaces by their team."""
    return {"matchExpressions": [{"key": "team", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("scope", "incoming_avoids", "other_avoids"),
    [
        pytest.param({}, False, False, id="the own namespace alone"),
        pytest.param({"namespaces": ["other"]}, True, False, id="namespaces by name"),
        pytest.param({"namespaceSelector": {}}, True, True, id="all of them"),
        pytest.param({"namespaceSelector": selecting("In", "two")}, True, False, id="by their labels"),
        pytest.param({"namespaceSelector": selecting("In", "three")}, False, False, id="by other labels"),
        pytest.param(
            {"namespaceSelector": selecting("NotIn", "two")}, True, True, id="the quirk: by a label they lack"
        ),
        pytest.param({"namespaceSelector": selecting("DoesNotExist")}, True, True, id="the quirk: by having no label"),
    ],
)
def test_namespaces(scope: Tree, incoming_avoids: bool, other_avoids: bool) -> None:
    """A pod of `default`, which has no labels, and one of `other`, which has: each may avoid the other.

    The quirk: of the incoming pod's selector, `NotIn` and `DoesNotExist` match every namespace, whatever its labels.
    The selectors of pods that are there are matched as one would expect.
    """
    saying = SampleCluster(NODES, [db("d", "a", namespace="other").build()], NAMESPACES)
    verdicts = filtered(InterPodAffinity(), web().affinity(away(term("db", **scope))).build(), saying)
    assert verdicts == (zones(DISLIKED, PASSED, PASSED) if incoming_avoids else ALL_PASS)
    heard = SampleCluster(
        NODES, [db("d", "a", namespace="other").affinity(away(term("web", **scope))).build()], NAMESPACES
    )
    verdicts = filtered(InterPodAffinity(), web().build(), heard)
    assert verdicts == (zones(UNWANTED, PASSED, PASSED) if other_avoids else None)


def test_a_namespace_that_is_not_known_has_no_labels() -> None:
    """Events of a namespace may come after those of its pods."""
    there = db("d", "a", namespace="other").affinity(away(term("web", namespaceSelector=selecting("DoesNotExist"))))
    assert filtered(InterPodAffinity(), web().build(), SampleCluster(NODES, [there.build()])) == zones(
        UNWANTED, PASSED, PASSED
    )


def worth(z1: tuple[int, int], z2: tuple[int, int], lost: tuple[int, int]) -> ScoresByNode:
    """The same for all nodes of a zone."""
    return {"a": z1, "b": z1, "x": z2, "y": z2, "lost": lost}


@pytest.mark.parametrize(
    ("incoming", "there", "args", "want"),
    [
        pytest.param(web(), [db("d", "a")], {}, None, id="no preferred terms"),
        pytest.param(
            web().affinity(likes(7, term("db"))),
            [db("d", "a"), db("e", "b"), db("f", "x")],
            {},
            worth((14, 100), (7, 50), (0, 0)),
            id="each pod that is liked adds the weight",
        ),
        pytest.param(
            web().affinity(dislikes(7, term("db"))),
            [db("d", "a"), db("e", "b"), db("f", "x")],
            {},
            worth((-14, 0), (-7, 50), (0, 100)),
            id="and one that is not takes it off",
        ),
        pytest.param(
            web().affinity(likes(7, term("db"))), [db("d", "lost")], {}, None, id="in no zone: nothing was met"
        ),
        pytest.param(
            web(),
            [db("d", "a").affinity(likes(3, term("web"))), db("e", "x").affinity(dislikes(2, term("web")))],
            {},
            worth((3, 100), (-2, 0), (0, 40)),
            id="what others think of the pod",
        ),
        pytest.param(
            web(),
            [db("d", "a").affinity(near(term("web")))],
            {},
            worth((1, 100), (0, 0), (0, 0)),
            id="required affinity of another pod counts 1",
        ),
        pytest.param(
            web(),
            [db("d", "a").affinity(near(term("web")))],
            {"hardPodAffinityWeight": 60},
            worth((60, 100), (0, 0), (0, 0)),
            id="or the weight of the arguments",
        ),
        pytest.param(
            web(), [db("d", "a").affinity(near(term("web")))], {"hardPodAffinityWeight": 0}, None, id="or not at all"
        ),
        pytest.param(
            web(),
            [db("d", "a").affinity(away(term("web", HOSTNAME)))],
            {},
            None,
            id="required anti-affinity is no preference",
        ),
        pytest.param(
            web(),
            [db("d", "a").affinity(likes(3, term("web")))],
            {"ignorePreferredTermsOfExistingPods": True},
            None,
            id="others can be left out, for pods that prefer nothing",
        ),
        pytest.param(
            web().affinity(likes(1, term("db"))),
            [db("d", "a").affinity(likes(3, term("web")))],
            {"ignorePreferredTermsOfExistingPods": True},
            worth((4, 100), (0, 0), (0, 0)),
            id="and for those alone",
        ),
        pytest.param(
            web().affinity(likes(5, term("db"))),
            [db("d", "a").affinity(dislikes(5, term("web")))],
            {},
            worth((0, 0), (0, 0), (0, 0)),
            id="weights that cancel out still count as met",
        ),
        pytest.param(
            web().affinity(likes(5, term("db", HOSTNAME))),
            [db("d", "a").affinity(likes(1, term("web")))],
            {},
            {"a": (6, 100), "b": (1, 16), "x": (0, 0), "y": (0, 0), "lost": (0, 0)},
            id="keys add up",
        ),
    ],
)
def test_preferred_terms(incoming: PodBuilder, there: list[PodBuilder], args: Tree, want: ScoresByNode | None) -> None:
    """Rule 4: weights add up by domain, and are stretched from the least to the most."""
    plugin = InterPodAffinity(codec.convert(args, InterPodAffinityArgs))
    assert scored(plugin, incoming.build(), SampleCluster(NODES, [each.build() for each in there])) == want


UNREADABLE = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}


def test_an_incoming_pod_with_invalid_terms_is_refused_everywhere() -> None:
    """The reason names the field; nothing that happens elsewhere will help."""
    incoming = web().affinity(near(UNREADABLE)).build()
    verdicts = filtered(InterPodAffinity(), incoming, SampleCluster(NODES, []))
    assert verdicts is not None
    assert {code for code, _ in verdicts.values()} == {NEVER}
    ((_, (reason,)), *_) = verdicts.values()
    assert reason.startswith(f"parsing pod: spec.affinity.podAffinity.{REQUIRED}")
    with pytest.raises(InvalidError, match="podAffinity"):
        scored(InterPodAffinity(), incoming, SampleCluster(NODES, []))


def test_invalid_terms_of_an_assigned_pod_are_ignored() -> None:
    """The list with the bad term is passed over, its other lists count."""
    there = db("d", "a").affinity(near(term("web"), UNREADABLE) | away(term("web", HOSTNAME))).build()
    assert filtered(InterPodAffinity(), web().build(), SampleCluster(NODES, [there])) == {**ALL_PASS, "a": UNWANTED}
    assert scored(InterPodAffinity(), web().build(), SampleCluster(NODES, [there])) is None


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_weight_out_of_range_is_refused(weight: int) -> None:
    """The weight of required affinity is from 0 to 100."""
    with pytest.raises(InvalidError) as raised:
        InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=weight))
    assert raised.value.path == "hardPodAffinityWeight"


def test_a_node_that_changes_its_zone_takes_its_pods_along() -> None:
    """Nothing is kept by domain, so a changed label of a node changes where its pods are near to."""
    view = SampleCluster(NODES, [db("d", "a").build()]).snapshot()
    incoming = web().affinity(near(term("db"))).build()
    view.put(node("a", zone="z2").build())
    refusals = InterPodAffinity().filter(Cycle(incoming, view))
    assert refusals is not None
    rows = view.nodes.rows.index
    assert {name for name in rows if refusals.codes[rows[name]] == 0} == {"a", "x", "y"}


def test_terms_of_a_deleted_pod_do_not_count() -> None:
    """Terms are forgotten with the last pod that holds them."""
    sample = SampleCluster(NODES, [db("d", "a").affinity(away(term("web"))).build()])
    view = sample.snapshot()
    assert InterPodAffinity().filter(Cycle(web().build(), view)) is not None
    view.drop(Pod, "default", "d")
    assert InterPodAffinity().filter(Cycle(web().build(), view)) is None
    assert len(view.terms) == 0


ARGS = st.builds(
    InterPodAffinityArgs,
    hard_pod_affinity_weight=st.sampled_from([0, 1, 10]),
    ignore_preferred_terms_of_existing_pods=st.booleans(),
)


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_interpod_agrees_with_its_twin(data: st.DataObject) -> None:
    """On any cluster, the plugin agrees with its slow twin."""
    sample, churn = data.draw(sample_clusters("affinity"))
    args = data.draw(ARGS)
    agrees(InterPodAffinity(args), data.draw(incoming_pods("affinity")), sample, args, churn)


def test_columns_that_are_dropped_during_a_decision_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes belong to one column: the next one of the same label may number its values in another way."""

    def raw_scores() -> list[int]:
        view = Snapshot()
        for each in (node("a", zone="z1", rack="r1"), node("b", zone="z2", rack="r2")):
            view.put(each.build())
        view.nodes.label(ZONE)
        for each in (node("a", zone="z2", rack="r1"), node("b", zone="z1", rack="r2")):
            view.put(each.build())
        for number in range(3):
            view.put(pod(f"p{number}").on("a").labels(app="web").build())
        terms = [{"weight": 10, "podAffinityTerm": term("web", key)} for key in (ZONE, "rack", ZONE)]
        subject = pod("new").affinity({"podAffinity": {PREFERRED: terms}}).build()
        scores = InterPodAffinity(InterPodAffinityArgs()).score(Cycle(subject, view), view.nodes.known)
        assert scores is not None
        return [int(each) for each in scores.raw]

    want = raw_scores()
    assert want == [90, 0]
    monkeypatch.setattr(nodes, "_LABELS_KEPT", 1)
    assert raw_scores() == want
