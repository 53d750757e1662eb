"""Defaults of built-in kinds; most of them are compared with recordings in `test_recordings`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.lab.apiserver import replays
from trimtab_lab.apiserver.kinds.defaults import apply_defaults
from trimtab_lab.apiserver.kinds.serialization import wiretypes

Tree = dict[str, Any]


def completed(kind: str, tree: Tree) -> Tree:
    """The object with its defaults."""
    wiretypes.read(kind, tree)
    apply_defaults(kind, tree)
    return tree


@pytest.mark.parametrize("named", replays.of(replays.Creation), ids=lambda pair: pair[0])
def test_defaults_are_idempotent(named: tuple[str, replays.Creation]) -> None:
    """They are applied again after each webhook."""
    case = named[1]
    tree = completed(case.kind, copy.deepcopy(case.sent))
    once = copy.deepcopy(tree)
    assert completed(case.kind, tree) == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("nginx", "Always", id="no tag"),
        pytest.param("nginx:latest", "Always", id="the latest"),
        pytest.param("nginx:1.25", "IfNotPresent", id="a tag"),
        pytest.param("example.com:5000/a/b", "Always", id="a port is no tag"),
        pytest.param("localhost/a__b-c.d:x", "IfNotPresent", id="separators in a name"),
        pytest.param(f"nginx@sha256:{'a' * 64}", "IfNotPresent", id="a digest"),
        pytest.param(f"nginx:latest@sha256:{'a' * 64}", "Always", id="the latest, and a digest"),
        pytest.param("upper/Case", "IfNotPresent", id="a name that cannot be read"),
        pytest.param("Upper/case", "Always", id="a host may have capitals"),
        pytest.param("a" * 64, "IfNotPresent", id="an identifier is no name"),
        pytest.param("", "IfNotPresent", id="none"),
        pytest.param("[::1]:5000/a", "Always", id="an address"),
    ],
)
def test_the_pull_policy_depends_on_the_tag(image: str, policy: str) -> None:
    """`Always` for the tag `latest`, or without a tag."""
    pod = completed("v1 Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "init", "requests"),
    [
        pytest.param({"limits": {"cpu": "2"}}, [], {"cpu": "300m"}, id="what the containers ask for"),
        pytest.param({"limits": {"memory": "1Gi"}}, [], {"cpu": "300m", "memory": "1Gi"}, id="else the limit"),
        pytest.param(
            {"limits": {"cpu": "2"}},
            [{"resources": {"requests": {"cpu": "1"}}}],
            {"cpu": "1"},
            id="or what comes before",
        ),
        pytest.param(
            {"limits": {"cpu": "2"}},
            [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
            {"cpu": "1300m"},
            id="what stays counts with the others",
        ),
        pytest.param({"limits": {"cpu": "2"}, "requests": {"cpu": "5m"}}, [], {"cpu": "5m"}, id="what is said"),
        pytest.param({"requests": {"cpu": "5m"}}, [], {"cpu": "5m"}, id="no limits"),
    ],
)
def test_pod_level_requests_follow_from_containers_or_limits(resources: Tree, init: list[Tree], requests: Tree) -> None:
    """Where a pod has limits as a whole."""
    containers = [{"resources": {"requests": {"cpu": amount}}} for amount in ("100m", "200m")]
    pod = completed("v1 Pod", {"spec": {"resources": resources, "containers": containers, "initContainers": init}})
    assert pod["spec"]["resources"]["requests"] == requests


@pytest.mark.parametrize(
    ("kind", "tree", "path", "value"),
    [
        pytest.param(
            "v1 Node",
            {"status": {"capacity": {"cpu": "1u"}}},
            "status.allocatable",
            {"cpu": "1m"},
            id="amounts are rounded up to thousandths",
        ),
        pytest.param(
            "v1 Node", {"spec": {"podCIDR": "10.0.0.0/24"}}, "spec.podCIDRs", ["10.0.0.0/24"], id="one network"
        ),
        pytest.param(
            "v1 Pod",
            {"spec": {}, "status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.9"}]}},
            "status.podIPs",
            [{"ip": "192.0.2.1"}],
            id="the single address wins",
        ),
        pytest.param(
            "v1 LimitRange",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}},
            "spec.limits.0.defaultRequest",
            {"memory": "1Mi", "cpu": "2"},
            id="limits for containers",
        ),
        pytest.param("v1 PersistentVolumeClaim", {}, "spec.volumeMode", "Filesystem", id="claims"),
        pytest.param("v1 PersistentVolume", {}, "spec.persistentVolumeReclaimPolicy", "Retain", id="volumes"),
        pytest.param(
            "v1 Endpoints", {"subsets": [{"ports": [{"port": 1}]}]}, "subsets.0.ports.0.protocol", "TCP", id="endpoints"
        ),
        pytest.param("autoscaling/v1 HorizontalPodAutoscaler", {}, "spec.minReplicas", 1, id="autoscalers"),
        pytest.param(
            "v1 Pod",
            {"spec": {"volumes": [{"name": "a", "azureDisk": {"diskName": "x", "diskURI": "y"}}]}},
            "spec.volumes.0.azureDisk.cachingMode",
            "ReadWrite",
            id="a disk of a cloud",
        ),
    ],
)
def test_a_field_gets_its_default(kind: str, tree: Tree, path: str, value: Any) -> None:
    """Defaults that no recording shows."""
    found: Any = completed(kind, tree)
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else found[step]
    assert found == value
