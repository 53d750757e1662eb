"""`trimtab dashboard`: the dashboard, read-only, on a cluster or on a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.output import line, warn
from trimtab.cli.source import Source, client_of, source_options

if TYPE_CHECKING:
    from trimtab.dashboard.access import Access
    from trimtab.dashboard.lab_controls import LabControls
    from trimtab.dashboard.server import Listening
    from trimtab.dashboard.sources import ClusterSource
    from trimtab.inspection.settings import Settings

_PORT = 10280


@dataclass(frozen=True, slots=True)
class _Options:
    host: str
    port: int
    certificate_file: Path | None
    key_file: Path | None
    token_file: Path | None
    host_names: tuple[str, ...]
    lab_controls: Path | None

    def listening(self) -> Listening:
        from trimtab.dashboard.server import Listening

        names = frozenset(name.lower() for name in self.host_names)
        return Listening(self.host, self.port, self.certificate_file, self.key_file, names)


@click.command(
    epilog="""
\b
Examples:
  trimtab dashboard                                      on the cluster of $KUBECONFIG, at http://127.0.0.1:10280/
  trimtab dashboard -n shop                              one namespace
  trimtab dashboard --snapshot cluster.json.zst          a file of `trimtab snapshot`, without a cluster
  trimtab dashboard --host 0.0.0.0 --certificate-file tls.crt --key-file tls.key
                                                         for other machines: with TLS, and a token that is printed
"""
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="The port to listen on; 0 for any free one.",
)
@click.option(
    "--certificate-file", type=click.Path(path_type=Path), help="A PEM file with the server's certificate and chain."
)
@click.option("--key-file", type=click.Path(path_type=Path), help="A PEM file with the certificate's private key.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file with the token that callers need.  [default: a new one, which is printed; none on loopback]",
)
@click.option(
    "--host-name", "host_names", multiple=True, help="A further name that browsers may use for it; repeatable."
)
@click.option("--lab-controls", type=click.Path(path_type=Path), hidden=True)
@source_options
def dashboard(
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    snapshot: Path | None,
    config: Path | None,
    **options: object,
) -> None:
    """Serve pages that show where pods are, which go next, and why.

    Nothing is installed and nothing is written: list and watch rights are enough, and what may not be listed is named.
    Only this machine can connect, unless another address is given; beyond this machine TLS and a token are needed.
    """
    from trimtab.kube.processes import collect_less_often, run_until_stopped, set_up_logs, set_up_memory

    source = Source(kubeconfig, context, namespace, snapshot, config)
    chosen = _Options(**options)  # type: ignore[arg-type]
    set_up_logs(level="warning")
    collect_less_often()
    set_up_memory()
    run_until_stopped(lambda: _serve(source, chosen))


async def _serve(source: Source, options: _Options) -> None:
    from trimtab.dashboard.server import DashboardServer

    settings, listening = source.settings(), options.listening()
    access, token = _access(options)
    listening.check(is_authenticated=access.needs_token)
    async with _opened(source, settings) as shown:
        server = DashboardServer(shown, settings, listening, access, _lab(options.lab_controls))
        await server.run(lambda url: _announce(url, token))


def _announce(url: str, token: str) -> None:
    line(f"the dashboard is at {url}")
    if token:
        line(f"its token is {token}")


@asynccontextmanager
async def _opened(source: Source, settings: Settings) -> AsyncIterator[ClusterSource]:
    """The cluster that is shown."""
    from trimtab.dashboard.sources import FileSource, LiveSource
    from trimtab.inspection import files, reading
    from trimtab.inspection.following import ClusterFollower

    if source.snapshot is not None:
        yield FileSource(files.load(source.snapshot), settings)
        return
    endpoint = source.endpoint()
    async with client_of(endpoint) as client:
        asked = source.namespace or endpoint.namespace
        scope, kinds, gaps = await reading.readable(client, namespace=asked, kinds=reading.ALL)
        for gap in gaps:
            warn(gap.sentence())
        namespace = source.namespace or scope
        follower = ClusterFollower(
            client, namespace=namespace, kinds=kinds, gaps=gaps, origin=endpoint.origin, default_namespace=asked
        )
        yield LiveSource(follower, settings, namespace=namespace)


def _access(options: _Options) -> tuple[Access, str]:
    """How callers are authenticated, and the token to print."""
    import secrets

    from trimtab.api.errors import InvalidError
    from trimtab.dashboard.access import OpenAccess, TokenAccess
    from trimtab.dashboard.guards import is_loopback

    if options.token_file is not None:
        token = options.token_file.read_text().strip()
        if not token or not token.isascii():
            problem = "has other characters than ASCII" if token else "is empty"
            raise InvalidError("--token-file", f"{options.token_file} {problem}; write a token into it")
        return TokenAccess(token), ""
    if is_loopback(options.host):
        return OpenAccess(), ""
    token = secrets.token_urlsafe(24)
    return TokenAccess(token), token


def _lab(path: Path | None) -> LabControls | None:
    """The controls of the lab that started this process."""
    if path is None:
        return None
    import json

    from trimtab.dashboard.lab_controls import LabControls

    tree = json.loads(path.read_text())
    return LabControls(tree["url"], tree["secret"])
