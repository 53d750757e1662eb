"""`trimtab lab`: the commands of the lab, which is a distribution of its own and is found by entry point."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

GROUP = "trimtab.commands"
MISSING = "the lab is not installed; install it with: pip install 'trimtab[lab]'"


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lab(arguments: tuple[str, ...]) -> None:
    """A small cluster on this machine: API server, workloads, nodes, and Trimtab itself."""
    found = [point for point in entry_points(group=GROUP) if point.name == "lab"]
    if not found:
        raise click.ClickException(MISSING)
    command: click.Command = found[0].load()
    command.main(list(arguments), prog_name="trimtab lab", standalone_mode=False)
