"""Discovery of the API server: the given file, kubectl's files, or, in a pod, the mounted service account."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trimtab.kube import kubeconfig, proxies
from trimtab.kube.clocks import Clock, SystemClock
from trimtab.kube.credentials import FileMaterial, StaticCredentials
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.errors import ConfigError
from trimtab.kube.tls import Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def discover(
    path: str | Path | None = None,
    *,
    context: str = "",
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Endpoint:
    """The API server to use, searched as kubectl does: `path`, $KUBECONFIG, ~/.kube/config, the pod's own cluster."""
    environ = os.environ if environ is None else environ
    clock = clock or SystemClock()
    paths = _paths(path, environ)
    if paths:
        return kubeconfig.load(paths, clock, context=context, environ=environ)
    if "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ=environ, clock=clock)
    raise ConfigError("no cluster is configured: set KUBECONFIG, create ~/.kube/config, or run in a pod of a cluster")


def in_cluster(
    *, environ: Mapping[str, str] | None = None, clock: Clock | None = None, mounted: Path = SERVICE_ACCOUNT
) -> Endpoint:
    """The cluster that this pod runs in, with the pod's service account."""
    environ = os.environ if environ is None else environ
    clock = clock or SystemClock()
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Endpoint(
        server=server,
        credentials=StaticCredentials(token=FileMaterial(mounted / "token", clock)),
        trust=Trust(FileMaterial(mounted / "ca.crt", clock)),
        namespace=_namespace(mounted / "namespace"),
        proxy=proxies.from_environment(server, environ),
        origin="the cluster of this pod",
    )


def _paths(path: str | Path | None, environ: Mapping[str, str]) -> list[Path]:
    if path is not None:
        return [Path(path).expanduser()]
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return named
    home = Path(environ.get("HOME") or "/") / ".kube" / "config"  # containers may have no HOME
    return [home] if home.is_file() else []


def _namespace(path: Path) -> str:
    try:
        return path.read_text().strip() or "default"
    except OSError:
        return "default"
