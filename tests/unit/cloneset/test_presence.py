"""Whose kind CloneSet is."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.crds import MANAGED_BY_LABELS
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.cloneset.presence import Presence, presence

GENERATED = {"controller-gen.kubebuilder.io/version": "v0.16.5"}


def definition(established: str = "True", **metadata: Any) -> CustomResourceDefinition:
    """A definition of CloneSets."""
    conditions = [{"type": "Established", "status": established}]
    tree = {"metadata": {"name": "clonesets.apps.kruise.io", **metadata}, "status": {"conditions": conditions}}
    return codec.convert(tree, CustomResourceDefinition)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(None, Presence.NOBODY, id="there is none"),
        pytest.param(definition(labels=MANAGED_BY_LABELS), Presence.OURS, id="ours has our label"),
        pytest.param(definition("False", labels=MANAGED_BY_LABELS), Presence.NOBODY, id="not taken up yet"),
        pytest.param(
            definition(labels=MANAGED_BY_LABELS, deletionTimestamp="2026-01-01T00:00:00Z"),
            Presence.NOBODY,
            id="on its way out",
        ),
        pytest.param(definition(annotations=GENERATED), Presence.OTHERS, id="OpenKruise's"),
        pytest.param(definition(), Presence.OTHERS, id="somebody's"),
        pytest.param(
            definition(labels=MANAGED_BY_LABELS, annotations=GENERATED),
            Presence.OTHERS,
            id="OpenKruise's, applied over ours",
        ),
    ],
)
def test_presence(found: CustomResourceDefinition | None, want: Presence) -> None:
    """Ours has our label, and nothing of OpenKruise's."""
    assert presence(found) is want
