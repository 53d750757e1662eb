"""Binaries in a folder: what is found, and each error with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab_lab.controlplane import binaries
from trimtab_lab.controlplane.versions import Version
from trimtab_lab.supervisor import LabError

OUTPUT = {
    "etcd": "etcd Version: 3.6.8",
    "kube-apiserver": "Kubernetes v1.36.4",
    "kube-controller-manager": "Kubernetes v1.36.4",
    "kube-scheduler": "Kubernetes v1.36.4",
}


def fill(folder: Path, **output: str) -> Path:
    """Write scripts that print these versions; names are written with underscores."""
    for name, text in output.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)
    return folder


def test_all_binaries_are_found(tmp_path: Path) -> None:
    """With their versions, and nothing to note."""
    found = binaries.find(fill(tmp_path, **OUTPUT))
    assert found.versions["etcd"] == Version(3, 6, 8)
    assert found.summary == f"Kubernetes 1.36.4 (etcd 3.6.8) from {tmp_path}"
    assert list(found.notes()) == []


def test_missing_controllers_and_an_old_etcd_are_noted(tmp_path: Path) -> None:
    """A folder as operator developers have it: etcd and kube-apiserver alone."""
    notes = list(binaries.find(fill(tmp_path, etcd="etcd Version: 3.5.1", kube_apiserver="Kubernetes v1.36.4")).notes())
    assert [note.partition(":")[0] for note in notes] == [
        "there is no kube-controller-manager",
        "there is no kube-scheduler",
        "etcd 3.5.1 cannot report the progress of a watch on request",
    ]


def test_missing_binaries_are_explained(tmp_path: Path) -> None:
    """By name, with where to get them."""
    with pytest.raises(LabError, match=r"has no etcd and no kube-apiserver; .*setup-envtest"):
        binaries.find(tmp_path)
    with pytest.raises(LabError, match=r"has no kube-apiserver; "):
        binaries.find(fill(tmp_path, etcd=OUTPUT["etcd"]))


def test_a_folder_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    """With what the option takes."""
    with pytest.raises(LabError, match="is not a folder; --control-plane takes a folder with etcd and kube-apiserver"):
        binaries.find(tmp_path / "nowhere")


def test_old_and_mixed_binaries_are_explained_together(tmp_path: Path) -> None:
    """All reasons at once."""
    mixed = {**OUTPUT, "etcd": "etcd Version: 3.4.9", "kube-scheduler": "Kubernetes v1.30.0"}
    with pytest.raises(LabError) as caught:
        binaries.find(fill(tmp_path, **mixed))
    assert "etcd is 3.4.9, which is too old" in caught.value.message
    assert "kube-scheduler is 1.30.0 and kube-apiserver is 1.36.4" in caught.value.message


def test_a_program_that_is_something_else_is_explained(tmp_path: Path) -> None:
    """With what it printed."""
    with pytest.raises(LabError, match=r"prints 'hello', which is not kube-apiserver's version"):
        binaries.find(fill(tmp_path, **{**OUTPUT, "kube-apiserver": "hello"}))


def test_files_that_cannot_be_executed_are_explained(tmp_path: Path) -> None:
    """A download without its mode, and a binary for another machine."""
    fill(tmp_path, **OUTPUT)
    (tmp_path / "etcd").chmod(0o644)
    with pytest.raises(LabError, match=r"etcd is not executable; make it so with 'chmod \+x'"):
        binaries.find(tmp_path)
    (tmp_path / "etcd").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "etcd").chmod(0o755)
    with pytest.raises(LabError, match="is it a binary for this machine"):
        binaries.find(tmp_path)


def test_the_folder_is_that_of_the_option_or_of_the_environment(tmp_path: Path) -> None:
    """Without the option the lab is embedded, whatever the environment says."""
    environ = {binaries.VARIABLE: str(tmp_path)}
    assert binaries.choose_folder(None, environ) is None
    assert binaries.choose_folder("", environ) == tmp_path
    assert binaries.choose_folder("/elsewhere", environ) == Path("/elsewhere")
    with pytest.raises(LabError, match=r"\$KUBEBUILDER_ASSETS is not set"):
        binaries.choose_folder("", {})
