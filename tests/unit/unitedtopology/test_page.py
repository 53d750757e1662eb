"""The page about UnitedTopology agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from trimtab.api import annotations as keys
from trimtab.api import codec, unitedtopology
from trimtab.api.annotations import NAMESPACE_LABEL, SUBSET_COST
from trimtab.api.unitedtopology import SubsetStatus, UnitedTopology, UnitedTopologyStatus
from trimtab.api.workloads import ReplicaSetOwners, WorkloadKind
from trimtab.subsets import reservations
from trimtab.unitedtopology.metrics import AdmissionMetrics, Doubt, Metrics, RefusalReason
from trimtab.unitedtopology.readiness import REASONS

PAGE = (Path(__file__).parents[3] / "docs/united-topology.md").read_text()
ROLLOUTS = ReplicaSetOwners.of(
    [WorkloadKind(group="argoproj.io", version="v1alpha1", kind="Rollout", plural="rollouts")]
)


def test_the_diagram_is_drawn_from_the_table() -> None:
    """Paste what `reservations.diagram()` gives when the table changes."""
    assert f"```mermaid\n{reservations.diagram()}```" in PAGE


def test_the_manifests_work() -> None:
    """What people copy from the page is accepted: the first as it is, the others as parts of it."""
    first, *parts = map(yaml.safe_load, re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL))
    assert len(parts) == 3
    for part in ({}, *parts):
        tree = {**first, "spec": {**first["spec"], **part.get("spec", part)}}
        assert list(unitedtopology.problems(codec.convert(tree, UnitedTopology), owners=ROLLOUTS)) == []


@pytest.mark.parametrize("reason", [reason.value for reason in REASONS])
def test_every_reason_is_explained(reason: str) -> None:
    """A condition that people read can be looked up."""
    assert f"| `{reason}` |" in PAGE


@pytest.mark.parametrize(
    "name",
    sorted(
        {field.encode_name for model in (UnitedTopologyStatus, SubsetStatus) for field in msgspec.structs.fields(model)}
    ),
)
def test_every_field_of_the_status_is_explained(name: str) -> None:
    """So can every field."""
    assert f"`{name}`" in PAGE or f"`{name}[]`" in PAGE


def test_keys_are_those_of_the_code() -> None:
    """Labels and annotations are called on the page what they are called on objects."""
    for name in (NAMESPACE_LABEL, keys.TOPOLOGY, keys.SUBSET, keys.RESERVATION, SUBSET_COST):
        assert name in PAGE


def test_metrics_are_those_of_the_code() -> None:
    """Every name in the table exists."""
    metrics, admission = Metrics(), AdmissionMetrics()
    metrics.record_pods(1, "reconcile")
    admission.record_write(1)
    admission.record_refusals(RefusalReason.NOT_WANTED)
    admission.record_doubts(Doubt.NOT_FILLED)
    registries = (metrics.registry, admission.registry)
    families = [family for registry in registries for family in registry.collect()]
    known = {name for family in families for name in (family.name, *(sample.name for sample in family.samples))}
    assert set(re.findall(r"trimtab_(?:unitedtopology|subset)_\w+", PAGE)) <= known
