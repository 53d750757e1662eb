"""The binaries of a control plane in one folder, as $KUBEBUILDER_ASSETS has them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab_lab.controlplane import versions
from trimtab_lab.controlplane.versions import API_SERVER, ETCD, OPTIONAL, REQUIRED, Version
from trimtab_lab.supervisor import LabError

VARIABLE = "KUBEBUILDER_ASSETS"
_VERSION_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Binaries:
    """The binaries in a folder, with their versions."""

    folder: Path
    versions: Mapping[str, Version]

    def path(self, name: str) -> str:
        """The path of a binary."""
        return str(self.folder / name)

    def has(self, name: str) -> bool:
        """Whether the folder has this binary."""
        return name in self.versions

    @property
    def summary(self) -> str:
        """Which control plane this is, for people."""
        return f"Kubernetes {self.versions[API_SERVER]} (etcd {self.versions[ETCD]}) from {self.folder}"

    def notes(self) -> Iterator[str]:
        """What differs from a complete control plane of today, and what is done about it."""
        if not self.has(versions.CONTROLLER_MANAGER):
            yield (
                f"there is no {versions.CONTROLLER_MANAGER}: the lab's controllers run workloads and nodes; dependents "
                "of deleted objects are not collected, and deleted namespaces stay Terminating"
            )
        if not self.has(versions.SCHEDULER):
            yield f"there is no {versions.SCHEDULER}: Trimtab's scheduler places all pods"
        if not versions.supports_watch_progress(self.versions[ETCD]):
            yield (
                f"etcd {self.versions[ETCD]} cannot report the progress of a watch on request: the API server reads "
                "consistent lists from etcd, and streaming lists (WatchList) are disabled"
            )


def choose_folder(value: str | None, environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder that --control-plane names: None without the option, $KUBEBUILDER_ASSETS without a value."""
    environ = os.environ if environ is None else environ
    if value is None:
        return None
    named = value or environ.get(VARIABLE, "")
    if not named:
        raise LabError(
            f"--control-plane has no folder, and ${VARIABLE} is not set; write --control-plane DIR, where DIR has etcd "
            "and kube-apiserver"
        )
    return Path(named).expanduser().absolute()


def find(folder: Path) -> Binaries:
    """Find the binaries in a folder and check them. Raises LabError with every reason why they cannot be used."""
    if not folder.is_dir():
        raise LabError(f"{folder} is not a folder; --control-plane takes a folder with etcd and kube-apiserver")
    missing = [name for name in REQUIRED if not (folder / name).exists()]
    if missing:
        raise LabError(
            f"{folder} has no {' and no '.join(missing)}; it must contain etcd and kube-apiserver "
            "(setup-envtest downloads both: https://book.kubebuilder.io/reference/envtest)"
        )
    present = [*REQUIRED, *(name for name in OPTIONAL if (folder / name).exists())]
    binaries = Binaries(folder, {name: _version(folder / name) for name in present})
    reasons = list(versions.problems(binaries.versions))
    if reasons:
        raise LabError(f"the binaries in {folder} cannot be used:\n" + "\n".join(f"  - {reason}" for reason in reasons))
    return binaries


def _version(path: Path) -> Version:
    try:
        answer = subprocess.run(  # noqa: S603 - the program that the user named
            [str(path), "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT, check=False
        )
    except PermissionError:
        raise LabError(f"{path} is not executable; make it so with 'chmod +x'") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{path} --version does not work ({error}); is it a binary for this machine?") from None
    version = versions.parse(answer.stdout + answer.stderr)
    if version is None:
        first = next(iter((answer.stdout or answer.stderr).strip().splitlines()), "nothing")
        raise LabError(f"{path} --version prints {first!r}, which is not {path.name}'s version")
    return version
