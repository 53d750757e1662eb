"""Profiles: from a configuration to plugins, by the rules at the head of the module."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec, schedulerconfig
from trimtab.api.core import Service
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, ZONE
from trimtab.api.schedulerconfig import KIND, PROPOSAL, V1, PluginReference
from trimtab.placement.framework import Cycle
from trimtab.placement.plugins import DEFAULT_PLUGINS, PLUGINS
from trimtab.placement.profiles import POINTS, Profile, default_profile, profiles
from trimtab.placement.spread import PodTopologySpread
from trimtab.placement.spread.constraints import SpreadConstraint
from trimtab.placement.spreading import SPREADING, Terms
from trimtab.testing.builders import cluster, pod

Tree = dict[str, Any]

FILTERS = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
]
SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def read(*written: Tree, **fields: Any) -> dict[str, Profile]:
    """The profiles of a configuration."""
    tree: Tree = {"apiVersion": V1, "kind": "KubeSchedulerConfiguration", **fields}
    return profiles(schedulerconfig.read(tree | ({"profiles": list(written)} if written else {})))


def only(**fields: Any) -> Profile:
    """The only profile of a configuration that has these fields."""
    (profile,) = read(fields).values()
    return profile


def with_plugins(**sets: Any) -> Profile:
    """A profile with these sets of plugins."""
    return only(plugins=sets)


def filters(profile: Profile) -> list[str]:
    """The names of the filters, in order."""
    return [plugin.name for plugin in profile.filters]


def scores(profile: Profile) -> dict[str, int]:
    """The weights of what scores, in order."""
    return {plugin.name: weight for plugin, weight in profile.scores}


def named(*names: str, **weights: int) -> list[Tree]:
    """References to plugins, with weights where they are given."""
    return [{"name": name} for name in names] + [{"name": name, "weight": weight} for name, weight in weights.items()]


def test_an_empty_configuration_has_kube_schedulers_defaults() -> None:
    """Plugins, order, weights, and the name default-scheduler."""
    made = read()
    assert list(made) == ["default-scheduler"]
    profile = made["default-scheduler"]
    assert filters(profile) == FILTERS
    assert list(scores(profile).items()) == list(SCORES.items())
    assert [(c.max_skew, c.topology_key) for c in profile.default_constraints] == [(3, HOSTNAME), (5, ZONE)]
    assert filters(default_profile()) == FILTERS


def test_plugins_that_are_not_run_are_listed() -> None:
    """Default plugins that Trimtab has no part in are listed, for the log."""
    assert default_profile().left_out == (
        "SchedulingGates",
        "PrioritySort",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "DynamicResources",
        "DefaultPreemption",
        "DefaultBinder",
        "NodeDeclaredFeatures",
    )
    without = with_plugins(multiPoint={"disabled": named("VolumeBinding")}, postFilter={"disabled": named("*")})
    assert "VolumeBinding" not in without.left_out
    assert "DefaultPreemption" in without.left_out  # it has a preEnqueue as well
    assert "GangScheduling" in with_plugins(multiPoint={"enabled": named("GangScheduling")}).left_out


def test_every_default_is_registered_and_every_plugin_implements_its_points() -> None:
    """The registry and the plugins agree on what each implements."""
    assert {reference.name for reference in DEFAULT_PLUGINS} <= set(PLUGINS)
    for name, kind in PLUGINS.items():
        assert {*kind.points, *kind.needs} <= set(POINTS)
        if kind.make is not None:
            plugin = kind.make(None)
            assert plugin.name == name
            assert (hasattr(plugin, "filter"), hasattr(plugin, "score")) == (
                "filter" in kind.points,
                "score" in kind.points,
            )


@pytest.mark.parametrize(
    ("sets", "want_filters", "want_scores"),
    [
        pytest.param(
            {"score": {"enabled": named(NodeAffinity=7)}},
            FILTERS,
            {"NodeAffinity": 7, **{k: v for k, v in SCORES.items() if k != "NodeAffinity"}},
            id="4: enabled again at a point: first, and with the weight written there",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named(NodeAffinity=7)}},
            FILTERS,
            {**SCORES, "NodeAffinity": 7},
            id="2: enabled again by multiPoint: in its place, with the new weight",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named("TaintToleration")}},
            FILTERS,
            {**SCORES, "TaintToleration": 1},
            id="2: without a weight, it weighs 1",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named(NodeAffinity=7)}, "score": {"enabled": named(NodeAffinity=9)}},
            FILTERS,
            {"NodeAffinity": 9, **{k: v for k, v in SCORES.items() if k != "NodeAffinity"}},
            id="4: the point's weight wins",
        ),
        pytest.param(
            {"score": {"disabled": named("ImageLocality")}},
            FILTERS,
            {k: v for k, v in SCORES.items() if k != "ImageLocality"},
            id="3: disabled at a point",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("NodeAffinity")}},
            [name for name in FILTERS if name != "NodeAffinity"],
            {k: v for k, v in SCORES.items() if k != "NodeAffinity"},
            id="3: disabled everywhere",
        ),
        pytest.param(
            {"score": {"disabled": named("*"), "enabled": named(ImageLocality=4, NodeAffinity=2)}},
            FILTERS,
            {"ImageLocality": 4, "NodeAffinity": 2},
            id="3: all disabled at a point but those enabled there",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("*"), "enabled": named("NodeName", "NodeResourcesFit")}},
            ["NodeName", "NodeResourcesFit"],
            {"NodeResourcesFit": 1},
            id="3: all disabled everywhere but two",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("NodeAffinity"), "enabled": named(NodeAffinity=5)}},
            [name for name in FILTERS if name != "NodeAffinity"] + ["NodeAffinity"],
            {**{k: v for k, v in SCORES.items() if k != "NodeAffinity"}, "NodeAffinity": 5},
            id="3: disabled and enabled: it stays, after the others",
        ),
        pytest.param(
            {"score": {"enabled": named("SelectorSpread")}, "preScore": {"enabled": named("SelectorSpread")}},
            FILTERS,
            {**SCORES, "SelectorSpread": 1},
            id="4: enabled at a point alone: last",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named(SelectorSpread=3)}},
            FILTERS,
            {**SCORES, "SelectorSpread": 3},
            id="1: multiPoint applies to all points",
        ),
    ],
)
def test_plugins_and_weights(sets: Tree, want_filters: list[str], want_scores: dict[str, int]) -> None:
    """What runs, in which order, and what it weighs."""
    profile = with_plugins(**sets)
    assert filters(profile) == want_filters
    assert list(scores(profile).items()) == list(want_scores.items())


def test_several_profiles() -> None:
    """Each has a name of its own."""
    made = read({"schedulerName": "one"}, {"schedulerName": "two", "plugins": {"score": {"disabled": named("*")}}})
    assert {name: len(profile.scores) for name, profile in made.items()} == {"one": 7, "two": 0}


def test_arguments_reach_their_plugins() -> None:
    """Here, an operator's default constraints."""
    constraint = {"maxSkew": 2, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
    given = {"defaultingType": "List", "defaultConstraints": [constraint]}
    own_type = {"apiVersion": V1, "kind": "PodTopologySpreadArgs", **given}
    for args in (given, own_type):
        profile = only(pluginConfig=[{"name": "PodTopologySpread", "args": args}])
        assert [c.topology_key for c in profile.default_constraints] == ["example.com/rack"]


def config(name: str, **args: Any) -> Tree:
    """A profile that configures one plugin."""
    return {"pluginConfig": [{"name": "NodeName"}, {"name": name, "args": args}]}


def spread(**fields: Any) -> Tree:
    """A profile with one default constraint that is right but for these fields."""
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return config("PodTopologySpread", defaultingType="List", defaultConstraints=[constraint])


ARGS = "profiles[0].pluginConfig[1].args"


@pytest.mark.parametrize(
    ("profile", "path", "reason"),
    [
        pytest.param(
            {"plugins": {"score": {"enabled": named("ImageLocality", "NodeAfinity")}}},
            "profiles[0].plugins.score.enabled[1].name",
            '"NodeAfinity" is not a plugin that Trimtab knows; did you mean "NodeAffinity"?',
            id="an unknown plugin",
        ),
        pytest.param(
            {"plugins": {"multiPoint": {"disabled": named("*", "EBSLimits")}}},
            "profiles[0].plugins.multiPoint.disabled[1].name",
            '"EBSLimits" is not a plugin that Trimtab knows',
            id="an unknown plugin that is disabled",
        ),
        pytest.param(
            {"plugins": {"score": {"enabled": named("NodeName")}}},
            "profiles[0].plugins.score.enabled[0].name",
            '"NodeName" has no score; it has filter',
            id="a plugin at a point that it does not have",
        ),
        pytest.param(
            {"plugins": {"multiPoint": {"enabled": named("NodeName", "NodeName")}}},
            "profiles[0].plugins.multiPoint.enabled[1].name",
            '"NodeName" is enabled twice',
            id="a plugin twice",
        ),
        pytest.param(
            {"plugins": {"score": {"enabled": named(NodeAffinity=-1)}}},
            "profiles[0].plugins.score.enabled[0].weight",
            "-1 is not from 0 to 2147483647",
            id="a negative weight",
        ),
        pytest.param(
            {"plugins": {"score": {"enabled": named(NodeAffinity=2**31)}}},
            "profiles[0].plugins.score.enabled[0].weight",
            "2147483648 is not from 0 to 2147483647",
            id="a weight that is too large",
        ),
        pytest.param(
            {"plugins": {"preFilter": {"disabled": named("PodTopologySpread")}}},
            "profiles[0].plugins.preFilter",
            '"PodTopologySpread" needs it in order to filter; disable both or none',
            id="5: a filter without its preFilter",
        ),
        pytest.param(
            {"plugins": {"preScore": {"disabled": named("*")}}},
            "profiles[0].plugins.preScore",
            '"TaintToleration" needs it in order to score; disable both or none',
            id="5: a score without its preScore",
        ),
        pytest.param(
            config("NodeAfinity"),
            "profiles[0].pluginConfig[1].name",
            '"NodeAfinity" is not a plugin that Trimtab knows; did you mean "NodeAffinity"?',
            id="arguments of an unknown plugin",
        ),
        pytest.param(
            config("NodeName", mode="strict"),
            "profiles[0].pluginConfig[1].name",
            '"NodeName" is configured twice',
            id="arguments twice",
        ),
        pytest.param(
            config("NodePorts", mode="strict"),
            ARGS,
            'must be empty: "NodePorts" takes no arguments',
            id="arguments for none",
        ),
        pytest.param(
            config("InterPodAffinity", hardPodAffinityWeigth=1),
            ARGS,
            "Object contains unknown field `hardPodAffinityWeigth`",
            id="an unknown argument",
        ),
        pytest.param(
            config("InterPodAffinity", hardPodAffinityWeight=101),
            f"{ARGS}.hardPodAffinityWeight",
            "101 is not a weight from 0 to 100",
            id="an argument out of range",
        ),
        pytest.param(
            config("InterPodAffinity", kind="NodeAffinityArgs"),
            f"{ARGS}.kind",
            '"NodeAffinityArgs" is not "InterPodAffinityArgs"',
            id="arguments of another plugin",
        ),
        pytest.param(
            config("InterPodAffinity", apiVersion="kubescheduler.config.k8s.io/v1beta3"),
            f"{ARGS}.apiVersion",
            f'"kubescheduler.config.k8s.io/v1beta3" is not "{V1}"',
            id="arguments of another version",
        ),
        pytest.param(
            config("DefaultPreemption", minCandidateNodesPercentage=101),
            f"{ARGS}.minCandidateNodesPercentage",
            "101 is not from 0 to 100",
            id="arguments of a plugin that is left out are checked too",
        ),
        pytest.param(
            config("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
            f"{ARGS}.minCandidateNodesPercentage",
            "must not be 0 where minCandidateNodesAbsolute is 0 too",
            id="together too",
        ),
        pytest.param(
            config("VolumeBinding", bindTimeoutSeconds=-1),
            f"{ARGS}.bindTimeoutSeconds",
            "-1 is less than 0",
            id="a negative timeout",
        ),
        pytest.param(
            config("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            f"{ARGS}.scoringStrategy.requestedToCapacityRatio.shape",
            "is missing: RequestedToCapacityRatio needs at least one point",
            id="a curve without points",
        ),
        pytest.param(
            spread(labelSelector={"matchLabels": {"app": "web"}}),
            f"{ARGS}.defaultConstraints[0].labelSelector",
            "must be empty: it is deduced from each pod's services and controller",
            id="a selector in a default constraint",
        ),
        pytest.param(
            spread(topologyKey="example.com/two/slashes"),
            f"{ARGS}.defaultConstraints[0].topologyKey",
            '"example.com/two/slashes" is not a label key',
            id="a default constraint over what cannot be a label",
        ),
        pytest.param(
            spread(minDomain=3),
            f"{ARGS}.defaultConstraints[0]",
            "Object contains unknown field `minDomain`",
            id="an unknown field of a default constraint",
        ),
        pytest.param(
            config("PodTopologySpread", defaultingType="Liste"),
            f"{ARGS}.defaultingType",
            "\"Liste\": Invalid enum value 'Liste'",
            id="an unknown defaulting type",
        ),
        pytest.param(
            {"percentageOfNodesToScore": 101},
            "profiles[0].percentageOfNodesToScore",
            "101 is not from 0 to 100",
            id="a percentage beyond 100",
        ),
        pytest.param(
            {"plugins": {"filters": {}}},
            "profiles[0].plugins",
            "Object contains unknown field `filters`",
            id="an unknown extension point",
        ),
    ],
)
def test_invalid_profiles(profile: Tree, path: str, reason: str) -> None:
    """The error has the path and the reason."""
    with pytest.raises(InvalidError) as caught:
        read(profile)
    assert (caught.value.path, caught.value.reason) == (path, reason)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"apiVersion": "kubescheduler.config.k8s.io/v1beta2"}, "apiVersion", id="an old version"),
        pytest.param({"kind": "Policy"}, "kind", id="another kind"),
        pytest.param({"parallelism": 0}, "parallelism", id="no parallelism"),
        pytest.param({"percentageOfNodesToScore": -1}, "percentageOfNodesToScore", id="a negative percentage"),
        pytest.param({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds", id="no back-off"),
        pytest.param({"podMaxBackoffSeconds": 0}, "podMaxBackoffSeconds", id="a shorter longest back-off"),
        pytest.param(
            {"leaderElection": {"resourceLock": "endpoints"}}, "leaderElection.resourceLock", id="an old lock"
        ),
        pytest.param({"extenders": [{"urlPrefix": "http://e"}]}, "extenders", id="an extender"),
        pytest.param(
            {"profiles": [{}, {"schedulerName": "b"}]}, "profiles[0].schedulerName", id="no name among several"
        ),
        pytest.param(
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            "profiles[1].schedulerName",
            id="a name twice",
        ),
        pytest.param(
            {
                "profiles": [
                    {"schedulerName": "a"},
                    {"schedulerName": "b", "plugins": {"queueSort": {"disabled": named("*")}}},
                ]
            },
            "profiles[1].plugins.queueSort",
            id="queues sorted in two ways",
        ),
        pytest.param({"parallelismm": 1}, "", id="an unknown field"),
    ],
)
def test_invalid_configurations(fields: Tree, path: str) -> None:
    """As kube-scheduler refuses them, and what Trimtab cannot do besides."""
    with pytest.raises(InvalidError) as caught:
        read(**fields)
    assert caught.value.path == path


OPERATOR = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
SELECTOR_SPREAD = {"enabled": named("SelectorSpread")}
NO_SPREAD = {"disabled": named("PodTopologySpread")}


def spreading(*, selector_spread: bool, scores: bool, operator: bool) -> Profile:
    """A profile by a row of the table."""
    sets: Tree = {"multiPoint": {**(SELECTOR_SPREAD if selector_spread else {}), **({} if scores else NO_SPREAD)}}
    args = {"defaultingType": "List", "defaultConstraints": [OPERATOR]} if operator else {}
    return only(plugins=sets, pluginConfig=[{"name": "PodTopologySpread", "args": args}])


@pytest.mark.parametrize(
    ("selector_spread", "scores", "operator", "keys"),
    [
        pytest.param(False, True, False, [HOSTNAME, ZONE], id="no SelectorSpread, scores: Kubernetes' defaults"),
        pytest.param(False, True, True, ["rack"], id="no SelectorSpread, scores, operator: the operator's"),
        pytest.param(True, True, False, [HOSTNAME, ZONE], id="both: Kubernetes' defaults"),
        pytest.param(False, False, False, [], id="neither: none"),
        pytest.param(False, False, True, [], id="neither, operator: none"),
    ],
)
def test_the_proposals_table_of_valid_combinations(
    selector_spread: bool, scores: bool, operator: bool, keys: list[str]
) -> None:
    """Each row, and what pods are spread by."""
    profile = spreading(selector_spread=selector_spread, scores=scores, operator=operator)
    assert [c.topology_key for c in profile.default_constraints] == keys
    assert not SPREADING[selector_spread, scores, operator].problem


@pytest.mark.parametrize(
    ("scores", "operator", "reason"),
    [
        pytest.param(True, True, "together with defaultConstraints", id="both, operator: contradiction"),
        pytest.param(False, False, "needs PodTopologySpread", id="SelectorSpread alone"),
        pytest.param(False, True, "needs PodTopologySpread", id="SelectorSpread alone, operator"),
    ],
)
def test_the_proposals_table_of_invalid_combinations(scores: bool, operator: bool, reason: str) -> None:
    """Each row, and why it makes no sense."""
    with pytest.raises(InvalidError, match=reason) as caught:
        spreading(selector_spread=True, scores=scores, operator=operator)
    assert caught.value.path == "profiles[0].plugins.score"


def test_an_empty_list_does_not_contradict_selector_spread() -> None:
    """An operator who lists nothing leaves the spreading of such pods to SelectorSpread."""
    args = {"defaultingType": "List"}
    profile = only(plugins={"multiPoint": SELECTOR_SPREAD}, pluginConfig=[{"name": "PodTopologySpread", "args": args}])
    assert profile.default_constraints == ()


def test_the_proposals_own_form() -> None:
    """Constraints at the top of the configuration; its keys are read as printed, two slashes and all."""
    rack = {"maxSkew": 15, "topologyKey": "example.com/topology/rack", "whenUnsatisfiable": "DoNotSchedule"}
    tree: Tree = {"apiVersion": PROPOSAL, "defaultTopologySpreadConstraints": [rack]}
    (profile,) = profiles(schedulerconfig.read(tree)).values()
    assert [(c.max_skew, c.topology_key) for c in profile.default_constraints] == [(15, "example.com/topology/rack")]
    assert filters(profile) == FILTERS


def test_the_proposals_own_form_without_constraints() -> None:
    """Then the proposal's rules apply, not those that Kubernetes ships."""
    (profile,) = profiles(schedulerconfig.read({"apiVersion": PROPOSAL})).values()
    assert [(c.max_skew, c.topology_key) for c in profile.default_constraints] == [(1, HOSTNAME), (1, DEPRECATED_ZONE)]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"kind": "Policy"}, "kind", id="another kind"),
        pytest.param(
            {"defaultTopologySpreadConstraints": [OPERATOR, {**OPERATOR, "labelSelector": {}}]},
            "defaultTopologySpreadConstraints[1].labelSelector",
            id="a selector",
        ),
        pytest.param(
            {"defaultTopologySpreadConstraints": [OPERATOR, OPERATOR]},
            "defaultTopologySpreadConstraints[1]",
            id="a constraint twice",
        ),
        pytest.param({"profiles": []}, "", id="a field of the other form"),
    ],
)
def test_the_proposals_own_form_invalid(fields: Tree, path: str) -> None:
    """With the path in that form."""
    with pytest.raises(InvalidError) as caught:
        profiles(schedulerconfig.read({"apiVersion": PROPOSAL, **fields}))
    assert caught.value.path == path


def test_no_default_constraints_where_the_plugin_does_not_run() -> None:
    """A weight in the list of defaults is for a plugin that scores."""
    weighing = [reference.name for reference in DEFAULT_PLUGINS if reference.weight]
    assert all("score" in PLUGINS[name].points for name in weighing)
    assert PluginReference(name="x").weight == 0


HARD_RACK = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}


def hard_defaults(profile: Profile) -> tuple[SpreadConstraint, ...]:
    """The hard constraints that a profile's filter applies to a pod of a service, which states none."""
    snapshot = cluster("z1: a").snapshot()
    service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    snapshot.put(codec.convert(service, Service))
    cycle = Cycle(pod("new").labels(app="web").build(), snapshot)
    plugins = [each for each in profile.filters if isinstance(each, PodTopologySpread)]
    return plugins[0].constraints(cycle).hard if plugins else ()


def test_without_the_plugin_among_those_that_score_the_filter_has_no_hard_defaults() -> None:
    """The table's row of neither plugin: no constraints at all. With the score, the same list applies."""
    args = {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [HARD_RACK]}}
    without = only(plugins={"score": {"disabled": named("PodTopologySpread")}}, pluginConfig=[args])
    assert [each.key for each in hard_defaults(only(pluginConfig=[args]))] == ["rack"]
    assert without.default_constraints == ()
    assert hard_defaults(without) == ()
    assert "PodTopologySpread" in filters(without), "it still applies the constraints that pods state"


def test_the_feature_gate_turns_spreading_and_defaults_off_together() -> None:
    """EvenPodsSpread: neither a pod's own constraints nor default ones apply."""
    off = profiles(schedulerconfig.read({"apiVersion": V1, "kind": KIND}), Terms(spreading=False))["default-scheduler"]
    assert off.default_constraints == ()
    assert "PodTopologySpread" not in filters(off)
    assert "PodTopologySpread" not in [score.name for score, _ in off.scores]
    old = schedulerconfig.read(
        {"apiVersion": V1, "kind": KIND, "profiles": [{"plugins": {"multiPoint": SELECTOR_SPREAD}}]}
    )
    with pytest.raises(InvalidError, match="EvenPodsSpread"):
        profiles(old, Terms(spreading=False))


@pytest.mark.parametrize("field", ["topologySpreadConstraints", "defaultTopologySpreadConstraints"])
def test_constraints_at_the_top_apply_to_all_profiles(field: str) -> None:
    """Under either of the proposal's names; an empty list is as none."""
    tree: Tree = {"apiVersion": V1, "kind": KIND, "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]}
    for profile in profiles(schedulerconfig.read({**tree, field: [HARD_RACK]})).values():
        assert [each.topology_key for each in profile.default_constraints] == ["rack"]
        assert [each.key for each in hard_defaults(profile)] == ["rack"]
    for profile in profiles(schedulerconfig.read({**tree, field: []})).values():
        assert [each.topology_key for each in profile.default_constraints] == [HOSTNAME, ZONE]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param(
            {"profiles": [{"pluginConfig": [{"name": "PodTopologySpread"}]}]},
            "profiles[0].pluginConfig[0]",
            id="with arguments of the plugin",
        ),
        pytest.param(
            {"defaultTopologySpreadConstraints": [HARD_RACK]}, "defaultTopologySpreadConstraints", id="under both names"
        ),
        pytest.param(
            {"profiles": [{"plugins": {"multiPoint": SELECTOR_SPREAD}}]},
            "profiles[0].plugins.score",
            id="with SelectorSpread",
        ),
        pytest.param(
            {"topologySpreadConstraints": [HARD_RACK, HARD_RACK]}, "topologySpreadConstraints[1]", id="one twice"
        ),
    ],
)
def test_constraints_at_the_top_are_refused(fields: Tree, path: str) -> None:
    """Where something else says what the default constraints are, or they are invalid."""
    tree = {"apiVersion": V1, "kind": KIND, "topologySpreadConstraints": [HARD_RACK], **fields}
    with pytest.raises(InvalidError) as caught:
        profiles(schedulerconfig.read(tree))
    assert caught.value.path == path
