"""A cluster that Trimtab is installed into, and the programs that install it there, as a user runs them.

Installations have objects that all of a cluster shares, so these tests have a control plane of their own, without
Trimtab, on the binaries of CONTROL_PLANE: the embedded lab's API server does not serve admission policies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.labs import lab
from tests.unit.deploy.formats import HELM, KUBECTL, by_identity
from trimtab.api.documents import JSON
from trimtab.install.kustomize import Identity
from trimtab.install.options import MANAGED_BY

BINARIES = os.environ.get("CONTROL_PLANE", "")
marks = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not in the PATH"),
    pytest.mark.skipif(not BINARIES, reason="CONTROL_PLANE names no folder with etcd and kube-apiserver"),
]
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is neither in HELM nor in the PATH")

KINDS = (
    "namespaces,customresourcedefinitions,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,configmaps,"
    "secrets,services,deployments,poddisruptionbudgets,networkpolicies,mutatingwebhookconfigurations,"
    "validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"
)
OURS = "app.kubernetes.io/name=trimtab"
_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_BY_APPLIERS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
    "deployment.kubernetes.io/revision",
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster by its kubeconfig."""

    kubeconfig: Path

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl."""
        assert KUBECTL is not None
        return self._run([KUBECTL, *arguments], text)

    def helm(self, *arguments: str) -> str:
        """Run helm."""
        assert HELM is not None
        return self._run([HELM, *arguments])

    def trimtab(self, *arguments: str) -> str:
        """Run trimtab."""
        return self._run([sys.executable, "-m", "trimtab", *arguments])

    def _run(self, command: Sequence[str], text: str | None = None) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - programs of the PATH
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def apply(self, *arguments: str) -> None:
        """`trimtab install | kubectl apply`."""
        self.kubectl("apply", "--filename=-", text=self.trimtab("install", *arguments))

    def remove(self, namespace: str, *more: str) -> None:
        """`trimtab uninstall`, and wait until the namespace is gone too."""
        self.trimtab("uninstall", "--namespace", namespace, "--yes", *more)
        self.kubectl("wait", "--for=delete", f"namespace/{namespace}", "--timeout=90s")

    def objects(self, selector: str = OURS) -> list[JSON]:
        """All objects of installations, as the API server gives them back."""
        arguments = ["--all-namespaces", f"--selector={selector}", "--output=json"]
        found: list[JSON] = json.loads(self.kubectl("get", KINDS, *arguments))["items"]
        return found

    def stored(self, selector: str = OURS) -> dict[Identity, JSON]:
        """The same by identity, without what appliers add."""
        return by_identity(map(_as_written, self.objects(selector)))

    def bound(self, role: str) -> set[str]:
        """The namespaces with a RoleBinding of this name."""
        found = json.loads(self.kubectl("get", "rolebindings", "--all-namespaces", "--output=json"))["items"]
        return {each["metadata"]["namespace"] for each in found if each["metadata"]["name"] == role}


def _as_written(tree: JSON) -> JSON:
    """An object without what the API server, controllers and appliers add to it."""
    plain = deepcopy(tree)
    plain.pop("status", None)
    metadata = plain["metadata"]
    for name in _BY_SERVER:
        metadata.pop(name, None)
    left = {name: value for name, value in metadata.pop("annotations", {}).items() if name not in _BY_APPLIERS}
    if left:
        metadata["annotations"] = left
    metadata["labels"].pop(MANAGED_BY, None)  # which Helm sets to its own name
    if plain["kind"] == "Service":
        for name in ("clusterIP", "clusterIPs"):
            plain["spec"].pop(name, None)
    return plain


@contextmanager
def empty_cluster(state: Path) -> Iterator[Cluster]:
    """A lab without Trimtab and without nodes."""
    with lab(state, "--no-product", "--control-plane", BINARIES):
        yield Cluster(state / "kubeconfig")
