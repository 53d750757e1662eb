"""Kubeconfig files: merged as kubectl does it, and refused with a reason."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from trimtab.kube import kubeconfig
from trimtab.kube.credentials import Grant
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.errors import ConfigError
from trimtab.kube.execplugins import ExecCredentials
from trimtab.testing.clocks import VirtualClock

SECRET = "hunter2"


def config(user: Any = None, cluster: Any = None, **more: Any) -> dict[str, Any]:
    """A kubeconfig with one of everything."""
    return {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": dict(user or {})}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        **more,
    }


def write(path: Path, content: Any) -> Path:
    """The file, written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(*paths: Path, context: str = "", environ: Mapping[str, str] | None = None) -> Endpoint:
    """The endpoint of these files."""
    return kubeconfig.load(paths, VirtualClock(), context=context, environ=environ or {})


def encoded(text: str) -> str:
    """As kubeconfigs hold data."""
    return base64.b64encode(text.encode()).decode()


async def test_a_plain_file(tmp_path: Path) -> None:
    """Server, token and namespace come from the current context."""
    tree = config({"token": "t"})
    tree["contexts"][0]["context"]["namespace"] = "prod"
    endpoint = load(write(tmp_path / "config", tree))
    assert (endpoint.server, endpoint.namespace) == ("https://api.example.com:6443", "prod")
    assert await endpoint.credentials.grant() == Grant("t")


async def test_the_first_file_wins(tmp_path: Path) -> None:
    """Entries are not merged: one of the same name in a later file is ignored."""
    first = write(tmp_path / "a", {"users": [{"name": "u", "user": {"token": "first"}}], "current-context": ""})
    second = write(
        tmp_path / "b", config({"token": "second", "as": "somebody"}, contexts=[], **{"current-context": "there"})
    )
    third = write(tmp_path / "c", {"contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}]})
    endpoint = load(first, tmp_path / "missing", second, third)
    assert (await endpoint.credentials.grant()).token == "first"
    assert endpoint.impersonate == {}
    assert endpoint.origin == "context 'there'"


async def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    """The current one is only the default."""
    tree = config()
    tree["clusters"].append({"name": "other", "cluster": {"server": "https://other.example.com"}})
    tree["contexts"].append({"name": "there", "context": {"cluster": "other", "user": "u"}})
    assert load(write(tmp_path / "config", tree), context="there").server == "https://other.example.com"


async def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    """Wherever the program was started."""
    write(tmp_path / "keys" / "token", "from file")
    write(tmp_path / "keys" / "ca", "authority")
    tree = config({"tokenFile": "keys/token"}, {"certificate-authority": "keys/ca"})
    endpoint = load(write(tmp_path / "config", tree))
    assert (await endpoint.credentials.grant()).token == "from file"
    assert endpoint.trust.authority is not None
    assert endpoint.trust.authority.read() == b"authority"


async def test_data_wins_over_files_and_a_token_file_over_a_token(tmp_path: Path) -> None:
    """As in kubectl."""
    write(tmp_path / "f", "from file")
    tree = config(
        {
            "token": "inline",
            "tokenFile": "f",
            "client-certificate-data": encoded("certificate"),
            "client-certificate": "f",
            "client-key-data": encoded("key"),
            "client-key": "f",
        }
    )
    endpoint = load(write(tmp_path / "config", tree))
    assert await endpoint.credentials.grant() == Grant("from file", b"certificate", b"key")


def test_how_the_server_is_trusted(tmp_path: Path) -> None:
    """Another name, or not at all."""
    named = load(write(tmp_path / "a", config(cluster={"tls-server-name": "kubernetes"})))
    assert named.trust.server_name == "kubernetes"
    blind = load(write(tmp_path / "b", config(cluster={"insecure-skip-tls-verify": True})))
    assert blind.trust.insecure


def test_proxies(tmp_path: Path) -> None:
    """The cluster's own wins over the environment's."""
    environ = {"HTTPS_PROXY": "http://env:1"}
    assert load(write(tmp_path / "a", config()), environ=environ).proxy == "http://env:1"
    own = load(write(tmp_path / "b", config(cluster={"proxy-url": f"http://u:{SECRET}@own:2"})), environ=environ)
    assert own.proxy == f"http://u:{SECRET}@own:2"
    assert SECRET not in repr(own)


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    """To leave it out would be to act with more rights than were meant."""
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/Reason ü": ["x", "y"]},
    }
    assert load(write(tmp_path / "config", config(user))).impersonate == {
        "Impersonate-User": ("jane",),
        "Impersonate-Uid": ("7",),
        "Impersonate-Group": ("a", "b"),
        "Impersonate-Extra-example.com%2Freason%20%C3%BC": ("x", "y"),
    }


def test_an_exec_plugin_is_prepared_and_not_run(tmp_path: Path) -> None:
    """Reading a file starts no program; a command with a slash is relative to the file."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--secret", SECRET],
        "env": [{"name": "A", "value": SECRET}],
        "interactiveMode": "Never",
    }
    endpoint = load(write(tmp_path / "config", config({"exec": plugin})))
    assert isinstance(endpoint.credentials, ExecCredentials)
    assert repr(endpoint.credentials) == f"ExecCredentials({str(tmp_path / 'bin/login')!r})"


async def test_a_token_wins_over_an_exec_plugin(tmp_path: Path) -> None:
    """As in kubectl, where credentials that are there need no program."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    endpoint = load(write(tmp_path / "config", config({"exec": plugin, "token": "t"})))
    assert await endpoint.credentials.grant() == Grant("t")


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        pytest.param(
            config({"username": "u", "password": SECRET}), "username and password are not supported", id="basic auth"
        ),
        pytest.param(config({"auth-provider": {"name": "gcp"}}), "auth-provider is not supported", id="auth providers"),
        pytest.param(config({"client-certificate-data": "YQ=="}), "only one of client-certificate", id="half a pair"),
        pytest.param(
            config({"client-key-data": f"{SECRET}!"}), "client-key-data is not valid base64", id="broken base64"
        ),
        pytest.param(config({"as-uid": "7"}), "need `as`", id="half an impersonation"),
        pytest.param(config({"token": 42_000_000}), r"users\[0\]\.user\.token has the wrong type", id="a wrong type"),
        pytest.param(config({"exec": {"command": "x"}}), "apiVersion '' is not one of", id="exec without a version"),
        pytest.param(
            config({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "v1alpha1' is not one of",
            id="exec of an old version",
        ),
        pytest.param(
            config({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
            "interactiveMode must be",
            id="exec v1 without a mode",
        ),
        pytest.param(
            config({"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1"}}),
            "command is missing",
            id="exec without a command",
        ),
        pytest.param(
            config(
                {
                    "exec": {
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "interactiveMode": "Maybe",
                    }
                }
            ),
            "interactiveMode 'Maybe'",
            id="exec with an unknown mode",
        ),
        pytest.param(config(cluster={"server": ""}), "cluster 'c' of the kubeconfig has no server", id="no server"),
        pytest.param(config(cluster={"server": "ftp://x"}), "is not an http", id="a server of another kind"),
        pytest.param(
            config(cluster={"server": f"https://u:{SECRET}@x"}),
            "must not contain a user name",
            id="a password in the address",
        ),
        pytest.param(
            config(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": "YQ=="}),
            "cannot be combined",
            id="trust and distrust",
        ),
        pytest.param(config(cluster={"proxy-url": f"socks5://u:{SECRET}@p"}), "socks5 proxies", id="a socks proxy"),
        pytest.param(
            config(**{"current-context": ""}),
            "has no current-context; choose a context with --context: here",
            id="no context",
        ),
        pytest.param(config(**{"current-context": "x"}), "no context 'x'; it has: here", id="an unknown context"),
        pytest.param(config(clusters=[]), "no cluster 'c'; it has: none", id="an unknown cluster"),
        pytest.param(config(users=[]), "no user 'u'", id="an unknown user"),
        pytest.param(config(users=[{"name": "u"}, {"name": "u"}]), "two entries with the same name", id="a name twice"),
        pytest.param(f"users: [{SECRET}", r"is not valid YAML \(line 1\)", id="no YAML"),
        pytest.param("[1]", "the file has the wrong type", id="no mapping"),
        pytest.param("a: !!int b", "is not valid YAML", id="a value that does not fit its tag"),
        pytest.param("a: " + "[" * 500, "is not valid YAML", id="deep nesting"),
        pytest.param(config(cluster={"server": "https://[::1"}), "the address is not valid", id="half an address"),
        pytest.param(config(cluster={"server": "https://h:99999"}), "the address is not valid", id="no such port"),
        pytest.param(
            config(cluster={"server": f"https://u:{SECRET}"}), "the address is not valid", id="a password as the port"
        ),
        pytest.param(config(cluster={"proxy-url": "http://["}), "proxy-url is not a valid address", id="half a proxy"),
        pytest.param(config({"tokenFile": "~no-such-user/t"}), "is not a path", id="a home that nobody has"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, tree: Any, why: str) -> None:
    """Each error gives the reason, and none shows a secret."""
    with pytest.raises(ConfigError, match=why) as caught:
        load(write(tmp_path / "config", tree))
    assert SECRET not in str(caught.value)
    assert "42000000" not in str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    """One missing file is skipped, all of them are an error."""
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*one, .*two"):
        load(tmp_path / "one", tmp_path / "two")


def test_an_empty_file_is_skipped(tmp_path: Path) -> None:
    """It is not an error in itself: another file may have entries."""
    empty = write(tmp_path / "empty", "")
    assert load(empty, write(tmp_path / "config", config())).server == "https://api.example.com:6443"
    with pytest.raises(ConfigError, match="choose a context with --context: none"):
        load(empty)


def test_control_characters_of_a_hint_are_replaced(tmp_path: Path) -> None:
    """Control characters are spelled out."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-program-anywhere",
        "interactiveMode": "Never",
        "installHint": "get it\n\u001b[31mhere",
    }
    user = kubeconfig.read(write(tmp_path / "config", config({"exec": plugin}))).users[0].user
    assert user.exec is not None
    assert kubeconfig._printable(user.exec.install_hint) == "get it\nU+001B[31mhere"  # noqa: SLF001 - the rule itself
