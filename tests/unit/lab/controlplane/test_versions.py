"""Versions of binaries, and which of them work together."""

from __future__ import annotations

import pytest

from trimtab_lab.controlplane import versions
from trimtab_lab.controlplane.versions import API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Version

GOOD = {
    ETCD: Version(3, 6, 8),
    API_SERVER: Version(1, 36, 4),
    CONTROLLER_MANAGER: Version(1, 36, 4),
    SCHEDULER: Version(1, 36, 4),
}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("Kubernetes v1.36.4\n", Version(1, 36, 4), id="Kubernetes"),
        pytest.param("Kubernetes v1.35.0-rc.1+abc\n", Version(1, 35, 0), id="a release candidate"),
        pytest.param("etcd Version: 3.5.1\nGit SHA: e8732fb5f\n", Version(3, 5, 1), id="etcd"),
        pytest.param("GNU bash, version 5.2.15\n", None, id="something else"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_versions_are_parsed(text: str, version: Version | None) -> None:
    """As the binaries print them."""
    assert versions.parse(text) == version


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({ETCD: Version(3, 5, 0)}, "etcd is 3.5.0, which is too old; use 3.5.1 or newer", id="old etcd"),
        pytest.param(
            {API_SERVER: Version(1, 29, 9), CONTROLLER_MANAGER: Version(1, 29, 9), SCHEDULER: Version(1, 29, 9)},
            "kube-apiserver is 1.29.9, which is too old; Trimtab supports 1.30.0 and newer",
            id="old Kubernetes",
        ),
        pytest.param(
            {SCHEDULER: Version(1, 37, 0)}, "kube-scheduler is 1.37.0 and kube-apiserver is 1.36.4", id="a newer client"
        ),
        pytest.param(
            {CONTROLLER_MANAGER: Version(1, 34, 0)},
            "kube-controller-manager must be of the same minor version or one older",
            id="a client two versions older",
        ),
    ],
)
def test_binaries_that_do_not_fit_are_explained(changed: dict[str, Version], words: str) -> None:
    """Each with the versions and what to do."""
    (problem,) = versions.problems({**GOOD, **changed})
    assert words in problem


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="one release"),
        pytest.param({SCHEDULER: Version(1, 35, 9)}, id="a client one minor version older"),
        pytest.param({ETCD: Version(3, 5, 1)}, id="the oldest etcd"),
    ],
)
def test_binaries_that_fit_have_no_problems(changed: dict[str, Version]) -> None:
    """The version skew policy of Kubernetes."""
    assert list(versions.problems({**GOOD, **changed})) == []
