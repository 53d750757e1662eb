"""Kubeconfig files: read, merged as kubectl merges them, and turned into an `Endpoint`.

Of several files the first one wins: for the current context, and for each cluster, user and context by name. Relative
paths are relative to the file that contains them.

Not supported: basic authentication (API servers no longer accept it), auth providers (replaced by exec plugins), and
exec plugins of versions before v1beta1. Messages name the field and never its value, which may be a secret.
"""

from __future__ import annotations

import base64
import binascii
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from trimtab.api import codec
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.kube import proxies
from trimtab.kube.clocks import Clock
from trimtab.kube.credentials import Credentials, FileMaterial, InlineMaterial, Material, StaticCredentials
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.errors import ConfigError
from trimtab.kube.execplugins import ExecCredentials, Plugin
from trimtab.kube.files import parse_yaml
from trimtab.kube.tls import Trust

T = TypeVar("T")

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class NamedExtension(Model):
    """An extension of another program."""

    name: str = ""
    extension: Any = None


class Cluster(Model, rename="kebab"):
    """A cluster entry, as written."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[NamedExtension, ...] = ()


class EnvironmentVariable(Model):
    """An environment variable of an exec plugin."""

    name: str
    value: str = ""


class Exec(Model):
    """An exec plugin, as written."""

    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(Model, rename="kebab"):
    """A user entry, as written."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: Mapping[str, tuple[str, ...]] = {}


class Context(Model):
    """A context: a cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Model):
    """A cluster and its name."""

    name: str
    cluster: Cluster = Cluster()


class NamedUser(Model):
    """A user and its name."""

    name: str
    user: User = User()


class NamedContext(Model):
    """A context and its name."""

    name: str
    context: Context = Context()


class ConfigFile(Model):
    """One kubeconfig file."""

    current_context: str = msgspec.field(name="current-context", default="")
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """An entry with the file that it comes from."""

    value: T
    path: Path

    def file(self, name: str) -> Path:
        """A path, resolved relative to that file."""
        try:
            return self.path.parent / Path(name).expanduser()
        except RuntimeError as error:
            raise ConfigError(f"{self.path}: {name!r} is not a path: {error}") from error


@dataclass(slots=True)
class Kubeconfig:
    """Several files, merged."""

    current_context: str = ""
    clusters: dict[str, Entry[Cluster]] = field(default_factory=dict)
    users: dict[str, Entry[User]] = field(default_factory=dict)
    contexts: dict[str, Entry[Context]] = field(default_factory=dict)

    def add(self, file: ConfigFile, path: Path) -> None:
        """Merge another file; existing entries win."""
        self.current_context = self.current_context or file.current_context
        _merge(self.clusters, "clusters", [(c.name, c.cluster) for c in file.clusters], path)
        _merge(self.users, "users", [(u.name, u.user) for u in file.users], path)
        _merge(self.contexts, "contexts", [(c.name, c.context) for c in file.contexts], path)


def load(paths: Sequence[Path], clock: Clock, *, context: str = "", environ: Mapping[str, str]) -> Endpoint:
    """The endpoint that these files describe. Missing files are skipped, but one must exist."""
    merged = Kubeconfig()
    found = [path for path in paths if path.is_file()]
    if not found:
        raise ConfigError(
            f"no kubeconfig at {', '.join(map(str, paths))}; set KUBECONFIG or --kubeconfig to an existing file"
        )
    for path in found:
        merged.add(read(path), path.absolute())
    return _endpoint(merged, context or merged.current_context, clock, environ)


def read(path: Path) -> ConfigFile:
    """Read one file."""
    try:
        tree = parse_yaml(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the kubeconfig {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"the kubeconfig {path} is not valid YAML{where}") from None
    try:
        return codec.convert(tree if tree is not None else {}, ConfigFile)
    except InvalidError as error:
        raise ConfigError(f"{path}: {error.path or 'the file'} has the wrong type") from None


def _merge(into: dict[str, Entry[T]], what: str, entries: list[tuple[str, T]], path: Path) -> None:
    names = [name for name, _ in entries]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: {what} has two entries with the same name; remove one of them")
    for name, value in entries:
        into.setdefault(name, Entry(value, path))


def _endpoint(merged: Kubeconfig, context: str, clock: Clock, environ: Mapping[str, str]) -> Endpoint:
    if not context:
        raise ConfigError(
            "the kubeconfig has no current-context; choose a context with --context: " + _names(merged.contexts)
        )
    chosen = _named(merged.contexts, "context", context).value
    cluster = _named(merged.clusters, "cluster", chosen.cluster)
    user = _named(merged.users, "user", chosen.user) if chosen.user else Entry(User(), cluster.path)
    server = cluster.value.server
    if not server:
        raise ConfigError(f"cluster {chosen.cluster!r} of the kubeconfig has no server address")
    proxy = cluster.value.proxy_url
    return Endpoint(
        server=server,
        credentials=_credentials(user, cluster, chosen.user, clock, environ),
        trust=_trust(cluster, clock),
        namespace=chosen.namespace or "default",
        proxy=proxies.check(proxy) if proxy else proxies.from_environment(server, environ),
        impersonate=_impersonation(user.value),
        origin=f"context {context!r}",
    )


def _named(entries: Mapping[str, Entry[T]], what: str, name: str) -> Entry[T]:
    if name not in entries:
        raise ConfigError(f"the kubeconfig has no {what} {name!r}; it has: {_names(entries)}")
    return entries[name]


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _trust(cluster: Entry[Cluster], clock: Clock) -> Trust:
    value = cluster.value
    authority = _material(
        cluster, value.certificate_authority_data, value.certificate_authority, "certificate-authority", clock
    )
    return Trust(authority, value.tls_server_name, value.insecure_skip_tls_verify)


def _credentials(
    user: Entry[User], cluster: Entry[Cluster], name: str, clock: Clock, environ: Mapping[str, str]
) -> Credentials:
    value = user.value
    if value.username or value.password:
        raise ConfigError(
            f"user {name!r}: username and password are not supported; use a token or a client certificate"
        )
    if value.auth_provider is not None:
        raise ConfigError(f"user {name!r}: auth-provider is not supported; use an exec plugin")
    certificate = _material(user, value.client_certificate_data, value.client_certificate, "client-certificate", clock)
    key = _material(user, value.client_key_data, value.client_key, "client-key", clock)
    if (certificate is None) != (key is None):
        raise ConfigError(f"user {name!r} has only one of client-certificate and client-key; set both")
    token = _token(user, clock)
    if value.exec is not None and token is None and certificate is None:
        return ExecCredentials(_plugin(user, cluster, value.exec, name), clock, environ=environ)
    return StaticCredentials(token=token, certificate=certificate, key=key)


def _token(user: Entry[User], clock: Clock) -> Material | None:
    """The token of a user. tokenFile wins over token: it is kept current."""
    if user.value.token_file:
        return FileMaterial(user.file(user.value.token_file), clock)
    return InlineMaterial(user.value.token.encode()) if user.value.token else None


def _material(entry: Entry[T], data: str, file: str, what: str, clock: Clock) -> Material | None:
    """Material from inline data, which wins, or from a file."""
    if data:
        try:
            return InlineMaterial(base64.b64decode(data, validate=True).strip())
        except (binascii.Error, ValueError):
            raise ConfigError(f"{entry.path}: {what}-data is not valid base64") from None
    return FileMaterial(entry.file(file), clock) if file else None


def _plugin(user: Entry[User], cluster: Entry[Cluster], written: Exec, name: str) -> Plugin:
    mode = written.interactive_mode
    if not mode and written.api_version.endswith("/v1"):
        raise ConfigError(f"user {name!r}: exec: interactiveMode must be Never, IfAvailable or Always")
    command = written.command
    return Plugin(
        command=str(user.file(command)) if "/" in command else command,
        api_version=written.api_version,
        args=written.args,
        env={variable.name: variable.value for variable in written.env},
        interactive_mode=mode or "IfAvailable",
        install_hint=_printable(written.install_hint),
        cluster=_cluster_info(cluster) if written.provide_cluster_info else None,
    )


def _cluster_info(cluster: Entry[Cluster]) -> JSON:
    """The cluster information that an exec plugin receives."""
    value = cluster.value
    info: JSON = {"server": value.server}
    if value.tls_server_name:
        info["tls-server-name"] = value.tls_server_name
    if value.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if value.proxy_url:
        info["proxy-url"] = value.proxy_url
    data = value.certificate_authority_data
    if not data and value.certificate_authority:
        data = base64.b64encode(_read_file(cluster.file(value.certificate_authority))).decode()
    if data:
        info["certificate-authority-data"] = data
    config = next((e.extension for e in value.extensions if e.name == _EXEC_EXTENSION), None)
    return info | {"config": config}


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise ConfigError(f"the file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _impersonation(user: User) -> dict[str, tuple[str, ...]]:
    if not user.as_:
        if user.as_uid or user.as_groups or user.as_user_extra:
            raise ConfigError("as-uid, as-groups and as-user-extra need `as` (the user to impersonate)")
        return {}
    headers: dict[str, tuple[str, ...]] = {"Impersonate-User": (user.as_,)}
    if user.as_uid:
        headers["Impersonate-Uid"] = (user.as_uid,)
    if user.as_groups:
        headers["Impersonate-Group"] = user.as_groups
    for name, values in user.as_user_extra.items():
        headers[f"Impersonate-Extra-{_escaped(name)}"] = values
    return headers


def _escaped(name: str) -> str:
    """A name as part of a header name; other characters are percent-encoded."""
    legal = b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(chr(byte) if byte in legal else f"%{byte:02X}" for byte in name.lower().encode())


def _printable(text: str) -> str:
    """The text with control characters replaced, so that it is safe to print on a terminal."""
    return "".join(c if c in "\t\n" or unicodedata.category(c)[0] != "C" else f"U+{ord(c):04X}" for c in text)
