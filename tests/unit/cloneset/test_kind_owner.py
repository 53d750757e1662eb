"""Which controller the kind CloneSet belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.crds import MANAGED_BY_LABELS
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.cloneset.kind_owner import KindOwner, kind_owner

GENERATED = {"controller-gen.kubebuilder.io/version": "v0.16.5"}


def definition(established: str = "True", **metadata: Any) -> CustomResourceDefinition:
    """A definition of CloneSets."""
    conditions = [{"type": "Established", "status": established}]
    tree = {"metadata": {"name": "clonesets.apps.kruise.io", **metadata}, "status": {"conditions": conditions}}
    return codec.convert(tree, CustomResourceDefinition)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(None, KindOwner.NONE, id="there is none"),
        pytest.param(definition(labels=MANAGED_BY_LABELS), KindOwner.TRIMTAB, id="ours has our label"),
        pytest.param(definition("False", labels=MANAGED_BY_LABELS), KindOwner.NONE, id="not established yet"),
        pytest.param(
            definition(labels=MANAGED_BY_LABELS, deletionTimestamp="2026-01-01T00:00:00Z"),
            KindOwner.NONE,
            id="being deleted",
        ),
        pytest.param(definition(annotations=GENERATED), KindOwner.OTHER, id="OpenKruise's"),
        pytest.param(definition(), KindOwner.OTHER, id="another one without labels"),
        pytest.param(
            definition(labels=MANAGED_BY_LABELS, annotations=GENERATED),
            KindOwner.OTHER,
            id="OpenKruise's, applied over ours",
        ),
    ],
)
def test_kind_owner(found: CustomResourceDefinition | None, want: KindOwner) -> None:
    """Ours has our label, and nothing of OpenKruise's."""
    assert kind_owner(found) is want
