"""Finding an API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.kube import config
from trimtab.kube.credentials import Grant
from trimtab.kube.errors import ConfigError

FILE = """
current-context: x
clusters: [{{name: c, cluster: {{server: "https://{0}.example.com"}}}}]
contexts: [{{name: x, context: {{cluster: c}}}}, {{name: y, context: {{cluster: c, namespace: other}}}}]
"""


def write(path: Path, name: str) -> Path:
    """A kubeconfig that names a server."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILE.format(name))
    return path


def test_the_search_order_of_kubeconfigs(tmp_path: Path) -> None:
    """The path that is given, then KUBECONFIG, then the home directory, then the pod's own cluster."""
    given = write(tmp_path / "given", "given")
    named = write(tmp_path / "named", "named")
    home = write(tmp_path / "home" / ".kube" / "config", "home").parents[1]
    environ = {
        "KUBECONFIG": f":{named}",
        "HOME": str(home),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    assert config.discover(given, environ=environ).server == "https://given.example.com"
    assert config.discover(environ=environ).server == "https://named.example.com"
    del environ["KUBECONFIG"]
    assert config.discover(environ=environ).server == "https://home.example.com"
    environ["HOME"] = str(tmp_path)
    assert config.discover(environ=environ).server == "https://10.0.0.1:443"


def test_a_context_can_be_named(tmp_path: Path) -> None:
    """It is looked for in the merged files."""
    assert config.discover(write(tmp_path / "f", "f"), context="y", environ={}).namespace == "other"


def test_a_named_kubeconfig_must_exist(tmp_path: Path) -> None:
    """A path or a variable that leads nowhere is an error; the next place would be a surprise."""
    write(tmp_path / ".kube" / "config", "home")
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*missing"):
        config.discover(tmp_path / "missing", environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*missing"):
        config.discover(environ={"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "missing")})


def test_no_cluster_is_configured(tmp_path: Path) -> None:
    """The message says what to do."""
    with pytest.raises(ConfigError, match=r"set KUBECONFIG, create ~/\.kube/config, or run in a pod"):
        config.discover(environ={"HOME": str(tmp_path)})


async def test_inside_a_pod(tmp_path: Path) -> None:
    """Everything comes from what the kubelet mounted; an IPv6 address gets its brackets."""
    for name, content in (("token", "t\n"), ("ca.crt", "authority"), ("namespace", "prod\n")):
        (tmp_path / name).write_text(content)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    endpoint = config.in_cluster(environ=environ, mounted=tmp_path)
    assert (endpoint.server, endpoint.namespace) == ("https://[fd00::1]:6443", "prod")
    assert await endpoint.credentials.grant() == Grant("t")
    assert endpoint.trust.authority is not None
    assert endpoint.trust.authority.read() == b"authority"


def test_outside_of_a_pod(tmp_path: Path) -> None:
    """The environment variables are required; without a namespace file it is the default namespace."""
    with pytest.raises(ConfigError, match="not running in a pod"):
        config.in_cluster(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, mounted=tmp_path)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert config.in_cluster(environ=environ, mounted=tmp_path).namespace == "default"
