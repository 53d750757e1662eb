"""The page on policies agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from trimtab.api import codec
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec, ScaleDownPolicyStatus
from trimtab.api.workloads import ReplicaSetOwners, WorkloadKind
from trimtab.ranking.faults import faults
from trimtab.scaledown.policy import statuses
from trimtab.scaledown.policy.statuses import Findings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/policies.md").read_text(encoding="utf-8")
ROLLOUTS = ReplicaSetOwners.of(
    [WorkloadKind(group="argoproj.io", version="v1alpha1", kind="Rollout", plural="rollouts")]
)


def shown() -> list[dict[str, Any]]:
    """The policies that the page and the examples show."""
    texts = re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    texts += [path.read_text() for path in sorted(ROOT.glob("examples/*/policy.yaml"))]
    return [tree for tree in map(yaml.safe_load, texts) if tree["kind"] == "ScaleDownPolicy"]


def first_cells(heading: str) -> set[str]:
    """The names in the first column of the table after some words."""
    table = PAGE.partition(heading)[2].lstrip().partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize("tree", shown(), ids=lambda tree: tree["metadata"]["name"])
def test_the_policies_that_are_shown_work(tree: dict[str, Any]) -> None:
    """As they stand there, with the configuration that names Argo's Rollouts."""
    assert list(faults(codec.convert(tree, ScaleDownPolicy), owners=ROLLOUTS)) == []


def test_every_reason_is_documented() -> None:
    """With what to do about it; and none that there is not."""
    reasons = {reason for reason, _ in statuses.obstacles(ScaleDownPolicySpec(), Findings())}
    assert first_cells("Reasons of `Ready: False` (all reasons are in [reasons.md](reasons.md)):") == reasons


def test_every_field_is_documented() -> None:
    """Of the spec, and of the status."""
    assert first_cells("whenUnranked: {action: Wait, timeoutSeconds: 60}\n```") == _names(ScaleDownPolicySpec)
    assert first_cells("AGE\nworkers") | first_cells("8         3d\n```") == _names(ScaleDownPolicyStatus)


def test_every_condition_is_documented() -> None:
    """By its name."""
    for name in statuses.CONDITIONS:
        assert f"`{name}`" in PAGE


def _names(kind: type[Any]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}
