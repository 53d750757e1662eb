"""Shell completion: scripts for shells and for `kubectl trimtab`, and names from the live cluster."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_TIMEOUT = 3.0
_NO_FILES = 4
"""What tells kubectl not to offer file names."""

_SCRIPTS = ("bash", "zsh", "fish")


@click.command(
    epilog="""
\b
Examples:
  source <(trimtab completion bash)                             in ~/.bashrc
  trimtab completion fish > ~/.config/fish/completions/trimtab.fish
  kubectl trimtab plan deploy/<TAB>                             works where kubectl_complete-trimtab is in the PATH
"""
)
@click.argument("shell", type=click.Choice(_SCRIPTS))
def completion(shell: str) -> None:
    """Print the completion script of a shell. Names of workloads and pods are completed from the live cluster."""
    from click.shell_completion import get_completion_class

    from trimtab.cli.commands import commands

    found = get_completion_class(shell)
    if found is None:  # pragma: no cover - the choice lists what click has
        raise click.ClickException(f"there is no completion for {shell}")
    click.echo(found(commands, {}, "trimtab", "_TRIMTAB_COMPLETE").source())


def complete_workload(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Workloads of the namespace, as `deploy/web`."""
    return _complete(context, incomplete, pods=False)


def complete_pod(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Pods of the namespace, as `pod/web-5d4f-x2b9k`."""
    return _complete(context, incomplete, pods=True)


def _complete(context: click.Context, incomplete: str, *, pods: bool) -> list[CompletionItem]:
    """Names that begin with what was typed; none where the cluster does not answer at once."""
    with suppress(Exception):
        names = _names(context.params, pods=pods)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return []


def _names(params: dict[str, Any], *, pods: bool) -> list[str]:
    from trimtab.api.pods import Pod
    from trimtab.cli.source import Source
    from trimtab.inspection import targets

    source = Source(
        *(params.get("kubeconfig"), params.get("context") or "", params.get("namespace") or ""),
        *(params.get("snapshot"), params.get("config")),
    )
    workloads = [*(kind for kind in targets.PREFIXES if kind is not Pod), *source.owners().custom]
    kinds = [Pod] if pods else workloads
    if source.snapshot is not None:
        from trimtab.inspection import files

        cluster = files.load(Path(source.snapshot))
        namespace = source.chosen_namespace(cluster)
        return targets.typed_names(cluster, kinds, namespace)
    return asyncio.run(_live_names(source, kinds))


async def _live_names(source: Any, kinds: list[type[Any]]) -> list[str]:
    from trimtab.cli.source import client_of
    from trimtab.inspection import reading, targets

    endpoint = source.endpoint()
    namespace = source.namespace or endpoint.namespace
    async with asyncio.timeout(_TIMEOUT), client_of(endpoint) as client:
        cluster = await reading.read(client, namespace=namespace, kinds=kinds)
    return targets.typed_names(cluster, kinds, namespace)


def kubectl() -> None:
    """What kubectl runs as `kubectl_complete-trimtab`: one name a line, then a directive."""
    from click.shell_completion import ShellComplete

    from trimtab.cli.commands import commands

    *arguments, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, "kubectl trimtab", "").get_completions(arguments, incomplete)
    for item in found:
        click.echo(item.value)
    click.echo(f":{_NO_FILES}")
