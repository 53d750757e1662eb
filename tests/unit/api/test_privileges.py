"""Patches of subsets that change privileged fields need an administrator's consent."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.api import codec
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.unitedtopology import UnitedTopology, privileges, problems
from trimtab.subsets import shaping

CASES: list[tuple[str, JSON, str, str]] = [
    ("a service account", {"serviceAccountName": "admin"}, "serviceAccountName", "serviceAccountName"),
    ("the old name of it", {"serviceAccount": "admin"}, "serviceAccount", "serviceAccountName"),
    ("a token", {"automountServiceAccountToken": True}, "automountServiceAccountToken", "automountServiceAccountToken"),
    ("the host's network", {"hostNetwork": True}, "hostNetwork", "hostNetwork"),
    ("the host's processes", {"hostPID": True}, "hostPID", "hostPID"),
    ("the host's memory", {"hostIPC": True}, "hostIPC", "hostIPC"),
    ("the host's users", {"hostUsers": None}, "hostUsers", "hostUsers"),
    ("a node", {"nodeName": "control-plane"}, "nodeName", "nodeName"),
    ("a priority", {"priorityClassName": "system-node-critical"}, "priorityClassName", "priorityClassName"),
    ("a runtime", {"runtimeClassName": None}, "runtimeClassName", "runtimeClassName"),
    ("a security context", {"securityContext": {"runAsUser": 0}}, "securityContext", "securityContext"),
    ("no security context", {"securityContext": None}, "securityContext", "securityContext"),
    (
        "a privileged container",
        {"containers": [{"name": "web", "securityContext": {"privileged": True}}]},
        "containers[web].securityContext",
        "securityContext",
    ),
    (
        "a container in place of another",
        {"containers": [{"$patch": "replace"}, {"name": "web", "image": "x"}]},
        "containers[web].securityContext",
        "securityContext",
    ),
    (
        "an init container",
        {"initContainers": [{"name": "root", "image": "x", "securityContext": {"runAsUser": 0}}]},
        "initContainers[root].securityContext",
        "securityContext",
    ),
    (
        "a port of the host",
        {"containers": [{"name": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        "containers[web].ports",
        "hostPort",
    ),
    (
        "a path of the host",
        {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
        "volumes[root].hostPath",
        "hostPath",
    ),
]
PRIVILEGED = [pytest.param(spec, path, name, id=case) for case, spec, path, name in CASES]


def topology(spec: JSON) -> UnitedTopology:
    """A UnitedTopology with one subset, whose patch changes the spec of pods."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    tree = {"spec": {"targetRef": target, "subsets": [{"name": "a", "patch": {"spec": spec}}]}}
    return codec.convert(tree, UnitedTopology)


def pod() -> JSON:
    """A pod with privileges of its own template, and with restrictions."""
    restricted = {"runAsNonRoot": True}
    container = {"name": "web", "image": "web:1", "securityContext": restricted}
    return {
        "metadata": {"generateName": "web-"},
        "spec": {
            "containers": [container],
            "serviceAccountName": "web",
            "automountServiceAccountToken": False,
            "hostUsers": False,
            "runtimeClassName": "sandboxed",
            "securityContext": restricted,
            "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
        },
    }


@pytest.mark.parametrize(("spec", "path", "name"), PRIVILEGED)
def test_a_patch_with_a_privileged_field_is_invalid_without_consent(spec: JSON, path: str, name: str) -> None:
    """The error names the field and the setting."""
    found = [each for each in problems(topology(spec)) if path in each.path]
    assert [each.path for each in found] == [f"spec.subsets[0].patch.spec.{path}"]
    assert f'add "{name}" to unitedTopology.allowedPatchFields' in found[0].reason
    assert list(problems(topology(spec), allowed_fields=[name])) == []


@pytest.mark.parametrize(("spec", "path", "name"), PRIVILEGED)
def test_a_pod_is_not_given_a_privilege_without_consent(spec: JSON, path: str, name: str) -> None:
    """Whatever was stored while validation was off."""
    (subset,) = topology(spec).spec.subsets
    with pytest.raises(InvalidError, match="needs consent") as caught:
        shaping.patched(pod(), subset)
    assert caught.value.path == f"patch.spec.{path}"
    assert shaping.patched(pod(), subset, allowed_fields=[name]) != pod()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [{"name": "web", "env": [{"name": "ZONE", "value": "a"}]}]}, id="an environment"),
        pytest.param({"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]}, id="resources"),
        pytest.param({"containers": [{"name": "side", "image": "side:1"}]}, id="another container"),
        pytest.param({"nodeSelector": {"pool": "spot"}, "schedulerName": "other"}, id="nodes"),
        pytest.param({"volumes": [{"name": "tmp", "emptyDir": {}}]}, id="a volume"),
        pytest.param({"hostNetwork": False}, id="less than before"),
        pytest.param({"serviceAccountName": "web"}, id="what the template says"),
    ],
)
def test_everything_else_needs_no_consent(spec: JSON) -> None:
    """Patches are for such things."""
    (subset,) = topology(spec).spec.subsets
    before: dict[str, Any] = pod()
    assert shaping.patched(before, subset)["spec"] is not None
    if "serviceAccountName" not in spec:
        assert list(problems(topology(spec))) == []


def test_every_field_that_can_be_consented_to_has_a_case() -> None:
    """So that none is listed which nothing checks."""
    assert {name for *_, name in CASES} == set(privileges.FIELDS)
