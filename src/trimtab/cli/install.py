"""`trimtab install`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from trimtab.kube.files import read_yaml, with_kube_scheduler, with_scheduler

if TYPE_CHECKING:
    from trimtab.api.configuration import TrimtabConfiguration
    from trimtab.api.documents import JSON
    from trimtab.install.definitions import Choice
    from trimtab.install.options import Options
    from trimtab.kube.client import Client

KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file; found as kubectl finds it."
)
CONTEXT = click.option("--context", default="", help="The context of the kubeconfig.")
NAMESPACE = click.option(
    "--namespace", default="trimtab-system", show_default=True, help="The namespace of the installation."
)


@click.command(
    epilog="""
\b
Examples:
  trimtab install | kubectl apply -f -                     observes scale-downs, and changes no pod
  trimtab install --mode enforce | kubectl apply -f -      keeps every workload level on scale-downs
  trimtab install --image registry.example.com/trimtab:1.0 --config trimtab.yaml | kubectl apply -f -
  trimtab install --component webhooks --component controllers      without the scheduler
  trimtab install --deny-cost-changes --api-server-cidr auto
  trimtab install --local --config trimtab.yaml | kubectl apply -f -    for `trimtab run` outside the cluster
  trimtab install --kustomize deploy/trimtab && kubectl apply -k deploy/trimtab/overlays/enforce
"""
)
@NAMESPACE
@click.option("--image", help="The image to run.  [default: trimtab with this version as its tag]")
@click.option(
    "--component", "components", multiple=True, help="A component to install; repeatable.  [default: as configured]"
)
@click.option("--replicas", type=click.IntRange(min=1), default=2, show_default=True, help="Of each component.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A TrimtabConfiguration to install.")
@click.option(
    "--mode",
    type=click.Choice(["observe", "enforce"]),
    help="The mode of every default policy: observe plans and reports scale-downs and writes nothing to pods, enforce "
    "keeps workloads level.  [default: observe, or as configured]",
)
@click.option(
    "--crds",
    type=click.Choice(["auto", "all", "none"]),
    default="auto",
    show_default=True,
    help="Definitions of our kinds. An existing one that is not Trimtab's is always left out; without a cluster, auto "
    "also leaves out those that others may have installed.",
)
@click.option(
    "--deny-cost-changes",
    is_flag=True,
    help="Deny changes of costs by others in namespaces labelled trimtab.dev/protect-costs=true, instead of a warning.",
)
@click.option(
    "--group-cost-edits",
    is_flag=True,
    help="Let users with the role edit or admin in a namespace write PodGroupCosts there, which decide which pods are "
    "deleted first. Without it, grant that to the component that ranks pods.",
)
@click.option(
    "--api-server-cidr",
    multiple=True,
    help="A CIDR that API servers call webhooks from, or auto for the addresses that they publish in the cluster; "
    "repeatable.  [default: any]",
)
@click.option(
    "--monitoring",
    is_flag=True,
    help="Print a PodMonitor and a PrometheusRule with alerts too, for clusters with the Prometheus operator.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The CA bundle of the webhooks, if webhooks.certificates.source is Files.",
)
@click.option(
    "--local",
    "local_only",
    is_flag=True,
    help="Only what processes outside the cluster need: our kinds, and webhook configurations for webhooks.url.",
)
@click.option(
    "--no-match-conditions",
    is_flag=True,
    help="With --local: leave out match conditions, which API servers before 1.30 and the lab do not evaluate.",
)
@click.option(
    "--kustomize",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a kustomize base with overlays into this directory, for `kubectl apply -k`, instead of printing.",
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@KUBECONFIG
@CONTEXT
def install(
    namespace: str,
    image: str | None,
    components: tuple[str, ...],
    replicas: int,
    config_file: Path | None,
    mode: str | None,
    crds: str,
    deny_cost_changes: bool,
    group_cost_edits: bool,
    api_server_cidr: tuple[str, ...],
    monitoring: bool,
    ca_file: Path | None,
    local_only: bool,
    no_match_conditions: bool,
    folder: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Print all objects of an installation, for `kubectl apply -f -`. Nothing is written to the cluster."""
    from trimtab.install import definitions, manifests
    from trimtab.install.options import Options

    if local_only:
        if folder is not None:
            raise click.BadParameter("cannot be combined with --local", param_hint="--kustomize")
        _print(_local(config_file, mode, conditions=not no_match_conditions), output)
        return
    if no_match_conditions:
        raise click.BadParameter(
            "needs --local: clusters that run Trimtab evaluate them", param_hint="--no-match-conditions"
        )
    configuration = _configuration(config_file, mode)
    overrides: dict[str, Any] = {} if image is None else {"image": image}
    chosen = components or tuple(configuration.get("components") or ())
    overrides |= {"components": _components(chosen)} if chosen else {}
    options = Options(
        namespace=namespace,
        replicas=replicas,
        configuration=configuration,
        deny_cost_changes=deny_cost_changes,
        group_cost_edits=group_cost_edits,
        monitoring=monitoring,
        api_server_ranges=_ranges(api_server_cidr, kubeconfig, context),
        ca_bundle=b"" if ca_file is None else ca_file.read_bytes(),
        **overrides,
    )
    _check(options.read())
    state = _cluster_state(kubeconfig, context, options)
    selection = definitions.choose(cast("Choice", crds), state.definitions)
    clonesets = definitions.has_clonesets(selection, state.definitions)
    options = replace(options, clonesets=clonesets, shared=state.shared)
    kept = [f"namespace {namespace} is not changed: {state.shared}"] if state.shared else []
    notes = (*_remaining_tasks(options), *_port_notes(options), *_mode_notes(options))
    workloads = definitions.workload_notes(options.read().workloads, state.definitions)
    _print_notes(*selection.notes, *workloads, *kept, *state.notes, *notes)
    if folder is not None:
        _write_kustomize(folder, options, selection.manifests)
    else:
        _print(manifests.everything(options, selection.manifests), output)


def _write_kustomize(folder: Path, options: Options, definitions: Sequence[JSON]) -> None:
    from trimtab.install import kustomize

    base = kustomize.Installation(options, definitions)
    kustomize.write(folder, kustomize.files(base))
    click.echo(f"{folder}/base")
    for name in kustomize.overlays(base):
        click.echo(f"{folder}/overlays/{name}")


def _configuration(config_file: Path | None, mode: str | None) -> Mapping[str, Any]:
    """The configuration to install: the file's or the default one, with the mode from the command line."""
    from trimtab.install.modes import MODES, with_mode
    from trimtab.install.options import DEFAULT_CONFIGURATION

    tree = DEFAULT_CONFIGURATION
    if config_file is not None:
        folder = config_file.parent
        tree = with_kube_scheduler(with_scheduler(read_yaml(config_file), folder), folder)
    return tree if mode is None else with_mode(tree, MODES[mode])


def _local(config_file: Path | None, mode: str | None, *, conditions: bool) -> list[JSON]:
    from trimtab.cli.run import configured
    from trimtab.install import local, modes

    if mode is not None:
        reason = "--local prints no configuration; set mode in the file that `trimtab run --config` reads"
        raise click.BadParameter(reason, param_hint="--mode")
    configuration = configured(config_file, {})
    objects = local.manifests(configuration, conditions=conditions)
    _print_notes(*modes.notes(configuration, is_local=True))
    return objects


def _check(configuration: TrimtabConfiguration) -> None:
    """Raise InvalidError for a configuration that is invalid, or that several processes cannot share."""
    from trimtab import app
    from trimtab.api.errors import InvalidError

    app.check(configuration)
    if not configuration.leader_election.enabled:
        reason = "several processes of an installation run at the same time, if only during an update; write true"
        raise InvalidError("leaderElection.enabled", reason)


def _remaining_tasks(options: Options) -> Iterator[str]:
    """What an administrator who manages the certificates has to do as well."""
    certificates = options.read().webhooks.certificates
    if certificates.source == "CertManager" and "webhooks" in options.components:
        yield "cert-manager issues the certificate of the webhooks: it must run in the cluster before this is applied"
    if certificates.source != "Files" or "webhooks" not in options.components:
        return
    files = f"{certificates.certificate_file} and {certificates.key_file}"
    yield f"the Deployment trimtab-webhooks is not ready until {files} are mounted"
    if not options.ca_bundle:
        yield "without --ca-file, API servers call the webhooks only if they trust that certificate's signer anyway"


def _port_notes(options: Options) -> Iterator[str]:
    """Who reaches the webhooks' port."""
    if "webhooks" not in options.components:
        return
    if options.api_server_ranges:
        found = ", ".join(options.api_server_ranges)
        yield f"only {found} reach the webhooks' port, where the network enforces NetworkPolicies"
    elif not options.read().webhooks.client_ca_file:
        yield "the webhooks' port is open to the whole cluster; --api-server-cidr auto (or a CIDR) limits it"


def _mode_notes(options: Options) -> Iterator[str]:
    """How to enforce default policies that observe; the scheduler has nothing to do with them."""
    from trimtab.install import modes

    if set(options.components) != {"scheduler"}:
        yield from modes.notes(options.read())


def _components(names: Sequence[str]) -> tuple[str, ...]:
    from trimtab.api.configuration import ComponentName

    known = get_args(ComponentName)
    for name in names:
        if name not in known:
            raise click.BadParameter(f'"{name}" is none of {", ".join(known)}', param_hint="--component")
    return tuple(name for name in known if name in names)


_AUTO = "auto"


def _ranges(cidrs: Sequence[str], kubeconfig: Path | None, context: str) -> tuple[str, ...]:
    import ipaddress

    try:
        stated = [str(ipaddress.ip_network(text)) for text in cidrs if text != _AUTO]
    except ValueError as error:
        reason = f"{error}; write it as 10.0.0.0/28, or write auto"
        raise click.BadParameter(reason, param_hint="--api-server-cidr") from error
    return tuple(dict.fromkeys([*stated, *(_api_servers(kubeconfig, context) if _AUTO in cidrs else ())]))


def _api_servers(kubeconfig: Path | None, context: str) -> tuple[str, ...]:
    """The addresses of the cluster's API servers: without them the port would be open, so that is an error."""
    from trimtab.install import api_servers
    from trimtab.kube.errors import KubeError

    async def ask() -> tuple[str, ...]:
        async with connect(kubeconfig, context) as client:
            return await api_servers.ranges(client)

    try:
        found, reason = asyncio.run(ask()), "the Service kubernetes in default has no address other machines can use"
    except KubeError as error:
        found, reason = (), f"the cluster was not reached: {error}"
    if not found:
        raise click.BadParameter(f"auto found no API server: {reason}; write a CIDR", param_hint="--api-server-cidr")
    return found


@dataclass(frozen=True, slots=True)
class _ClusterState:
    """What an installation depends on: definitions (None if the cluster was not reached), and whose namespace it is."""

    definitions: list[JSON] | None
    shared: str
    notes: tuple[str, ...] = ()


def _cluster_state(kubeconfig: Path | None, context: str, options: Options) -> _ClusterState:
    from trimtab.install import namespaces
    from trimtab.kube.errors import KubeError

    async def ask() -> _ClusterState:
        async with connect(kubeconfig, context) as client:
            shared = await namespaces.why_foreign(client, options.namespace)
            return _ClusterState(await _definitions(client), shared, await _installation_notes(client, options))

    try:
        return asyncio.run(ask())
    except KubeError as error:
        click.echo(f"trimtab: the cluster was not reached: {error}", err=True)
        return _ClusterState(None, namespaces.why_foreign_by_name(options.namespace))


async def _installation_notes(client: Client, options: Options) -> tuple[str, ...]:
    """What there is of other installations, and of an earlier configuration of this one, as far as it can be read."""
    from trimtab.install import installations
    from trimtab.kube.errors import Forbidden

    try:
        others = await installations.others(client, options.namespace)
        dropped = await installations.dropped_bindings(client, options)
    except Forbidden as error:
        return (f"other installations were not looked for: {error}",)
    where = sorted({each["metadata"]["namespace"] for each in dropped})
    command = f"trimtab uninstall --namespace {options.namespace} --dropped-namespaces"
    note = f"permissions in {', '.join(where)} are not needed any more: {command} removes them"
    return (*installations.overlaps(options.read().namespaces, others), *([note] if where else []))


async def _definitions(client: Client) -> list[JSON]:
    from trimtab.api.extensions import CustomResourceDefinition
    from trimtab.kube.resources import Resource

    return list((await client.list(Resource.of(CustomResourceDefinition).raw)).items)


def connect(kubeconfig: Path | None, context: str) -> Client:
    """A client of the cluster of a kubeconfig, which gives up soon."""
    from trimtab.kube.client import Client
    from trimtab.kube.config import discover
    from trimtab.kube.retries import NO_RETRIES
    from trimtab.kube.sessions import Session

    return Client(Session(discover(kubeconfig, context=context))).using(retry=NO_RETRIES, timeout=10.0)


def _print_notes(*notes: str) -> None:
    """Print notes for people, apart from the objects."""
    for note in notes:
        click.echo(f"trimtab: {note}", err=True)


def _print(objects: Sequence[JSON], output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
    else:
        from trimtab.install.text import as_yaml

        click.echo(as_yaml(objects), nl=False)
