"""What makes a CloneSet unusable: each is refused with the field and what to write."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import cloneset, codec
from trimtab.api.cloneset import REVISION_HASH, SPECIFIED_DELETE, CloneSet
from trimtab.api.templates import HASH_LABEL

LABELS = {"app": "web"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}


def made(**spec: Any) -> CloneSet:
    """A CloneSet with these fields."""
    tree = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, **spec}
    return codec.convert({"metadata": {"name": "web"}, "spec": tree}, CloneSet)


def pods(**spec: Any) -> dict[str, Any]:
    """The template with these fields in its spec."""
    return {**TEMPLATE, "spec": {**TEMPLATE["spec"], **spec}}


def labelled(name: str) -> dict[str, Any]:
    """The template with this label, too."""
    return {**TEMPLATE, "metadata": {"labels": {**LABELS, name: "abc"}}}


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        pytest.param(
            {"updateStrategy": {"type": "InPlaceIfPossible"}}, "spec.updateStrategy.type", "in place", id="in place"
        ),
        pytest.param(
            {"updateStrategy": {"type": "InPlaceOnly"}}, "spec.updateStrategy.type", "in place", id="in place only"
        ),
        pytest.param(
            {"updateStrategy": {"inPlaceUpdateStrategy": {"gracePeriodSeconds": 5}}},
            "spec.updateStrategy.inPlaceUpdateStrategy",
            "omit it",
            id="how pods are updated in place",
        ),
        pytest.param(
            {"updateStrategy": {"partition": 2}}, "spec.updateStrategy.partition", "use paused", id="a partition"
        ),
        pytest.param(
            {"updateStrategy": {"partition": "50%"}}, "spec.updateStrategy.partition", "use paused", id="half of it"
        ),
        pytest.param(
            {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
            "spec.volumeClaimTemplates",
            "StatefulSet",
            id="volume claims",
        ),
        pytest.param(
            {"template": pods(x=[0] * 30_000)}, "spec.template", "30,000 values", id="a template of many values"
        ),
        pytest.param({"lifecycle": {"preDelete": {}}}, "spec.lifecycle", "hooks", id="lifecycle hooks"),
        pytest.param(
            {"updateStrategy": {"priorityStrategy": {"weightPriority": []}}},
            "spec.updateStrategy.priorityStrategy",
            "the order in which they are deleted",
            id="an order of updates",
        ),
        pytest.param(
            {"updateStrategy": {"scatterStrategy": [{"key": "app", "value": "web"}]}},
            "spec.updateStrategy.scatterStrategy",
            "the order in which they are deleted",
            id="scattered updates",
        ),
        pytest.param(
            {"selector": {"matchLabels": {**LABELS, HASH_LABEL: "abc"}}, "template": labelled(HASH_LABEL)},
            "spec.selector",
            "sets on every pod",
            id="a selector that was copied from a ReplicaSet",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": REVISION_HASH, "operator": "DoesNotExist"}]}},
            "spec.selector",
            "sets on every pod",
            id="a selector of pods without a revision",
        ),
        pytest.param(
            {"template": labelled(SPECIFIED_DELETE)},
            "spec.template.metadata.labels",
            "deleted and created again",
            id="a template that marks its pods for deletion",
        ),
        pytest.param({"selector": {}}, "spec.selector", "every pod", id="a selector of everything"),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            "spec.selector.matchExpressions[0].operator",
            "Is",
            id="a selector that cannot be read",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"app": "api"}}}, "spec.template.metadata.labels", "app=api", id="other labels"
        ),
        pytest.param(
            {"template": {**TEMPLATE, "metadata": {"labels": {"app": 1}}}},
            "spec.template.metadata.labels[app]",
            "expected `str`",
            id="a template that cannot be read",
        ),
        pytest.param(
            {"template": pods(restartPolicy="Never")}, "spec.template.spec.restartPolicy", "Always", id="pods that end"
        ),
        pytest.param(
            {"template": pods(activeDeadlineSeconds=5)},
            "spec.template.spec.activeDeadlineSeconds",
            "omit it",
            id="pods with a deadline",
        ),
        pytest.param(
            {"template": pods(schedulingGroup={"podGroupName": "gang"})},
            "spec.template.spec.schedulingGroup",
            "one by one",
            id="pods of a scheduling group",
        ),
        pytest.param(
            {"template": {**TEMPLATE, "spec": "pod"}}, "spec.template.spec", "spec of a pod", id="no template at all"
        ),
        pytest.param(
            {"updateStrategy": {"maxSurge": "a lot"}}, "spec.updateStrategy.maxSurge", "percentage", id="a lot"
        ),
        pytest.param(
            {"scaleStrategy": {"maxUnavailable": -1}}, "spec.scaleStrategy.maxUnavailable", "negative", id="negative"
        ),
        pytest.param(
            {"updateStrategy": {"maxUnavailable": 0}},
            "spec.updateStrategy.maxUnavailable",
            "increase one",
            id="no room for an update",
        ),
        pytest.param(
            {"updateStrategy": {"maxUnavailable": "0%", "maxSurge": 0}},
            "spec.updateStrategy.maxUnavailable",
            "increase one",
            id="no room in per cent either",
        ),
        pytest.param(
            {"scaleStrategy": {"podsToDelete": ["a", "b", "a"]}},
            "spec.scaleStrategy.podsToDelete",
            '"a" is listed twice',
            id="a pod named twice",
        ),
    ],
)
def test_refused_specs(spec: dict[str, Any], path: str, words: str) -> None:
    """One error, which names the field and says what to write."""
    (error,) = cloneset.problems(made(**spec))
    assert error.path == path
    assert words in error.reason


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="the least"),
        pytest.param({"updateStrategy": {"type": "ReCreate", "partition": 0}}, id="defaults written out"),
        pytest.param({"updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}}, id="a surge instead"),
        pytest.param({"template": labelled(HASH_LABEL)}, id="a label in the template that is written over"),
        pytest.param({"scaleStrategy": {"podsToDelete": ["a"], "maxUnavailable": "10%"}}, id="a careful scale-up"),
    ],
)
def test_accepted_specs(spec: dict[str, Any]) -> None:
    """Nothing is wrong with it."""
    assert list(cloneset.problems(made(**spec))) == []


def test_the_selector_cannot_be_changed() -> None:
    """Pods that it no longer matched would be let go; everything else may change."""
    other = {"selector": {"matchLabels": {**LABELS, "tier": "front"}}}
    (error,) = cloneset.immutable_field_problems(made(), made(**other))
    assert error.path == "spec.selector"
    assert list(cloneset.immutable_field_problems(made(), made(replicas=5))) == []
