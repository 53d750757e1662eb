"""Exec credential plugins (`client.authentication.k8s.io`, v1 and v1beta1).

The plugin reads KUBERNETES_EXEC_INFO and writes an ExecCredential to its standard output, which is used until it
expires or the server refuses it. Then the plugin is run again; never twice concurrently, because it may prompt the
user. Its output is secret and never shown; it shares our standard error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimtab.api import codec, times
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.kube.clocks import Clock, within
from trimtab.kube.credentials import Grant
from trimtab.kube.errors import ConfigError, CredentialsError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_TIMEOUT = 60.0
"""Seconds that a plugin may take, unless it is interactive."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plugin:
    """How to run the plugin."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: JSON | None = field(default=None, repr=False)
    """The cluster information for the plugin, if provideClusterInfo is set."""

    def __post_init__(self) -> None:
        if self.api_version not in API_VERSIONS:
            raise ConfigError(f"exec: apiVersion {self.api_version!r} is not one of {', '.join(API_VERSIONS)}")
        if self.interactive_mode not in ("Never", "IfAvailable", "Always"):
            raise ConfigError(f"exec: interactiveMode {self.interactive_mode!r} is not Never, IfAvailable or Always")
        if not self.command:
            raise ConfigError("exec: command is missing")


class ExecStatus(Model):
    """The credentials in a plugin's output."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class ExecCredential(Model):
    """The output of a plugin."""

    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


class ExecCredentials:
    """Credentials from an exec plugin."""

    def __init__(
        self, plugin: Plugin, clock: Clock, *, environ: Mapping[str, str], terminal: Callable[[], bool] | None = None
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._environ = environ
        self._terminal = terminal or _has_terminal
        self._running = asyncio.Lock()
        self._grant: Grant | None = None
        self._expires: int | None = None

    def __repr__(self) -> str:
        return f"ExecCredentials({self._plugin.command!r})"

    async def grant(self) -> Grant:
        """The last credentials, or new ones if they have expired."""
        async with self._running:
            if self._grant is None or self._expired():
                await self._refresh()
            assert self._grant is not None  # noqa: S101 - _refresh sets it
            return self._grant

    async def renew(self, refused: Grant) -> bool:
        """Run the plugin again, unless a concurrent request has done so already."""
        async with self._running:
            if self._grant == refused:
                await self._refresh()
            return self._grant != refused

    def _expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires

    async def _refresh(self) -> None:
        interactive = self._interactive()
        output = await self._run(interactive)
        status = self._checked(output)
        self._expires = self._expiry(status)
        self._grant = Grant(
            status.token, status.client_certificate_data.encode().strip(), status.client_key_data.encode().strip()
        )

    def _interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        terminal = self._terminal()
        if mode == "Always" and not terminal:
            raise CredentialsError(
                f"exec: {self._plugin.command} needs a terminal (interactiveMode: Always), but there is none"
            )
        return terminal

    async def _run(self, interactive: bool) -> bytes:
        process = await self._start(interactive)
        try:
            if interactive:
                output, _ = await process.communicate()
            else:
                output, _ = await within(self._clock, _TIMEOUT, process.communicate())
        except TimeoutError:
            raise CredentialsError(f"exec: {self._plugin.command} did not finish within {_TIMEOUT:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise CredentialsError(f"exec: {self._plugin.command} failed with exit code {process.returncode}")
        return output

    async def _start(self, interactive: bool) -> asyncio.subprocess.Process:
        plugin = self._plugin
        env = {**self._environ, **plugin.env, "KUBERNETES_EXEC_INFO": self._info(interactive)}
        program = shutil.which(plugin.command, path=env.get("PATH", os.defpath))
        if program is None:
            hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
            raise CredentialsError(
                f"exec: {plugin.command}, which the kubeconfig names, is not installed or not in PATH{hint}"
            )
        stdin = None if interactive else asyncio.subprocess.DEVNULL
        try:
            return await asyncio.create_subprocess_exec(
                program, *plugin.args, env=env, stdin=stdin, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise CredentialsError(f"exec: {plugin.command} cannot be run: {error.strerror}") from error

    def _info(self, interactive: bool) -> str:
        spec: JSON = {"interactive": interactive}
        if self._plugin.cluster is not None:
            spec["cluster"] = self._plugin.cluster
        return codec.encode({"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}).decode()

    def _checked(self, output: bytes) -> ExecStatus:
        plugin = self._plugin
        try:
            answer = codec.decode(output, ExecCredential)
        except InvalidError:
            # Not chained: the error quotes the output, which is secret.
            raise CredentialsError(f"exec: the output of {plugin.command} is not an ExecCredential") from None
        if answer.api_version != plugin.api_version:
            raise CredentialsError(
                f"exec: {plugin.command} returned apiVersion {answer.api_version or 'none'}, "
                f"not {plugin.api_version}; set exec.apiVersion in the kubeconfig to a version that the plugin supports"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise CredentialsError(f"exec: {plugin.command} returned neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise CredentialsError(f"exec: {plugin.command} returned only one of certificate and key")
        return status

    def _expiry(self, status: ExecStatus) -> int | None:
        if not status.expiration_timestamp:
            return None
        try:
            return times.parse_ns(status.expiration_timestamp)
        except InvalidError as error:
            raise CredentialsError(f"exec: {self._plugin.command}: expirationTimestamp: {error}") from error


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
