"""The default constraints of namespaces: which rule applies, and what an API server would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.default_constraints import DefaultConstraintSettings
from trimtab.api.errors import InvalidError
from trimtab.defaulting.rules import read_rules, rule_for

JSON = dict[str, Any]
RACK = {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
SOFT = {**RACK, "whenUnsatisfiable": "ScheduleAnyway"}


def settings(*rules: JSON, delivery: str = "Admission") -> DefaultConstraintSettings:
    """The settings with these rules."""
    return codec.convert({"delivery": delivery, "rules": list(rules)}, DefaultConstraintSettings)


def test_the_first_rule_that_matches_applies() -> None:
    """By the labels of the namespace; a rule without a selector is for all."""
    production = {"name": "hard", "namespaceSelector": {"matchLabels": {"tier": "production"}}, "constraints": [RACK]}
    rules = read_rules(settings(production, {"name": "soft", "constraints": [SOFT]}))
    found = [rule_for(rules, labels) for labels in ({"tier": "production"}, {})]
    assert [each.name for each in found if each is not None] == ["hard", "soft"]
    assert rule_for(rules[:1], {}) is None


def test_rules_belong_to_admission() -> None:
    """Without it they would have no effect; with it, pods need some."""
    assert read_rules(settings(delivery="Scheduler")) == ()
    for wrong in (settings({"constraints": [RACK]}, delivery="Scheduler"), settings()):
        with pytest.raises(InvalidError) as caught:
            read_rules(wrong)
        assert caught.value.path == "rules"


@pytest.mark.parametrize(
    ("constraint", "path"),
    [
        pytest.param({"maxSkew": 0}, "maxSkew", id="a skew of 0"),
        pytest.param({"maxSkew": 2**31}, "maxSkew", id="a skew beyond 32 bits"),
        pytest.param({"topologyKey": "a/b/c"}, "topologyKey", id="a key with two slashes"),
        pytest.param({"whenUnsatisfiable": "Maybe"}, "whenUnsatisfiable", id="another action"),
        pytest.param({"labelSelector": {}}, "labelSelector", id="a selector"),
        pytest.param({"minDomains": 0}, "minDomains", id="no domains"),
        pytest.param(
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}, "minDomains", id="domains of a soft one"
        ),
        pytest.param({"nodeTaintsPolicy": "Maybe"}, "nodeTaintsPolicy", id="another taints policy"),
        pytest.param({"nodeAffinityPolicy": ""}, "nodeAffinityPolicy", id="another affinity policy"),
        pytest.param({"matchLabelKeys": ["a b"]}, "matchLabelKeys[0]", id="an invalid label key"),
        pytest.param({"matchLabelKeys": ["a", "a"]}, "matchLabelKeys[1]", id="a label key twice"),
    ],
)
def test_what_an_api_server_would_refuse_is_refused_at_the_start(constraint: JSON, path: str) -> None:
    """Otherwise no pod of the namespace could be created."""
    with pytest.raises(InvalidError) as caught:
        read_rules(settings({"name": "a"}, {"name": "b", "constraints": [{**RACK, **constraint}]}))
    assert caught.value.path == f"rules[1].constraints[0].{path}"


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        pytest.param({"name": "a"}, "rules[1].name", id="a name twice"),
        pytest.param({"constraints": [RACK, RACK]}, "rules[1].constraints[1]", id="a constraint twice"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"a b": "c"}}}, "rules[1].namespaceSelector", id="an invalid selector"
        ),
    ],
)
def test_an_invalid_rule_is_refused(rule: JSON, path: str) -> None:
    """With the path of the field."""
    with pytest.raises(InvalidError) as caught:
        read_rules(settings({"name": "a"}, rule))
    assert caught.value.path.startswith(path)
