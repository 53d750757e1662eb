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


TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
IN = {"key": "a", "operator": "In"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
LABELS = {f"k{n}": "v" for n in range(1001)}


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("field", "most", "spec"),
    [
        pytest.param("spec.affinity.nodeAffinity", 100, lambda n: {"affinity": required(*[{}] * n)}, id="node terms"),
        pytest.param(
            "spec.affinity.nodeAffinity",
            50,
            lambda n: {"affinity": required(*[TERM] * n)},
            id="node terms with an expression each",
        ),
        pytest.param(
            "spec.affinity.nodeAffinity",
            50,
            lambda n: {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}] * n
                    }
                }
            },
            id="preferred node terms",
        ),
        pytest.param(
            "spec.affinity.podAffinity, together with podAntiAffinity,",
            32,
            lambda n: {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR] * n}}},
            id="pod terms",
        ),
        pytest.param(
            "spec.affinity.podAffinity, together with podAntiAffinity,",
            32,
            lambda n: {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NEAR}] * n
                    }
                }
            },
            id="preferred pod terms",
        ),
        pytest.param(
            "spec.topologySpreadConstraints",
            16,
            lambda n: {"topologySpreadConstraints": [SPREAD] * n},
            id="constraints",
        ),
        pytest.param(
            "spec.topologySpreadConstraints[*].labelSelector",
            100,
            lambda n: {
                "topologySpreadConstraints": [
                    {**SPREAD, "labelSelector": {"matchLabels": dict(list(LABELS.items())[:n])}}
                ]
            },
            id="labels of constraints",
        ),
        pytest.param(
            "spec.affinity",
            1999,
            lambda n: {"affinity": required({"matchExpressions": [{**IN, "values": ["v"] * (n + 1)}]})},
            id="values of node terms",
        ),
        pytest.param(
            "spec.affinity",
            1998,
            lambda n: {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "zone",
                                "labelSelector": {"matchExpressions": [{**IN, "values": ["v"] * (n + 1)}]},
                            }
                        ]
                    }
                }
            },
            id="values of pod terms",
        ),
        pytest.param(
            "spec.topologySpreadConstraints[*].labelSelector",
            1999,
            lambda n: {
                "topologySpreadConstraints": [
                    {**SPREAD, "labelSelector": {"matchExpressions": [{**IN, "values": ["v"] * n}]}}
                ]
            },
            id="values of constraints",
        ),
        pytest.param(
            "spec.containers, together with initContainers,",
            500,
            lambda n: {"containers": [{}] * (n - 1), "initContainers": [{}]},
            id="containers",
        ),
        pytest.param(
            "spec.containers[*].ports",
            1000,
            lambda n: {"containers": [{"ports": [{}] * (n - 1)}, {"ports": [{}]}]},
            id="ports",
        ),
        pytest.param("spec.tolerations", 1000, lambda n: {"tolerations": [{}] * n}, id="tolerations"),
        pytest.param(
            "spec.nodeSelector", 1000, lambda n: {"nodeSelector": dict(list(LABELS.items())[:n])}, id="node selector"
        ),
    ],
)
def test_pods_with_very_many_rules_are_not_supported(field: str, most: int, spec: Any) -> None:
    """Each is evaluated for each node: one pod must not keep the scheduler from all others."""
    assert unsupported(pod("p").spec(**spec(most)).build()) is None
    sentence = unsupported(pod("p").spec(**spec(most + 1)).build())
    assert sentence is not None
    assert sentence.startswith(f"{field} has ")
    assert sentence.endswith(" is the most")


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
