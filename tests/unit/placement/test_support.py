"""Features of pods that Trimtab does not support."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.placement.support import STORAGE, unsupported
from trimtab.testing.builders import pod


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"volumes": [{"name": "c", "configMap": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "x"}}]},
            "spec.volumes[1].persistentVolumeClaim",
            id="a claim",
        ),
        pytest.param(
            {"volumes": [{"name": "d", "ephemeral": {}}]}, "spec.volumes[0].ephemeral", id="an ephemeral claim"
        ),
        pytest.param(
            {"volumes": [{"name": "d", "iscsi": {"iqn": "x"}}]}, "spec.volumes[0].iscsi", id="a disk on the net"
        ),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims", id="a device"),
        pytest.param({"schedulingGroup": {"podGroupName": "g"}}, "spec.schedulingGroup", id="a group"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, "spec.hostUsers", id="users of its own on the host's net"
        ),
        pytest.param(
            {
                "initContainers": [
                    {"name": "i", "restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
                ]
            },
            "spec.initContainers[0].restartPolicyRules",
            id="a rule that restarts all containers",
        ),
    ],
)
def test_unsupported_fields_are_named(spec: dict[str, Any], field: str) -> None:
    """The sentence starts with the field."""
    sentence = unsupported(pod("p").spec(**spec).build())
    assert sentence is not None
    assert sentence.startswith((f"{field} ", f"{field}, "))


@pytest.mark.parametrize("source", sorted(STORAGE.values()))
def test_every_unsupported_volume_source_is_named(source: str) -> None:
    """Nothing that the type of a volume knows is passed over, except what can be mounted anywhere."""
    sentence = unsupported(pod("p").spec(volumes=[{"name": "v", source: {}}]).build())
    assert sentence == f"spec.volumes[0].{source} takes knowledge of storage"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="an ordinary pod"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {}}]}, id="harmless volumes"),
        pytest.param({"volumes": [{"name": "v", "image": {"reference": "model:1"}}]}, id="an image that is mounted"),
        pytest.param({"hostNetwork": True}, id="the host's net and users"),
    ],
)
def test_supported_pods(spec: dict[str, Any]) -> None:
    """Volumes that any node can mount, and everything that the plugins look at."""
    assert unsupported(pod("p").spec(**spec).build()) is None
