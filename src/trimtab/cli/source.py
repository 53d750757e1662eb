"""Where a command reads its cluster from: a live one, found as kubectl finds it, or a file of `trimtab snapshot`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trimtab.cli.output import Progress, warn

if TYPE_CHECKING:
    from trimtab.api.workloads import ReplicaSetOwners
    from trimtab.inspection.cluster import Cluster
    from trimtab.inspection.settings import Settings
    from trimtab.kube.client import Client
    from trimtab.kube.endpoints import Endpoint

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """The options that say which cluster is meant."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    snapshot: Path | None = None
    config: Path | None = None

    def endpoint(self) -> Endpoint:
        """The API server."""
        from trimtab.kube.config import discover

        return discover(self.kubeconfig, context=self.context)

    def client(self) -> Client:
        """A client that only reads."""
        return client_of(self.endpoint())

    def chosen_namespace(self, cluster: Cluster) -> str:
        """The namespace asked about: the option's, or that of the context or of the file."""
        return self.namespace or cluster.namespace

    def settings(self) -> Settings:
        """The configuration that decisions are made with."""
        from trimtab.inspection.settings import Settings
        from trimtab.ranking.strategies import registry

        if self.config is None:
            return Settings(strategies=registry())
        from trimtab.cli.run import configured

        return Settings(configured(self.config, {}), strategies=registry())

    def owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets, by the configuration."""
        from trimtab.api.workloads import DEPLOYMENTS

        return DEPLOYMENTS if self.config is None else self.settings().owners

    def read(self, kinds: Iterable[type[Any]] | None = None) -> Cluster:
        """The cluster, with warnings about what could not be read of it."""
        cluster = self._read(kinds)
        for gap in cluster.gaps:
            warn(gap.sentence())
        return cluster

    def _read(self, kinds: Iterable[type[Any]] | None) -> Cluster:
        if self.snapshot is not None:
            from trimtab.inspection import files

            return files.load(self.snapshot)
        from trimtab.inspection import reading

        endpoint, owners = self.endpoint(), self.owners()

        async def ask() -> Cluster:
            with Progress("reading") as progress:
                async with client_of(endpoint) as client:
                    return await reading.read(
                        client,
                        namespace=self.namespace or endpoint.namespace,
                        kinds=(*reading.ALL, *owners.custom) if kinds is None else kinds,
                        origin=endpoint.origin,
                        progress=progress.update,
                    )

        return asyncio.run(ask())


def client_of(endpoint: Endpoint) -> Client:
    """A client of an API server."""
    from trimtab.kube.client import Client
    from trimtab.kube.sessions import Session

    return Client(Session(endpoint))


def source_options(function: F) -> F:
    """The options of commands that read a cluster, live or from a file."""
    snapshot = click.option(
        "--snapshot",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Read a file of `trimtab snapshot` in place of a cluster.",
    )
    return live_options(config_option(snapshot(function)))


def live_options(function: F) -> F:
    """The options that say which cluster is meant, as kubectl has them."""
    for option in (
        click.option("-n", "--namespace", default="", help="The namespace.  [default: that of the context]"),
        click.option("--context", default="", help="The context of the kubeconfig."),
        click.option(
            "--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file; found as kubectl finds it."
        ),
    ):
        function = option(function)
    return function


def config_option(function: F) -> F:
    """The configuration that decisions are made with."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="A TrimtabConfiguration, for default policies and constraints, and workloads of other kinds.  [default: "
        "that of a new installation]",
    )(function)
