"""Lint: every rule has a manifest in which it finds something, and one like it in which it finds nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.inspection.clusters import three_zones
from trimtab.api.annotations import DELETION_COST
from trimtab.inspection import manifests
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.lint import formats
from trimtab.inspection.lint.findings import Severity
from trimtab.inspection.lint.rules import RULES, LintResult, check
from trimtab.inspection.lint.world import world_of

CASES = Path(__file__).parent / "cases"
NODES = CASES / "nodes.yaml"
IDS = [rule.id for rule in RULES]


def lint(*names: str) -> LintResult:
    """The result for these manifests, on the three nodes."""
    read = manifests.read([NODES, *(CASES / name for name in names)])
    return check(world_of(read, Cluster(time=0)))


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_finds_what_it_is_for(rule: str) -> None:
    """And says where, and how to fix it."""
    found = [each for each in lint(f"{rule}-found.yaml").findings if each.id == rule]
    assert len(found) == 1
    assert found[0].file.endswith(f"{rule}-found.yaml")
    assert found[0].line > 0
    assert found[0].fix
    assert found[0].docs.startswith(f"docs/lint.md#{rule.lower()}-")


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_finds_nothing_where_it_is_fixed(rule: str) -> None:
    """The clean manifest has no finding of any rule, so that a fix does not cause another finding."""
    assert [f"{each.id} {each.message}" for each in lint(f"{rule}-clean.yaml").findings] == []


def test_rules_that_need_nodes_are_reported_where_none_are_known() -> None:
    """A clean result must not look like more than it is."""
    result = check(world_of(manifests.read([CASES / "TT102-found.yaml"]), Cluster(time=0)))
    assert [each.id for each in result.findings] == []
    assert set(result.not_checked) == {"TT101", "TT102", "TT104", "TT105"}
    assert lint("TT102-found.yaml").not_checked == ()


def test_a_rule_can_be_ignored() -> None:
    """By its ID."""
    read = list(manifests.read([NODES, CASES / "TT103-found.yaml"]))
    assert [each.id for each in check(world_of(read, Cluster(time=0)), ["TT103"]).findings] == []


def test_costs_on_live_pods_are_found_by_their_owner() -> None:
    """One finding for a workload, however many of its pods have costs; Trimtab's own costs are none."""
    costs = {0: {DELETION_COST: "5"}, 1: {DELETION_COST: "7"}}
    own = {0: {DELETION_COST: "5", "trimtab.dev/subset-cost": "5"}}
    cluster = (
        three_zones()
        .deployment("web", ["a1", "b1", "c1"], annotations=costs)
        .deployment("api", ["a1"], annotations=own)
        .build()
    )
    found = [each for each in check(world_of([], cluster)).findings if each.id == "TT401"]
    assert [(each.kind, each.name) for each in found] == [("ReplicaSet", "web-1")]
    assert "web-1-00, web-1-01 have deletion costs" in found[0].message


def test_only_the_chosen_namespaces_of_a_cluster_are_checked() -> None:
    """An account that looks at one namespace gets the findings of that one."""
    costs = {0: {DELETION_COST: "5"}}
    cluster = (
        three_zones()
        .deployment("web", ["a1"], annotations=costs)
        .deployment("api", ["a1"], namespace="shop", annotations=costs)
        .build()
    )
    found = check(world_of([], cluster, checked=["shop"])).findings
    assert {(each.namespace, each.name) for each in found} == {("shop", "api-1")}


def test_the_surge_of_a_new_revision_fits_if_revisions_are_told_apart() -> None:
    """`matchLabelKeys` is the other way out of a deadlock: the rule must see that it is one."""
    text = (
        (CASES / "TT102-found.yaml")
        .read_text()
        .replace("minDomains: 4", "minDomains: 4\n          nodeTaintsPolicy: Honor")
    )
    apart = list(manifests.parse(text, "apart.yaml"))
    together = list(
        manifests.parse(text.replace("matchLabelKeys: [pod-template-hash]", "matchLabelKeys: []"), "t.yaml")
    )
    nodes = list(manifests.read([NODES]))
    for read, expected in ((apart, False), (together, True)):
        found = check(world_of([*nodes, *read], Cluster(time=0))).findings
        assert any(each.id == "TT101" for each in found) is expected


def test_sarif_names_the_rule_the_place_and_the_level() -> None:
    """As SARIF 2.1.0 has them."""
    log = json.loads(json.dumps(formats.sarif(lint("TT102-found.yaml"))))
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == IDS
    result = next(each for each in run["results"] if each["ruleId"] == "TT102")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "TT102"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("TT102-found.yaml")
    assert place["region"]["startLine"] == 1
    assert result["level"] in {severity.value for severity in Severity}


def test_github_commands_escape_what_they_carry() -> None:
    """A message of several lines, or with the separators of a command, would end it."""
    lines = list(formats.github(lint("TT103-found.yaml")))
    assert len(lines) == 1
    assert lines[0].startswith("::warning file=")
    assert "line=1,title=TT103 Deployment shop/web::" in lines[0]
    assert "\n" not in lines[0]


def test_ids_and_names_are_unique() -> None:
    """They are anchors of the documentation."""
    assert len({rule.id for rule in RULES}) == len({rule.anchor for rule in RULES}) == len(RULES)
